"""A node's files in memory. They outlive the programs that wrote them, as files on a disk do."""

import posixpath
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str, str], None]

_TEMPORARY = ".tmp"


class MemoryFiles:
    """Implements ``driver.files.Files`` for one node.

    ``before`` is called before each operation, with its name and path. It may raise an OSError to make the operation
    fail, or another exception to end the program there. A write is two operations, "write" and "replace": a program
    that ends between them leaves a temporary file.
    """

    def __init__(self, before: Hook | None = None):
        self.before = before
        self._content: dict[str, bytes] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._held: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        self._announce("read", path)
        return self._content.get(path)

    def write(self, path: str, data: bytes) -> None:
        """Replace the content."""
        self._announce("write", path)
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, f".{name}{_TEMPORARY}")
        self._content[temporary] = bytes(data)
        try:
            self._announce("replace", path)
        except OSError:
            del self._content[temporary]
            raise
        self._content[path] = self._content.pop(temporary)

    def remove(self, path: str) -> None:
        """Remove the file; absent is success."""
        self._announce("remove", path)
        self._content.pop(path, None)

    def names(self, directory: str) -> list[str]:
        """Names of the files directly in ``directory``, sorted, without temporary files."""
        self._announce("names", directory)
        return [name for name in self._all_names(directory) if not name.startswith(".")]

    def sweep(self, directory: str, prefix: str = "") -> None:
        """Remove the temporary files of targets whose names start with ``prefix``."""
        self._announce("sweep", directory)
        for name in self.unfinished(directory):
            if name.startswith(f".{prefix}"):
                del self._content[posixpath.join(directory, name)]

    def unfinished(self, directory: str) -> list[str]:
        """Names of the temporary files directly in ``directory``, sorted."""
        names = self._all_names(directory)
        return [name for name in names if name.startswith(".") and name.endswith(_TEMPORARY)]

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

    def forget(self, directory: str) -> None:
        """Empty ``directory`` and everything below it, as a reboot empties a file system in memory."""
        below = directory.rstrip("/") + "/"
        self._content = {path: data for path, data in self._content.items() if not path.startswith(below)}

    def _all_names(self, directory: str) -> list[str]:
        folder = directory.rstrip("/")
        return sorted(posixpath.basename(path) for path in self._content if posixpath.dirname(path) == folder)

    def _announce(self, operation: str, path: str) -> None:
        if self.before:
            self.before(operation, path)
