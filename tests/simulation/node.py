"""A node whose disk is in memory, with what may happen to it."""

from dataclasses import dataclass, field

from driver.settings import Settings
from simulation.node import SimulatedNode
from tests.simulation.files import MemoryFiles


@dataclass(slots=True)
class MemoryNode(SimulatedNode):
    """A node that may reboot, and whose files may be lost."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    has_lost_files: bool = False
    """Whether files of programs ever vanished or were damaged by others."""

    def reboot(self, settings: Settings, *, power_lost: bool = False) -> None:
        """Containers end, file systems in memory are emptied, and the boot id changes.

        Args:
            power_lost: what programs did not sync is lost, too.
        """
        self.containers.clear()
        if power_lost:
            self.files.disk.lose_power()
        self.files.disk.forget(settings.kubeletplugin.cdi_root)
        self.boots += 1

    def lose_file(self, path: str, content: bytes | None) -> None:
        """A file vanishes, or has this content from now on."""
        self.has_lost_files = True
        self.files.disk.lose(path, content)

    def end_containers(self, pod_uid: str, phase: str) -> bool:
        """Let a pod's containers exit by themselves; False if none are running."""
        container = self.containers.get(pod_uid)
        if container is None or container.exit_phase:
            return False
        container.exit_phase = phase
        return True
