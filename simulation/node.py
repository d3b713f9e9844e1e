"""A node as hardware and disk, which outlives the programs on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from driver.files import Files
from driver.kube.api import Object
from driver.model import Result


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
    files: Files
    kubelet_root: str = "/var/lib/kubelet"
    containers: dict[str, Container] = field(default_factory=dict)
    """By pod uid."""
    boots: int = 1

    @property
    def boot_id(self) -> str:
        """The content of ``/proc/sys/kernel/random/boot_id``."""
        return str(uuid5(NAMESPACE_URL, f"{self.name}/{self.boots}"))


Jitter = Callable[[], float]
"""Returns a number from 0 to 1."""
