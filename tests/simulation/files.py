"""A node's disk in memory. It outlives the programs that wrote it, and loses what was not synced with the power."""

import errno
import posixpath
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from driver.files import Files

FileHook = Callable[[str, str], None]
BLOCK = 4096
"""Unit of allocation on the disk, in bytes."""


@dataclass(slots=True)
class _File:
    content: bytes
    synced: bytes = b""
    """The content that survives a loss of power."""


class MemoryDisk:
    """Implements ``driver.disk.Disk`` for one node, at its most forgetful: it keeps nothing that need not be kept.

    ``before`` is called before each operation, with its name and path. It may raise an OSError to make the operation
    fail, or another exception to end the program there.
    """

    def __init__(self, before: FileHook | None = None):
        self.before = before
        self.full = ""
        """The folder that has no room left, itself and below; "" if all have."""
        self.changes = 0
        """Number of changes of names and contents."""
        self._files: dict[str, _File] = {}
        self._synced: dict[str, _File] = {}
        """The names that survive a loss of power."""
        self._created = 0
        self._locks: dict[str, threading.RLock] = {}
        self._held: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """See ``Disk``."""
        self._announce("read", path)
        file = self._files.get(path)
        return None if file is None else file.content

    def names(self, folder: str) -> list[str]:
        """See ``Disk``."""
        self._announce("names", folder)
        return sorted(posixpath.basename(path) for path in self._files if _is_in(path, folder))

    def make_folder(self, path: str) -> None:
        """See ``Disk``; every folder exists."""

    def create(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """See ``Disk``."""
        self._announce("create", posixpath.join(folder, prefix))
        self._need_room(posixpath.join(folder, prefix), len(data) or 1)
        self._created += 1
        self.changes += 1
        path = posixpath.join(folder, f"{prefix}{self._created}{suffix}")
        self._files[path] = _File(bytes(data))
        return path

    def overwrite(self, path: str, data: bytes) -> None:
        """See ``Disk``."""
        self._announce("overwrite", path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        self._need_room(path, len(data) - -(-len(self._files[path].content) // BLOCK) * BLOCK)
        self._files[path].content = bytes(data)
        self.changes += 1

    def sync(self, path: str) -> None:
        """See ``Disk``."""
        self._announce("sync", path)
        self._files[path].synced = self._files[path].content

    def rename(self, source: str, target: str) -> None:
        """See ``Disk``."""
        self._announce("rename", target)
        self._files[target] = self._files.pop(source)
        self.changes += 1

    def exchange(self, one: str, other: str) -> bool:
        """See ``Disk``."""
        self._announce("exchange", other)
        if one not in self._files or other not in self._files:
            return False
        self._files[one], self._files[other] = self._files[other], self._files[one]
        self.changes += 1
        return True

    def unlink(self, path: str) -> bool:
        """See ``Disk``."""
        self._announce("unlink", path)
        self.changes += 1
        return self._files.pop(path, None) is not None

    def sync_folder(self, path: str) -> None:
        """See ``Disk``."""
        self._announce("sync_folder", path)
        kept = {name: file for name, file in self._synced.items() if not _is_in(name, path)}
        self._synced = kept | {name: file for name, file in self._files.items() if _is_in(name, path)}

    def let_containers_read(self, folder: str) -> None:
        """See ``Disk``; there is no SELinux."""

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Exclusive among the threads of this process.

        Raises:
            RuntimeError: this thread holds the lock already; on a real node it would deadlock.
        """
        self._announce("lock", path)
        with self._locks.setdefault(path, threading.RLock()):
            if path in self._held:
                raise RuntimeError(f"{path}: lock is held by the same thread")
            self._held.add(path)
            try:
                yield
            finally:
                self._held.discard(path)

    def is_locked(self, path: str) -> bool:
        """See ``Disk``."""
        return path in self._held

    def remove_lock(self, path: str) -> None:
        """See ``Disk``; locks are no files here."""

    def lose_power(self) -> None:
        """Forget everything that was not synced: a file keeps its synced content, possibly none, under synced names."""
        self.changes += 1
        self._files = dict(self._synced)
        for file in self._files.values():
            file.content = file.synced

    def lose(self, path: str, content: bytes | None) -> None:
        """Remove a file, or give it this content, as an operator or a damaged disk does."""
        self.changes += 1
        for files in (self._files, self._synced):
            files.pop(path, None)
        if content is not None:
            self._files[path] = self._synced[path] = _File(content, content)

    def forget(self, folder: str) -> None:
        """Empty ``folder`` and everything below it, as a reboot empties a file system in memory."""
        self.changes += 1
        below = folder.rstrip("/") + "/"
        for files in (self._files, self._synced):
            for path in [path for path in files if path.startswith(below)]:
                del files[path]

    def content(self) -> dict[str, bytes]:
        """Every file, as a program that starts now would find it."""
        return {path: file.content for path, file in self._files.items()}

    def after_a_loss_of_power(self, path: str) -> bytes | None:
        """The content of the file after a loss of power; None if there would be no such file."""
        file = self._synced.get(path)
        return None if file is None else file.synced

    def unsynced(self, folder: str) -> Sequence[str]:
        """Paths directly in ``folder`` that would be another file, or none, after a loss of power."""
        paths = {path for files in (self._files, self._synced) for path in files if _is_in(path, folder)}
        return sorted(path for path in paths if not self._survives(path))

    def _survives(self, path: str) -> bool:
        now, then = self._files.get(path), self._synced.get(path)
        return now is then and (now is None or now.content == now.synced)

    def _need_room(self, path: str, size: int) -> None:
        if self.full and size > 0 and path.startswith(self.full.rstrip("/") + "/"):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def _announce(self, operation: str, path: str) -> None:
        if self.before:
            self.before(operation, path)


class MemoryFiles(Files):
    """The files of a disk in memory."""

    def __init__(self, before: FileHook | None = None):
        self.disk = MemoryDisk(before)
        super().__init__(self.disk)


def _is_in(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path.startswith(folder) and path.rfind("/") == len(folder)
