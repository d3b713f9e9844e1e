"""The facts and ports of a node that all parts of the plugin share."""

from collections.abc import Callable
from dataclasses import dataclass

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Api
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Card, HardwarePorts
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.left_out import LeftOut
from kubeletplugin.hardware.remembered_cards import CardMemory, Failures, RememberedCards


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

    def remembered_cards(self, folder: str, finds: Callable[[], int] = lambda: 0) -> RememberedCards:
        """The node's cards with the memory of this boot, which all its programs share.

        Args:
            folder: the folder for the two files; they exist only while a card is lost or has failed.
            finds: see ``RememberedCards``.
        """
        memory = CardMemory(
            BootFile(self.files, f"{folder}/failed-cards.json", self.boot_id, list[Card], self.log),
            BootFile(self.files, f"{folder}/health.json", self.boot_id, Failures, self.log),
        )
        section = self.settings.kubeletplugin
        return RememberedCards(
            self.hardware,
            self.clock,
            section.recovery_seconds,
            memory=memory,
            finds=finds,
            left_out=LeftOut(section.exclude_cards),
        )
