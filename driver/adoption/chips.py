"""Ascend chips as other systems name them, and which vNPU template an amount of memory stands for. Pure.

HAMi's Ascend device plugin has the table in its configuration (``vnpus``); the names of static vNPUs are those of
Huawei's device plugin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class AscendResource:
    """A chip that is a resource of its own.

    Attributes:
        resource: the name of the resource.
        selects: a CEL condition on ``model`` (the lower-case model) and ``type``.
        capacity_mib: the most memory that a pod may ask for; 0 if a part of the chip cannot be asked for.
        allocatable_mib: what a whole card has for programs.
        templates: names of vNPU templates by memory in MiB, ascending. Drivers of different versions have different
            names for the same part of a chip, and not all have the smallest part: any of them will do.
        dies: how many of the resource are a module, whose chips are given together.
    """

    resource: str
    selects: str
    capacity_mib: int = 0
    allocatable_mib: int = 0
    templates: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    dies: int = 1

    @property
    def token(self) -> str:
        """What the tokens of its resources begin with: ``h910b41`` of ``huawei.com/Ascend910B4-1``."""
        return "h" + self.resource.removeprefix("huawei.com/Ascend").lower().replace("-", "")


@dataclass(frozen=True, slots=True)
class StaticVnpu:
    """A vNPU that exists before pods ask for it, as a resource of Huawei's device plugin."""

    resource: str
    family: str
    """``310p`` or ``910``."""
    template: str

    @property
    def token(self) -> str:
        """Its token in names: ``v310p4c3cpux`` of ``huawei.com/Ascend310P-4c.3cpu``."""
        return "v" + "".join(it for it in self.resource.removeprefix("huawei.com/Ascend").lower() if it.isalnum()) + "x"


def _model(name: str) -> str:
    return f'model.endsWith("{name}")'


CHIPS: Final = (
    AscendResource("huawei.com/Ascend910", 'type.startsWith("910")'),
    AscendResource("huawei.com/Ascend310", 'type.startsWith("310") && type != "310P"'),
    AscendResource(
        "huawei.com/Ascend310P",
        'type == "310P"',
        24576,
        21527,
        {3072: ("vir01",), 6144: ("vir02",), 12288: ("vir04",)},
    ),
    AscendResource(
        "huawei.com/Ascend910A",
        'type == "910A"',
        32768,
        32768,
        {2184: ("vir02",), 4369: ("vir04",), 8738: ("vir08",), 17476: ("vir16",)},
    ),
    AscendResource(
        "huawei.com/Ascend910B2",
        _model("910b2"),
        65536,
        65536,
        {8192: ("vir03_1c_8g", "vir06_1c_16g"), 16384: ("vir06_1c_16g",), 32768: ("vir12_3c_32g",)},
    ),
    AscendResource(
        "huawei.com/Ascend910B3",
        _model("910b3"),
        65536,
        65536,
        {16384: ("vir05_1c_16g",), 32768: ("vir10_3c_32g",)},
    ),
    AscendResource(
        "huawei.com/Ascend910B4",
        _model("910b4"),
        32768,
        32768,
        {8192: ("vir05_1c_8g",), 16384: ("vir10_3c_16g",)},
    ),
    # Older drivers divide a 910B4-1 by the names of a 910B4, into parts of twice the memory.
    AscendResource(
        "huawei.com/Ascend910B4-1",
        _model("910b4-1"),
        65536,
        65536,
        {16384: ("vir05_1c_16g", "vir05_1c_8g"), 32768: ("vir10_3c_32g", "vir10_3c_16g")},
    ),
    # A 910C has 20 or 24 AI cores.
    AscendResource(
        "huawei.com/Ascend910C",
        'type == "910C"',
        65536,
        65536,
        {16384: ("vir05_1c_16g", "vir06_1c_16g"), 32768: ("vir10_3c_32g", "vir12_3c_32g")},
        dies=2,
    ),
)

STATIC_VNPUS: Final = (
    *(
        StaticVnpu(f"huawei.com/Ascend310P-{name}", "310p", template)
        for name, template in {
            "1c": "vir01",
            "2c": "vir02",
            "2c.1cpu": "vir02_1c",
            "4c": "vir04",
            "4c.3cpu": "vir04_3c",
            "4c.3cpu.ndvpp": "vir04_3c_ndvpp",
            "4c.4cpu.dvpp": "vir04_4c_dvpp",
        }.items()
    ),
    *(StaticVnpu(f"huawei.com/Ascend910-{cores}c", "910", f"vir{cores:02}") for cores in (2, 4, 8, 16)),
)

CORES: Final[Mapping[tuple[int, str, str], tuple[str, ...]]] = {
    (1, "high", "null"): ("vir01",),
    (1, "low", "null"): ("vir01",),
    (2, "high", "null"): ("vir02", "vir02_1c"),
    (2, "low", "null"): ("vir02_1c",),
    (4, "high", "null"): ("vir04", "vir04_3c"),
    (4, "low", "null"): ("vir04_3c",),
    (4, "high", "no"): ("vir04_3c_ndvpp",),
    (4, "low", "no"): ("vir04_3c_ndvpp",),
    (4, "high", "yes"): ("vir04_4c_dvpp",),
    (4, "low", "yes"): ("vir04_4c_dvpp",),
}
"""Templates in the order in which they are tried, for ``huawei.com/npu-core``, ``vnpu-level`` and ``vnpu-dvpp``."""
