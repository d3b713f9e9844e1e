"""The port to the node's file system: small files, written whole or not at all."""

import fcntl
import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """Files by absolute path. Every method may raise OSError."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Replace the content atomically and durably, making directories as needed."""
        ...

    def remove(self, path: str) -> None:
        """Remove the file; absent is success."""
        ...

    def names(self, directory: str) -> list[str]:
        """Names of the regular files directly in ``directory``, sorted; [] if it does not exist."""
        ...

    def sweep(self, directory: str, prefix: str = "") -> None:
        """Remove the temporary files of killed writers in ``directory``, for files whose names begin with ``prefix``.

        The caller ensures that nobody writes them.
        """
        ...

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclusive across processes while held (two plugin instances during a rolling update)."""
        ...


_TEMPORARY = ".tmp"


class SystemFiles:
    """Files of this machine: temp file in the same directory, fsync, rename, fsync of the directory."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        """Replace the content atomically and durably."""
        directory = Path(path).parent
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(_TEMPORARY, f".{Path(path).name}.", directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(directory)

    def remove(self, path: str) -> None:
        """Remove the file; absent is success."""
        try:
            Path(path).unlink()
        except FileNotFoundError:
            return
        _sync_directory(Path(path).parent)

    def names(self, directory: str) -> list[str]:
        """Names of the regular files in ``directory``, without temporary ones."""
        try:
            return sorted(p.name for p in Path(directory).iterdir() if p.is_file() and not p.name.startswith("."))
        except FileNotFoundError:
            return []

    def sweep(self, directory: str, prefix: str = "") -> None:
        """Remove temporary files of targets whose names begin with ``prefix``."""
        temporary = list(Path(directory).glob(f".{glob.escape(prefix)}*{_TEMPORARY}"))
        for path in temporary:
            path.unlink(missing_ok=True)
        if temporary:
            _sync_directory(Path(directory))

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold ``flock`` on ``path``."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
