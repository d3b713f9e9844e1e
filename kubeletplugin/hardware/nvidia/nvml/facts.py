"""Facts from NVML, as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeletplugin.hardware.answer import Answer, Unread


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """Facts that are the same for all cards of a node."""

    driver_version: Answer[str]
    """``580.65.06``"""
    cuda_version: Answer[str]
    """The newest CUDA that the driver serves, as a semantic version: ``13.0.0``."""


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """A GPU instance profile (``nvmlGpuInstanceProfileInfo_t``)."""

    index: int
    """NVML's constant ``NVML_GPU_INSTANCE_PROFILE_*``; the same on all cards."""
    id: int
    """The number by which this card's driver creates and lists instances."""
    name: str
    """``1g.10gb+me``; "" where the driver does not say it."""
    slices: int
    instances: int
    """The most instances of this profile on one card."""
    memory_mib: int
    engines: tuple[tuple[str, int], ...]
    """Multiprocessors and media engines, by name; without those that the profile has none of."""
    placements: tuple[tuple[int, int], ...]
    """First memory slice and number of memory slices; () where the driver does not say it."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One card."""

    index: int
    """NVML's order, by PCI address; may change from boot to boot."""
    uuid: str
    minor: int | None
    """The number of ``/dev/nvidia<minor>``; None if the driver has no such number."""
    name: Answer[str]
    architecture: Answer[int]
    """``NVML_DEVICE_ARCH_*``"""
    bus_id: Answer[str]
    """``0000:18:00.0``"""
    fabric: Answer[str]
    """Cluster and clique of a fabric of several nodes: ``<uuid>.<clique>``; "" without one."""
    links: Answer[Mapping[str, int]]
    """Number of active NVLinks by the PCI bus id at their other ends: cards or switches."""
    memory_mib: Answer[int]
    capability: Answer[tuple[int, int]]
    """CUDA compute capability"""
    profiles: Answer[tuple[ProfileFacts, ...]]
    """Not there of a card without MIG."""

    @property
    def number(self) -> int:
        """Its number on the node (``Card.index``)."""
        return self.index if self.minor is None else self.minor

    @property
    def partitioning(self) -> Answer[tuple[ProfileFacts, ...]]:
        """The profiles, once all is known that follows from other facts where the driver says it of none: their names
        from the memory, and their placements from the kind of the card."""
        if isinstance(self.profiles, tuple):
            if isinstance(self.memory_mib, Unread) and not all(profile.name for profile in self.profiles):
                return self.memory_mib
            if isinstance(self.capability, Unread) and not all(profile.placements for profile in self.profiles):
                return self.capability
        return self.profiles
