"""The files of the host that answers of device plugins name: device nodes behind links and in folders, CDI specs."""

import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from kubeletplugin.hardware.hostlinks import resolved

MOST_NODES = 1024
"""Device nodes of one folder, and what is looked at for them at most."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node of the host."""

    path: str
    """Relative to what was asked for; "" if that is the device node itself."""
    host_path: str
    """Without links."""
    type: Literal["b", "c", "p"]
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0
    """Permissions and owner."""


class HostTree(Protocol):
    """The host's file system. Paths are those of the host. Each method may raise OSError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder, behind links."""

    def nodes(self, path: str) -> tuple[HostNode, ...]:
        """The device node, or all device nodes below a folder; () if there is none. At most ``MOST_NODES``."""

    def node(self, path: str) -> HostNode | None:
        """The device node or named pipe at a path that is no link itself; None if there is none."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The sorted names in a folder; () if it does not exist."""

    def read(self, path: str, most: int) -> bytes:
        """The content of a file. OSError also if it has more than ``most`` bytes, or is none that has a content."""


class SystemHostTree(HostTree):
    """The file system of the host below ``root``, where its ``/`` is mounted."""

    def __init__(self, root: str):
        self._root = root.rstrip("/")

    def exists(self, path: str) -> bool:
        """See ``HostTree``."""
        try:
            self._seen(self._resolved(path)).lstat()
        except FileNotFoundError:
            return False
        return True

    def nodes(self, path: str) -> tuple[HostNode, ...]:
        """See ``HostTree``."""
        try:
            return tuple(islice(self._nodes(self._resolved(path), ""), MOST_NODES))
        except FileNotFoundError:
            return ()

    def node(self, path: str) -> HostNode | None:
        """See ``HostTree``."""
        folder, name = posixpath.split(path)
        try:
            own = posixpath.join(self._resolved(folder), name)
            return _node_of(self._seen(own).lstat(), "", own)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """See ``HostTree``."""
        try:
            return tuple(sorted(entry.name for entry in self._seen(self._resolved(folder)).iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def read(self, path: str, most: int) -> bytes:
        """See ``HostTree``."""
        seen = self._seen(self._resolved(path))
        if not stat.S_ISREG(seen.lstat().st_mode):
            raise OSError(errno.EINVAL, "is no regular file", path)
        with seen.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", path)
        return content

    def _nodes(self, path: str, below: str) -> Iterator[HostNode]:
        status = self._seen(path).lstat()
        if stat.S_ISDIR(status.st_mode):
            for entry in sorted(self._seen(path).iterdir())[:MOST_NODES]:
                if not entry.is_symlink():
                    yield from self._nodes(posixpath.join(path, entry.name), posixpath.join(below, entry.name))
        elif (node := _node_of(status, below, path)) and node.type != "p":
            yield node

    def _seen(self, path: str) -> Path:
        return Path(f"{self._root}{path}")

    def _resolved(self, path: str) -> str:
        return resolved(self._root, path)


def _node_of(status: os.stat_result, below: str, path: str) -> HostNode | None:
    kinds: tuple[tuple[bool, Literal["b", "c", "p"]], ...] = (
        (stat.S_ISBLK(status.st_mode), "b"),
        (stat.S_ISCHR(status.st_mode), "c"),
        (stat.S_ISFIFO(status.st_mode), "p"),
    )
    numbers = os.major(status.st_rdev), os.minor(status.st_rdev)
    owner = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    return next((HostNode(below, path, kind, *numbers, *owner) for is_one, kind in kinds if is_one), None)
