"""A node as hardware and disk, which outlives the programs on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from driver.kube.api import Object
from driver.model import Result
from driver.settings import Settings
from simulation.files import MemoryFiles


def registered_node(name: str, labels: Mapping[str, str]) -> Object:
    """The Node object as the kubelet creates it."""
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "conditions": [ready]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"metadata": metadata, "status": status}


@dataclass(slots=True)
class Container:
    """All containers of one running pod."""

    pod: str
    """namespace/name"""
    devices: tuple[tuple[str, Result], ...]
    """The devices it can open, each with the uid of the claim that allocates it."""
    stops_at: float | None = None
    """Time at which the containers will have stopped (``Clock.monotonic``); None until the kubelet stops them."""
    exit_phase: str = ""
    """Succeeded or Failed once the containers have exited."""
    abandoned: bool = False
    """The kubelet stops them because their pod was gone. If it is there again, it is started anew."""


@dataclass(slots=True)
class SimulatedNode:
    """One node. Kubelet and plugin run on it and may be replaced; its files and containers remain."""

    name: str
    files: MemoryFiles = field(default_factory=MemoryFiles)
    containers: dict[str, Container] = field(default_factory=dict)
    """By pod uid."""
    boots: int = 1
    has_lost_files: bool = False
    """Whether files of programs ever vanished or were damaged by others."""

    @property
    def boot_id(self) -> str:
        """The content of ``/proc/sys/kernel/random/boot_id``."""
        return str(uuid5(NAMESPACE_URL, f"{self.name}/{self.boots}"))

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


Jitter = Callable[[], float]
"""Returns a number from 0 to 1."""
