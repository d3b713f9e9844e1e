"""The facts and ports of a node that all parts of the plugin share."""

from dataclasses import dataclass

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Api
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import HardwarePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """One node between two reboots: its name, its settings, and the ports to the outside world."""

    name: str
    settings: Settings
    boot_id: str
    """The content of ``/proc/sys/kernel/random/boot_id``."""
    api: Api
    clock: Clock
    files: Files
    hardware: HardwarePorts
    log: Logger
