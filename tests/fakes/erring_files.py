"""Files of the machine that are not there, or cannot be read, for a moment or longer.

A call errs (``MemoryState``) by the name of an error: ``EIO``.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kubeletplugin.hardware.edits import DeviceNode
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.nvml.machine import TextRoot
from tests.fakes.state import MemoryState

T = TypeVar("T")


def raise_for(how: str, path: str) -> None:
    """Raises OSError if a call errs."""
    if how:
        code = int(getattr(errno, how))
        raise OSError(code, os.strerror(code), path)


class ErringSysfs(Sysfs):
    """Sysfs, whose calls are ``read``, ``listed``, ``way`` and ``is_there``, about the PCI address or the HCA in their
    path."""

    def __init__(self, root: str, state: MemoryState | None = None):
        super().__init__(root)
        self.state = state or MemoryState()

    def looked(self, path: Path, look: Callable[[Path], T]) -> T:
        """See ``Sysfs``."""
        question = look.__qualname__.split(".")[1]
        about = (part for part in path.parts if ":" in part or part.startswith("mlx5_"))
        raise_for(self.state.called(question, next(about, "")), str(path))
        return super().looked(path, look)


class ErringRoot(TextRoot):
    """A driver's files, of which device nodes are ``device``, about their name."""

    def __init__(self, folder: Path, state: MemoryState):
        super().__init__("/", str(folder), str(folder / "dev"))
        self._state = state

    def node(self, seen: Path, path: str, host_path: str) -> DeviceNode | None:
        """See ``DriverRoot``."""
        how = self._state.called("device", seen.name)
        if how == "ENOENT":
            return None
        raise_for(how, str(seen))
        return super().node(seen, path, host_path)
