"""Facts from DCMI about a chip, as values. "", 0 and None stand for facts that a driver does not report. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ENGINES: Final = ("vpc", "vdec", "jpegd", "jpege", "venc")
"""The media engines (DVPP) that vNPU templates divide. PNGD is always divided as the AI cores are."""


@dataclass(frozen=True, slots=True)
class Template:
    """A vNPU template: the resources of a vNPU."""

    name: str
    """``vir02_1c``"""
    aicore: int
    aicpu: int
    memory_mib: int
    engines: Mapping[str, int] = field(default_factory=dict)
    """Units of each media engine; missing engines are left out."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that the vNPUs of a chip share; 0 if the driver does not report them."""

    aicore: int = 0
    aicpu: int = 0
    engines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vnpu:
    """A vNPU that exists."""

    id: int
    template: str
    """"" if the driver does not say."""
    in_use: bool
    """Whether a container uses it."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One NPU chip: a card of its own, or one of the two dies of a 910C."""

    card_id: int
    """DCMI's number of the card that carries the chip."""
    device_id: int
    """DCMI's number of the chip on its card."""
    physical_id: int
    """The number in ``/dev/davinci<n>``."""
    vdie: str
    """The hardware's own id, such as ``0123ABCD-...``: five groups of eight hexadecimal digits."""
    name: str
    """``910B3``, ``310P3``"""
    board_id: int = -1
    """-1 if it is not known."""
    aicore: int = 0
    memory_mib: int = 0
    bus_id: str = ""
    """``0000:c1:00.0``"""
    super_pod: int | None = None
    """The super pod that the chip belongs to; None if it belongs to none."""
    templates: tuple[Template, ...] | None = None
    """The vNPU templates that the driver lists; None if it lists none."""
    resources: Resources = Resources()

    @property
    def device(self) -> str:
        """The name of its device file in ``/dev``."""
        return f"davinci{self.physical_id}"


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of a chip that limit its use; None if the driver does not report them."""

    shared: bool | None = None
    """Whether several containers may use the chip (``npu-smi set -t device-share``)."""
    for_machines: bool | None = None
    """Whether vNPUs are for virtual machines, not for containers (``npu-smi set -t vnpu-mode``)."""
    symmetric: bool | None = None
    """Whether the chip works in SMP mode, in which a 910A cannot be divided."""


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that a chip reports now."""

    code: int
    """Huawei's number of the fault, such as 0x80E01801."""
    severity: int | None
    """0: notice, 1: minor, 2: major, 3: critical; None if the driver does not say."""
    name: str = ""
