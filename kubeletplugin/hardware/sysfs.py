"""Reads the kernel's view of the machine (sysfs). A missing file is an answer; an error of reading it is none."""

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read

_BUS_ID = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


_LACKING: Final = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
)
"""Errors by which the kernel says that a device does not have something."""

T = TypeVar("T")


class Sysfs:
    """The files below ``root``: ``/sys``, or where the host's is mounted."""

    def __init__(self, root: str = "/sys"):
        self._root = Path(root)

    def read(self, path: str) -> Answer[str]:
        """Content of a file without surrounding white space."""
        return self._answer(path, lambda seen: seen.read_text(errors="replace").strip())

    def listed(self, path: str) -> Answer[tuple[str, ...]]:
        """Sorted names in a folder."""
        return self._answer(path, lambda seen: tuple(sorted(entry.name for entry in seen.iterdir())))

    def way(self, path: str) -> Answer[tuple[str, ...]]:
        """Path to the PCI function of a device: the root complex (``pci0000:15``), the bridges, and the function's
        address. () if the device belongs to no PCI function.

        Args:
            path: a link to the device, such as ``class/infiniband/mlx5_0`` or ``bus/pci/devices/0000:18:00.0``.
        """
        return self._answer(path, lambda seen: _pci_parts(seen.resolve(strict=True).parts))

    def is_there(self, path: str) -> Answer[bool]:
        """True for a file or folder that exists, and ``LACKS`` for another."""
        return self._answer(path, lambda seen: bool(seen.stat()))

    def text(self, path: str) -> str:
        """``read``; "" also if it cannot be read now."""
        return if_read(self.read(path)) or ""

    def names(self, path: str) -> tuple[str, ...]:
        """``listed``; () also if it cannot be read now."""
        return if_read(self.listed(path)) or ()

    def way_of(self, bus_id: str) -> Answer[tuple[str, ...]]:
        """``way`` of the PCI function with this address."""
        return self.way(f"bus/pci/devices/{bus_id}")

    def numa_node(self, bus_id: str) -> int | None:
        """The NUMA node of a PCI function; None if the machine does not report it, or it cannot be read now."""
        text = self.text(f"bus/pci/devices/{bus_id}/numa_node")
        return int(text) if text.isdecimal() else None

    def looked(self, path: Path, look: Callable[[Path], T]) -> T:
        """Look at a file; raises OSError."""
        return look(path)

    def _answer(self, path: str, look: Callable[[Path], T]) -> Answer[T]:
        seen = self._root / path
        try:
            return self.looked(seen, look)
        except OSError as error:
            return LACKS if error.errno in _LACKING else Unread(f"{seen}: {error.strerror or error}")
        except RuntimeError as error:  # a loop of links
            return Unread(f"{seen}: {error}")


def _pci_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    starts = [position for position, part in enumerate(parts) if _ROOT.fullmatch(part)]
    if not starts:
        return ()
    way = [parts[starts[0]]]
    for part in parts[starts[0] + 1 :]:
        if not _BUS_ID.fullmatch(part):
            break
        way.append(part)
    return tuple(way) if len(way) > 1 else ()
