"""The objects that all workers use."""

from dataclasses import dataclass

from controller.loop.metrics import ControllerMetrics
from controller.loop.turns import Turns
from controller.loop.writes_in_flight import WritesInFlight
from controller.reconcile import RefusalMemory
from controller.state import State
from controller.writing import Writes
from driver.clock import Clock
from driver.observe import Logger
from driver.settings import ControllerSettings


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all workers of a term of leadership use.

    Attributes:
        queue: what is to be decided about.
        writes: carries out reports, and whatever else gives no device to a claim.
        in_flight: carries out decisions about pods and claims.
        memory: the nodes that refused pods.
    """

    state: State
    queue: Turns
    writes: Writes
    in_flight: WritesInFlight
    memory: RefusalMemory
    clock: Clock
    metrics: ControllerMetrics
    log: Logger
    settings: ControllerSettings
