"""Things that take long to make, made once: a cache of folders outside the repository.

An entry is a folder `<name>-<key>`, where the key is a hash over the content of everything it is made from: whoever
changes an input gets a new entry, whoever changes it back gets the old one. An entry appears whole or not at all (made
beside its final place, then renamed), and two processes that want the same one make it once. Of each name the
three entries that were asked for last are kept.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HEARTBEAT = 15.0
"""Seconds between two signs of life of a step that takes long."""

_KEPT = 3
_IN_USE = 600.0
"""Seconds for which somebody who asked for an entry may take it for granted."""


def root() -> Path:
    """The cache's folder: `$LODE_CACHE`, else `lode` in `$XDG_CACHE_HOME` or `~/.cache`. It is created if need be."""
    given = os.environ.get("LODE_CACHE")
    folder = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lode"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def key(*parts: str | bytes | Path) -> str:
    """Sixteen hexadecimal digits that differ when any part differs.

    A part is a text, bytes, or a file or folder: of these names, modes and content count.
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


def say(message: str) -> None:
    """Tell the person who waits; standard output is left to results."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def step(title: str, detail: Callable[[], str] = str) -> Iterator[None]:
    """Say what is being done, a line with `detail()` every `HEARTBEAT` seconds, and how long it took."""
    began = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT):
            more = detail()
            say(f"    {title}: {time.monotonic() - began:.0f} s{', ' + more if more else ''}")

    say(f"==> {title}")
    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()
    say(f"    {title}: done in {time.monotonic() - began:.1f} s")


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock `name` of this cache; says so when another process has it, and waits."""
    path = root() / "locks" / f"{name}.lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(f"waiting for another process that is busy with {name}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def entry(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder `<name>-<key>`.

    If it is missing, `make` fills an empty folder that becomes it; what `make` raises passes through.
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
    """Remove a folder and all below it if it exists; one with a mount somewhere below is refused (`OSError`)."""
    mounts = Path("/proc/self/mounts")
    if mounts.exists() and any(line.split()[1].startswith(f"{folder}/") for line in mounts.read_text().splitlines()):
        raise OSError(f"something is mounted below {folder}; unmount it first")
    if folder.exists():
        shutil.rmtree(folder)
