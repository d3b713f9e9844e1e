"""Where a PCI function is in the machine. Pure."""

from dataclasses import dataclass
from typing import Final

from kubeletplugin.hardware.answer import LACKS, Answer, if_read

_WITH_SWITCH: Final = 5
"""The fewest parts of a way with a switch."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a PCI function."""

    way: Answer[tuple[str, ...]] = LACKS
    """Its path from the root complex, see ``Sysfs.way``."""
    numa_node: int | None = None
    """None if the machine does not report it, or it is not known."""

    @property
    def root(self) -> str:
        """``pci0000:c0``; "" if it is not known."""
        return next(iter(if_read(self.way) or ()), "")

    @property
    def switch(self) -> str:
        """The PCIe switch nearest to it, by the address of its port to the root (``0000:16:00.0``); "" if there is none
        on its way, or this is not known."""
        # root complex, root port, the switch's port to the root, its port to the function, and the function
        way = if_read(self.way) or ()
        return way[-3] if len(way) >= _WITH_SWITCH else ""
