"""A cache of folders outside the repository, for everything that takes long to build.

An entry is a folder `<name>-<key>`. The key is a hash over the content of everything that the entry is built from: a
changed input gives a new entry, and the old input gives the old entry again. An entry appears whole or not at all: it
is built beside its final place and then renamed. Two processes that need the same entry build it once. The three most
recently used entries of each name are kept.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testclusters.progress import progress_step

_KEPT = 3
_IN_USE = 600.0
"""Seconds after its last use during which an entry is never removed."""


def root() -> Path:
    """The cache's folder: `$LODE_CACHE`, else `lode` in `$XDG_CACHE_HOME` or `~/.cache`; created if it is missing."""
    given = os.environ.get("LODE_CACHE")
    folder = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lode"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def content_key(*parts: str | bytes | Path) -> str:
    """A key of sixteen hexadecimal digits, which changes when any part changes.

    A part is a text, bytes, or a path. For a path the key covers the content, the executable bits, and the names
    relative to the path's parent folder, so that it does not depend on where the repository is.
    """
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:16]


def _pieces(part: str | bytes | Path) -> Iterator[bytes]:
    match part:
        case str():
            yield part.encode()
        case bytes():
            yield part
        case Path():
            files = sorted(path for path in part.rglob("*") if path.is_file()) if part.is_dir() else [part]
            for path in (file for file in files if "__pycache__" not in file.parts):
                yield f"{path.relative_to(part.parent)} {path.stat().st_mode & 0o111:o}".encode()
                yield path.read_bytes()


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock `name` of this cache. While another process holds it, print a message and wait."""
    path = root() / "locks" / f"{name}.lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress_step(f"waiting for another process that holds the lock {name}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cached_folder(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The cached folder `<name>-<key>`.

    If it is missing, `make` is called with an empty folder to fill, which then becomes the entry. Exceptions of `make`
    are passed on, and nothing is cached then.
    """
    folder = root() / f"{name}-{key}"
    if not folder.is_dir():
        with locked(f"entry-{name}"):
            if not folder.is_dir():
                partial = root() / f".{name}.partial"
                remove(partial)
                partial.mkdir()
                make(partial)
                partial.rename(folder)
                _remove_old(name)
    os.utime(folder)
    return folder


def _remove_old(name: str) -> None:
    entries = sorted(root().glob(f"{name}-{'[0-9a-f]' * 16}"), key=lambda folder: folder.stat().st_mtime)
    for folder in entries[:-_KEPT]:
        if time.time() - folder.stat().st_mtime > _IN_USE:
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder and everything below it, if it exists.

    Raises `OSError` if something is mounted below it.
    """
    mounts = Path("/proc/self/mounts")
    if mounts.exists() and any(line.split()[1].startswith(f"{folder}/") for line in mounts.read_text().splitlines()):
        raise OSError(f"something is mounted below {folder}; unmount it first")
    if folder.exists():
        shutil.rmtree(folder)
