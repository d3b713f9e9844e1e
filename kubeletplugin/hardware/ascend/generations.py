"""The generations of Ascend chips, and their differences. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from kubeletplugin.hardware.answer import Answer, Unread

MANAGER: Final = "davinci_manager"
_MEMORY: Final = ("devmm_svm", "hisi_hdc", "dvpp_cmdlist")
_310B: Final = (
    *("svm0", "ts_aisle", "upgrade", "sys", "vdec", "vpc", "pngd", "venc"),
    *("log_drv", "acodec", "ai", "ao", "vo", "hdmi", "dvpp_cmdlist"),
)

DRIVER_MOUNTS: Final = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/include",
    "/usr/local/Ascend/driver/topo",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
    "/etc/hccl_rootinfo.json",
    "/var/queue_schedule",
)
"""Files of the driver that programs need. Files that a node does not have are left out."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Common facts of the chips of one generation."""

    type: str
    """The product family, as published: ``910B``."""
    shared_nodes: tuple[str, ...] = _MEMORY
    """Names in ``/dev`` of further device files for every container, if the node has them."""
    manager: str = MANAGER
    """Name in ``/dev`` of the device file that containers get as ``davinci_manager``, if the node has it."""
    in_pairs: bool = False
    """Whether the two chips of a card are allocated together, unless the node's policy separates them."""
    counts_aicpu: bool = True
    """Whether the AI CPUs limit which vNPUs can exist together."""
    has_hbm: bool = True
    """Whether chips can have HBM; otherwise their memory is DDR memory."""


A910: Final = Generation("910A", counts_aicpu=False)
B910: Final = Generation("910B")
C910: Final = Generation("910C", in_pairs=True)
P310: Final = Generation("310P", has_hbm=False)
B310: Final = Generation("310B", _310B, manager="davinci_manager_docker", has_hbm=False)

_A3_BOARDS: Final = frozenset(range(0xB0, 0xB5))
"""Board ids of Atlas A3 products. The names of their chips do not show that they are 910C."""
_BY_NAME: Final = (
    (r"(310P|I2)", P310),
    (r"310B", B310),
    (r"(910B\d|A2G\d)", B910),
    (r"910_?93", C910),
    (r"910", A910),
)


def generation_of(name: str, board_id: Answer[int], chips_on_card: int) -> Generation | Unread:
    """The generation of a chip; an unknown chip gets a generation of its own, with its name.

    It is not known while it depends on the board and that is not known.

    Args:
        name: as DCMI reports it: ``910B3``, with or without ``Ascend``.
        chips_on_card: how many chips the card carries: of the 910s, only 910C has two.
    """
    short = re.sub(r"^Ascend[ _-]?", "", name)
    known = next((generation for pattern, generation in _BY_NAME if re.match(pattern, short)), None)
    if known in (A910, B910):
        if chips_on_card == 2:
            return C910
        if isinstance(board_id, Unread):
            return board_id
        if board_id in _A3_BOARDS:
            return C910
    return known or Generation(short or "unknown")
