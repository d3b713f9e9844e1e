"""The node's file system: small files, written whole or not at all, on a disk that may lose power at any moment."""

import posixpath
from collections import deque
from contextlib import AbstractContextManager, suppress
from typing import Literal

from driver.disk import FULL, Disk, SystemDisk

TEMPORARY = ".tmp"
"""The end of the names of temporary files, which begin with a dot. They may be gone or return at any time."""
SPARE = ".spare"
"""The end of the name of a file that keeps room for another one (``Files.reserve``)."""

Loss = Literal["nothing", "change", "content"]
"""The state of a file after a loss of power: ``change``: as before or as written; ``content``: perhaps empty."""


class Files:
    """Files by absolute path. Every method may raise OSError."""

    def __init__(self, disk: Disk):
        self._disk = disk
        self._replaced: deque[str] = deque()
        """Files whose place another one has taken."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        return self._disk.read(path)

    def write(
        self,
        path: str,
        data: bytes,
        may_lose: Loss = "nothing",
        *,
        free_later: bool = False,
        may_use_reserve: bool = False,
    ) -> None:
        """Replace the content atomically, making folders as needed.

        A program that is killed meanwhile leaves the file as it was and perhaps a temporary file (``sweep``).

        Args:
            may_lose: what a loss of power may undo afterwards; less takes longer.
            free_later: the file that was there may stay as a temporary one until ``tidy`` is called.
            may_use_reserve: if there is no room, use what is reserved for this file (``reserve``).
        """
        folder, name = posixpath.split(path)
        try:
            temporary = self._created(folder, f".{name}.", data)
        except OSError as error:
            if may_use_reserve and error.errno in FULL and self._exchanged(path, data):
                return
            raise
        try:
            if may_lose != "content":
                self._disk.sync(temporary)
            elif self._disk.exchange(temporary, path):
                # After a rename over another file ext4 writes the content out, and frees the place of the other: 0.3 ms
                # each, and 4 ms on a busy disk.
                self._replaced.append(temporary)
                if not free_later:
                    self.tidy()
                return
            self._disk.rename(temporary, path)
        except BaseException:
            self._disk.unlink(temporary)
            raise
        if may_lose == "nothing":
            self._disk.sync_folder(folder)

    def reserve(self, path: str, size: int) -> None:
        """Keep room for a file of up to ``size`` bytes, in a file beside it, for a time when the disk is full.

        Whenever the reserve is used, it and the file take each other's place. So content that does not grow can be
        written any number of times. On a file system that writes everything to a new place, the room may be missing.
        """
        if len(self.read(path + SPARE) or b"") < size:
            self.write(path + SPARE, bytes(size))

    def _exchanged(self, path: str, data: bytes) -> bool:
        """Write the content to the reserve of the file, and let it take the file's place; False if there is none."""
        spare, above = path + SPARE, posixpath.dirname(path)
        try:
            self._disk.overwrite(spare, data)
        except FileNotFoundError:
            return False
        self._disk.sync(spare)
        if not self._disk.exchange(spare, path):
            self._disk.rename(spare, path)
        self._disk.sync_folder(above)
        return True

    def tidy(self) -> None:
        """Remove the files whose place others have taken. May raise OSError."""
        with suppress(IndexError):
            while True:
                self._disk.unlink(self._replaced.popleft())

    def _created(self, folder: str, prefix: str, data: bytes) -> str:
        try:
            return self._disk.create(folder, prefix, TEMPORARY, data)
        except FileNotFoundError:
            self._disk.make_folder(folder)
            return self._disk.create(folder, prefix, TEMPORARY, data)

    def let_containers_read(self, folder: str) -> None:
        """Make the folder, if necessary, and let SELinux allow containers to read its files."""
        self._disk.let_containers_read(folder)

    def remove(self, path: str) -> None:
        """Remove the file durably; absent is success."""
        if self._disk.unlink(path):
            self._disk.sync_folder(posixpath.dirname(path))

    def names(self, directory: str) -> list[str]:
        """Names of the regular files directly in ``directory``, without temporary ones, sorted; [] if it is missing."""
        return [name for name in self._disk.names(directory) if not name.startswith(".")]

    def unfinished(self, directory: str, prefix: str = "") -> list[str]:
        """Names of the temporary files of killed writers in ``directory``, for files with names of this ``prefix``."""
        names = self._disk.names(directory)
        return [name for name in names if name.startswith(f".{prefix}") and name.endswith(TEMPORARY)]

    def sweep(self, directory: str, prefix: str = "") -> None:
        """Remove the temporary files of killed writers in ``directory``, for files whose names begin with ``prefix``.

        The caller ensures that nobody writes them. Those that return after a loss of power are removed again.
        """
        for name in self.unfinished(directory, prefix):
            self._disk.unlink(posixpath.join(directory, name))

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclusive across processes while held (two plugin instances during a rolling update)."""
        return self._disk.lock(path)

    def is_locked(self, path: str) -> bool:
        """True if a living process holds the lock."""
        return self._disk.is_locked(path)

    def remove_lock(self, path: str) -> None:
        """Remove the file of a lock that nobody holds."""
        self._disk.remove_lock(path)


class SystemFiles(Files):
    """The files of this machine."""

    def __init__(self) -> None:
        super().__init__(SystemDisk())
