"""A node as hardware and disk: what outlives the programs on it, and what a reboot takes away."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from driver.model import Result
from driver.settings import Settings
from simulation.files import MemoryFiles


@dataclass(slots=True)
class Container:
    """The containers of one running pod, as one."""

    pod: str
    """namespace/name"""
    devices: tuple[tuple[str, Result], ...]
    """What it can open, with the uid of the claim it came by."""
    stops_at: float | None = None
    """When they will have stopped (``Clock.monotonic``), once they were told to."""
    exit_phase: str = ""
    """Succeeded or Failed once the containers have ended by themselves."""


@dataclass(slots=True)
class Machine:
    """One node. Kubelet and plugin are built on it and may be thrown away; files and containers stay."""

    name: str
    files: MemoryFiles = field(default_factory=MemoryFiles)
    containers: dict[str, Container] = field(default_factory=dict)
    boots: int = 1

    @property
    def boot_id(self) -> str:
        """What ``/proc/sys/kernel/random/boot_id`` says."""
        return str(uuid5(NAMESPACE_URL, f"{self.name}/{self.boots}"))

    def reboot(self, settings: Settings) -> None:
        """Containers end, file systems in memory are empty, the boot id is another."""
        self.containers.clear()
        self.files.forget(settings.kubeletplugin.cdi_root)
        self.boots += 1

    def end(self, pod_uid: str, phase: str) -> bool:
        """Let a pod's containers end by themselves; False if it has none running."""
        container = self.containers.get(pod_uid)
        if container is None or container.exit_phase:
            return False
        container.exit_phase = phase
        return True


Jitter = Callable[[], float]
"""A number from 0 to 1."""
