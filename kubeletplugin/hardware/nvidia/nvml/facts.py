"""Facts from NVML, as values. ``None`` and "" stand for facts that a driver does not report. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """Facts that are the same for all cards of a node."""

    driver_version: str
    """``580.65.06``"""
    cuda_version: str
    """The newest CUDA that the driver serves, as a semantic version: ``13.0.0``; "" if unknown."""


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
    """The number of ``/dev/nvidia<minor>``."""
    name: str
    memory_mib: int | None
    architecture: int | None
    """``NVML_DEVICE_ARCH_*``"""
    capability: tuple[int, int] | None
    """CUDA compute capability"""
    bus_id: str
    """``0000:18:00.0``"""
    fabric: str
    """Cluster and clique of a fabric of several nodes: ``<uuid>.<clique>``; "" without one."""
    peers: frozenset[str]
    """PCI bus ids at the other ends of active NVLinks: cards or switches."""
    profiles: tuple[ProfileFacts, ...]
    """() of a card without MIG"""
