"""Facts from DCMI about a chip, as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubeletplugin.hardware.answer import LACKS, Answer, unread_in

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
    board_id: Answer[int] = LACKS
    """The number of the board's model."""
    aicore: int = 0
    """AI cores; 0 if the driver does not say."""
    hbm_mib: Answer[int] = LACKS
    """HBM; 0 on chips without."""
    ddr_mib: Answer[int] = LACKS
    """DDR memory; 0 on chips without."""
    bus_id: Answer[str] = LACKS
    """``0000:c1:00.0``"""
    super_pod: Answer[int] = LACKS
    """The super pod that the chip belongs to; ``LACKS`` if it belongs to none."""
    linked: Answer[frozenset[str]] = LACKS
    """The chips of the node that it reaches over HCCS, by ``vdie``; ``LACKS`` if the driver does not say it."""
    templates: Answer[tuple[Template, ...]] = LACKS
    """The vNPU templates that the driver lists; ``LACKS`` if it lists none."""
    resources: Answer[Resources] = LACKS
    silent: str = ""
    """Why the chip did not answer when it was last looked for; "" if it did."""

    @property
    def device(self) -> str:
        """The name of its device file in ``/dev``."""
        return f"davinci{self.physical_id}"

    @property
    def unread(self) -> tuple[str, ...]:
        """What it did not answer: calls and codes."""
        return tuple(dict.fromkeys(why for why in (self.silent, *unread_in(self)) if why))


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of a chip that limit its use."""

    shared: Answer[bool] = LACKS
    """Whether several containers may use the chip (``npu-smi set -t device-share``)."""
    for_machines: Answer[bool] = LACKS
    """Whether vNPUs are for virtual machines, not for containers (``npu-smi set -t vnpu-mode``)."""
    symmetric: Answer[bool] = LACKS
    """Whether the chip works in SMP mode, in which a 910A cannot be divided."""


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that a chip reports now."""

    code: int
    """Huawei's number of the fault, such as 0x80E01801."""
    severity: int | None
    """0: notice, 1: minor, 2: major, 3: critical; None if the driver does not say."""
    name: str = ""
