"""Reads the kernel's view of the machine (sysfs). Missing and unreadable files mean "unknown", never an error."""

import re
from pathlib import Path

_BUS_ID = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


class Sysfs:
    """The files below ``root``: ``/sys``, or where the host's is mounted."""

    def __init__(self, root: str = "/sys"):
        self._root = Path(root)

    def text(self, path: str) -> str:
        """Content of a file without surrounding white space; "" if it cannot be read."""
        try:
            return (self._root / path).read_text(errors="replace").strip()
        except OSError:
            return ""

    def names(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder; () if it cannot be read."""
        try:
            return tuple(sorted(entry.name for entry in (self._root / path).iterdir()))
        except OSError:
            return ()

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return (self._root / path).exists()

    def pci_path(self, path: str) -> tuple[str, ...]:
        """Path to the PCI function of a device: the root complex (``pci0000:15``), the bridges, and the function's
        address. () if the device belongs to no PCI function.

        Args:
            path: a link to the device, such as ``class/infiniband/mlx5_0`` or ``bus/pci/devices/0000:18:00.0``.
        """
        try:
            parts = (self._root / path).resolve(strict=True).parts
        except (OSError, RuntimeError):
            return ()
        starts = [position for position, part in enumerate(parts) if _ROOT.fullmatch(part)]
        if not starts:
            return ()
        way = [parts[starts[0]]]
        for part in parts[starts[0] + 1 :]:
            if not _BUS_ID.fullmatch(part):
                break
            way.append(part)
        return tuple(way) if len(way) > 1 else ()

    def path_of(self, bus_id: str) -> tuple[str, ...]:
        """``pci_path`` of the PCI function with this address."""
        return self.pci_path(f"bus/pci/devices/{bus_id}")

    def numa_node(self, bus_id: str) -> int | None:
        """The NUMA node of a PCI function; None if the machine does not report it."""
        text = self.text(f"bus/pci/devices/{bus_id}/numa_node")
        return int(text) if text.isdecimal() else None
