"""What a controller reaches the outside world by."""

from dataclasses import dataclass

from controller.writing import Writes
from driver.clock import Clock
from driver.kube.api import Api
from driver.observe import Logger, Metrics


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of a controller.

    Attributes:
        api: read by the reflectors; nothing else goes through it.
        writes: carries decisions out; its owner passes every result on to ``Controller.handle``.
    """

    api: Api
    writes: Writes
    clock: Clock
    metrics: Metrics
    log: Logger
