"""The port to the calls of a file system, and the file systems of this machine.

A loss of power undoes changes that are not synced: the content of a file without ``sync``, a changed name without
``sync_folder``.
"""

import ctypes
import errno
import fcntl
import itertools
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

_NUMBERS = itertools.count()
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Of Linux: paths are as they are, and both files of a renameat2(2) keep a name."""
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_LABEL = "security.selinux"
_READABLE = b"system_u:object_r:container_ro_file_t:s0\0"
"""The label of what all containers may read, in the policy of container-selinux: layers of images have it."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errors of a file system without room, or without a number for another file."""
_CANNOT_EXCHANGE = frozenset({errno.ENOENT, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Disk(Protocol):
    """The calls of a file system, by absolute path. Every method may raise OSError."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""

    def names(self, folder: str) -> list[str]:
        """Names of the regular files directly in ``folder``, sorted; [] if it does not exist."""

    def make_folder(self, path: str) -> None:
        """Make the folder and those above it that are missing, so that they survive a loss of power."""

    def create(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """Write a new file with a name of its own; returns its path. Its content may be lost with the power.

        Raises:
            FileNotFoundError: the folder is missing.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace the content of a file in its place, which needs no room if it is not shorter. Not at once.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def sync(self, path: str) -> None:
        """Make the content of the file survive a loss of power."""

    def rename(self, source: str, target: str) -> None:
        """Give the file another name, which another file may have had. The names may be lost with the power."""

    def exchange(self, one: str, other: str) -> bool:
        """Give each of two files the name of the other, at once; False if one is missing, or the file system cannot.

        The names may be lost with the power.
        """

    def unlink(self, path: str) -> bool:
        """Remove the file; False if there is none. It may return after a loss of power."""

    def sync_folder(self, path: str) -> None:
        """Make the names in the folder survive a loss of power."""

    def let_containers_read(self, folder: str) -> None:
        """Label the folder, and its files, so that SELinux lets containers read them; nothing without SELinux.

        New files get the label of their folder, and keep it when they get another name.
        """

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclusive across processes while held."""

    def is_locked(self, path: str) -> bool:
        """True if a living process holds the lock: a lock ends with its process."""

    def remove_lock(self, path: str) -> None:
        """Remove the lock's file, unless somebody holds the lock. It stays exclusive among those who wait for it."""


class SystemDisk:
    """The file systems of this machine.

    It opens paths as they are. ``pathlib`` keeps the names in every path as strings of the interpreter, and a table of
    these that grows takes megabytes for a moment; the name of each claim's files is new.
    """

    def read(self, path: str) -> bytes | None:
        """See ``Disk``."""
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """See ``Disk``."""
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """See ``Disk``."""
        folder = Path(path)
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self.sync_folder(str(each.parent))

    def create(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """See ``Disk``."""
        descriptor, path = _created(folder, prefix, suffix)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
        except OSError as error:
            self.unlink(path)
            raise OSError(error.errno, error.strerror, path) from error
        except BaseException:
            self.unlink(path)
            raise
        return path

    def overwrite(self, path: str, data: bytes) -> None:
        """See ``Disk``."""
        try:
            with open(path, "r+b") as file:
                file.write(data)
                file.truncate()
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error

    def sync(self, path: str) -> None:
        """See ``Disk``."""
        _sync(path, os.O_RDONLY)

    def rename(self, source: str, target: str) -> None:
        """See ``Disk``."""
        os.replace(source, target)

    def exchange(self, one: str, other: str) -> bool:
        """See ``Disk``."""
        if _exchange(one, other):
            return True
        number = ctypes.get_errno()
        if number in _CANNOT_EXCHANGE:
            return False
        raise OSError(number, os.strerror(number), one, None, other)

    def unlink(self, path: str) -> bool:
        """See ``Disk``."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def sync_folder(self, path: str) -> None:
        """See ``Disk``."""
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def let_containers_read(self, folder: str) -> None:
        """See ``Disk``."""
        self.make_folder(folder)
        for path in (folder, *(posixpath.join(folder, name) for name in self.names(folder))):
            try:
                label = os.getxattr(path, _LABEL)
            except OSError:  # there is no SELinux, or the file has gone
                continue
            if label != _READABLE:
                os.setxattr(path, _LABEL, _READABLE)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold ``flock`` on ``path``."""
        while True:
            descriptor = self._opened(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_at(descriptor, path):  # else it was removed meanwhile
                    yield
                    return
            finally:
                os.close(descriptor)

    def is_locked(self, path: str) -> bool:
        """See ``Disk``."""
        with _taken(path) as descriptor:
            return descriptor is None and Path(path).exists()

    def remove_lock(self, path: str) -> None:
        """See ``Disk``."""
        with _taken(path) as descriptor:
            if descriptor is not None and _is_at(descriptor, path):
                self.unlink(path)

    def _opened(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except FileNotFoundError:
            self.make_folder(posixpath.dirname(path))
            return os.open(path, flags, 0o644)


def _created(folder: str, prefix: str, suffix: str) -> tuple[int, str]:
    """A new file that is open, and its path. ``tempfile`` takes as long for a name as the system takes for the file."""
    while True:
        path = posixpath.join(folder, f"{prefix}{os.getpid()}-{next(_NUMBERS)}{suffix}")
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), path
        except FileExistsError:  # of a program that was killed, or has the same number in another pod
            continue


def _exchange(one: str, other: str) -> bool:
    """Exchange the names with renameat2(2), which Python lacks. False if it failed; errno has the reason."""
    rename: Callable[..., int] | None = getattr(_LIBRARY, "renameat2", None)
    if rename is None:
        ctypes.set_errno(errno.ENOSYS)
        return False
    return rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _taken(path: str) -> Iterator[int | None]:
    """The open file of a lock, which is held meanwhile; None if somebody holds it, or if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except BlockingIOError:
        is_free = False
    try:
        yield descriptor if is_free else None
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    """True if the open file has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
