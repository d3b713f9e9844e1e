"""Chips as their drivers describe them."""

from dataclasses import dataclass

Row = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    name: str
    aicore: int
    memory_mib: int
    total: tuple[int, ...] = ()
    """AI cores, AI CPUs, MiB, VPC, VDEC, JPEGD, JPEGE, VENC; () if the chip cannot be divided."""
    templates: tuple[Row, ...] = ()
    """What the driver lists."""
    cuts: tuple[Row, ...] = ()
    """What the driver can cut, if it is not what it lists."""
    memory_kind: str = "hbm"
    board: int = 0x20
    chips: int = 1
    """Chips on a card."""


_310P = (
    ("vir01", (1, 1, 3072, 1, 1, 2, 1, 0)),
    ("vir02", (2, 2, 6144, 3, 3, 4, 2, 1)),
    ("vir02_1c", (2, 1, 6144, 3, 3, 4, 2, 0)),
    ("vir04", (4, 4, 12288, 6, 6, 8, 4, 2)),
    ("vir04_3c", (4, 3, 12288, 6, 6, 8, 4, 1)),
    ("vir04_3c_ndvpp", (4, 3, 12288, 0, 0, 0, 0, 0)),
    ("vir04_4c_dvpp", (4, 4, 12288, 12, 12, 16, 8, 3)),
)
_910A = (
    ("vir02", (2, 1, 2048, 1, 1, 1, 0, 0)),
    ("vir04", (4, 1, 4096, 2, 2, 2, 1, 0)),
    ("vir08", (8, 3, 8192, 4, 4, 4, 2, 0)),
    ("vir16", (16, 7, 16384, 8, 8, 8, 4, 0)),
)
_910A_CUTS = tuple((name, (row[0], 0, *row[2:])) for name, row in _910A)
"""A 910A does not divide its AI CPUs: as many vNPUs can exist as it has cores for."""
_910B_24 = (
    ("vir12_3c_32g", (12, 3, 30720, 5, 1, 14, 2, 0)),
    ("vir06_1c_16g", (6, 1, 15360, 2, 0, 7, 1, 0)),
)
_910B3 = (
    ("vir10_3c_32g", (10, 3, 30720, 4, 1, 12, 2, 0)),
    ("vir05_1c_16g", (5, 1, 15360, 2, 0, 6, 1, 0)),
)
_910B4 = (
    ("vir10_3c_16g", (10, 3, 14336, 4, 1, 12, 2, 0)),
    ("vir10_4c_16g_m", (10, 4, 14336, 9, 2, 24, 4, 0)),
    ("vir10_3c_16g_nm", (10, 3, 14336, 0, 0, 0, 0, 0)),
    ("vir05_1c_8g", (5, 1, 7168, 2, 0, 6, 1, 0)),
)

ASCEND_310P3 = Model("310P3", 8, 21527, (8, 7, 24576, 12, 12, 16, 8, 3), _310P, memory_kind="ddr")
ASCEND_910A = Model("910A", 30, 32768, (30, 14, 32768, 16, 16, 16, 8, 0), _910A, _910A_CUTS)
ASCEND_910B1 = Model("910B1", 24, 65536, (24, 6, 65536, 10, 2, 28, 4, 0), _910B_24)
ASCEND_910B2 = Model("910B2", 24, 65536, (24, 6, 65536, 10, 2, 28, 4, 0), _910B_24)
ASCEND_910B2C = Model("910B2C", 24, 65536, (24, 6, 65536, 10, 2, 28, 4, 0), _910B_24)
ASCEND_910B3 = Model("910B3", 20, 65536, (20, 7, 65536, 9, 2, 24, 4, 0), _910B3)
ASCEND_910B4 = Model("910B4", 20, 32768, (20, 7, 32768, 9, 2, 24, 4, 0), _910B4)
ASCEND_910B4_1 = Model("910B4-1", 20, 65536, (20, 7, 65536, 9, 2, 24, 4, 0), _910B3)
ASCEND_910C = Model("Ascend910", 24, 65536, board=0xB1, chips=2)
"""Both dies of an Atlas A3 card; the driver lists no templates."""
ASCEND_310B = Model("310B1", 1, 12288, memory_kind="ddr")
EVERY_MODEL = (
    ASCEND_310P3,
    ASCEND_910A,
    ASCEND_910B1,
    ASCEND_910B2,
    ASCEND_910B2C,
    ASCEND_910B3,
    ASCEND_910B4,
    ASCEND_910B4_1,
    ASCEND_910C,
    ASCEND_310B,
)
