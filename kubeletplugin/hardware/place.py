"""Where a PCI function is in the machine. Pure."""

from dataclasses import dataclass

from kubeletplugin.hardware.answer import LACKS, Answer, if_read


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
