"""The file in which HAMi-core keeps the limits of a claim, and counts what its processes use.

The layout is that of ``shared_region_t`` in HAMi-core's ``multiprocess_memory_limit.h``, versions 1.1 and 1.2, on
64-bit machines with little-endian numbers. Containers write the file, so nothing in it is believed: it is read, never
mapped into memory, because a container can cut it off at any time.
"""

import os
import stat
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubeletplugin.hardware.nvidia.runfolder import remove_tree

FILE_NAME: Final = "usage.cache"
DEFAULT_PATH: Final = "/tmp/cudevshr.cache"
"""Where the library looks for the file in a container, unless the environment names another place."""
_MAGIC: Final = 19920718
_VERSIONS: Final = ((1, 1), (1, 2))
MOST_CARDS: Final = 16
"""The most cards of a container that the library limits."""
_MOST_PROCESSES: Final = 1024
_HEAD: Final = struct.Struct("<i2Ii 8x 32x Q 1536s 16Q 16Q")
"""Magic number, version, a flag; owner and lock; number of cards, their uuids of 96 bytes each, limits of memory in
bytes, and limits of compute in percent."""
_PROCESS: Final = struct.Struct("<2i 128Q 16Q 96Q i 4x 24x")
"""Process ids; for each card eight numbers about memory, what NVML counts of it, and six numbers about compute;
status."""
_TAIL: Final = struct.Struct("<4i Q 32x")
"""Number of processes, three flags, and the time of the last kernel."""
_SIZE: Final = _HEAD.size + _MOST_PROCESSES * _PROCESS.size + _TAIL.size
_SIZES: Final = (_SIZE, _SIZE + 1)
"""The library writes one byte behind the region to give the file its size."""
_MEMORY_LIMITS: Final = _HEAD.size - 16 * 16
_COMPUTE_LIMITS: Final = _HEAD.size - 16 * 8
_LIMIT: Final = struct.Struct("<Q")
_FREE_LOCK: Final = struct.pack("<2I 2I 16x", 1, 0, 128, 0)
"""``sem_t`` of glibc that nobody holds, for several processes."""
_FIRST: Final = struct.pack("<i2I4x", _MAGIC, *_VERSIONS[-1])
_NEW_HEAD: Final = _FIRST + bytes(8) + _FREE_LOCK + bytes(8 + 1536 + 128) + 16 * _LIMIT.pack(100)
_NEW_TAIL: Final = struct.pack("<4i", 0, 1, 2, 1) + bytes(8) + _FREE_LOCK + bytes(1)
_FIRST_MEMORY: Final = 2
_FIRST_COMPUTE: Final = _FIRST_MEMORY + 8 * MOST_CARDS + MOST_CARDS
_TOTAL: Final = 4
"""Place of the sum among the numbers about memory."""
_MULTIPROCESSORS: Final = 2
"""Place of the use of multiprocessors among the numbers about compute."""
_UUID_BYTES: Final = 96
_LARGEST: Final = 2**63 - 1


class UnreadableRegion(Exception):
    """The file is not one that HAMi-core wrote, or has a layout that is not known."""


@dataclass(frozen=True, slots=True)
class CardLimit:
    """What the processes of a claim may use of a card."""

    memory_bytes: int
    compute_percent: int
    """100: no limit."""


@dataclass(frozen=True, slots=True)
class CardUse:
    """What the processes of a claim use of a card, as they count it themselves."""

    uuid: str
    limit_bytes: int
    """0: no limit."""
    memory_bytes: int
    compute_percent: int


def knows_region(library: bytes) -> bool:
    """Whether a library's content is that of a HAMi-core whose layout is known: earlier ones name no version."""
    return b"shrreg_major_version" in library


def write_limit(folder: Path, numbers: Collection[int], limit: CardLimit) -> None:
    """Write the limit of a card into the file of a claim's folder, under its numbers in the container.

    The library takes its limits from a file that has any, whatever the environment of a process says. A file that it
    could not use is replaced by a new one; every other keeps what else it has, because processes may run.

    Args:
        numbers: from 0. The library limits no card with a number above 15.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / FILE_NAME
    try:
        file = _usable(path)
    except (UnreadableRegion, OSError):
        _put_new(path)
        file = _usable(path)
    try:
        for number in (number for number in numbers if number < MOST_CARDS):
            os.pwrite(file, _LIMIT.pack(limit.memory_bytes), _MEMORY_LIMITS + 8 * number)
            os.pwrite(file, _LIMIT.pack(limit.compute_percent), _COMPUTE_LIMITS + 8 * number)
    finally:
        os.close(file)


def unfinished_name(claim: str) -> str:
    """The name beside a claim's folder of a file that is being made."""
    return f".{claim}"


def _put_new(path: Path) -> None:
    """Put a file there that no process has used yet. Its content is whole before it gets its name."""
    # Containers write in the folder of the file, but not in the one above it.
    new = path.parent.parent / unfinished_name(path.parent.name)
    new.write_bytes(_NEW_HEAD + bytes(_MOST_PROCESSES * _PROCESS.size) + _NEW_TAIL)
    new.chmod(0o666)
    remove_tree(path)
    new.replace(path)


def _usable(path: Path) -> int:
    """Open the file to write in it."""
    file = _open(path, os.O_RDWR)
    try:
        _head(file)
    except BaseException:
        os.close(file)
        raise
    return file


def read_region(folder: Path) -> tuple[CardUse, ...]:
    """Return the use of each card in the file of a claim's folder; () before its first process has used a card.

    A process that was killed counts until the next one of its container starts: the library notices it then.

    Raises:
        UnreadableRegion: see there. The message has no text from the file.
    """
    try:
        return _read(folder / FILE_NAME)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UnreadableRegion(error.strerror or "it cannot be read") from error


def _read(path: Path) -> tuple[CardUse, ...]:
    file = _open(path, os.O_RDONLY)
    try:
        count, uuids, *limits = _head(file)
        processes = _TAIL.unpack(_bytes(file, _TAIL.size, _SIZE - _TAIL.size))[0]
        size = min(max(processes, 0), _MOST_PROCESSES) * _PROCESS.size
        used = list(_PROCESS.iter_unpack(_bytes(file, size, _HEAD.size)))
    finally:
        os.close(file)
    living = [process for process in used if process[0]]
    return tuple(
        CardUse(
            _text(uuids[number * _UUID_BYTES : (number + 1) * _UUID_BYTES]),
            limit_bytes=min(limits[number], _LARGEST),
            memory_bytes=_sum(living, _FIRST_MEMORY + 8 * number + _TOTAL),
            compute_percent=_sum(living, _FIRST_COMPUTE + 6 * number + _MULTIPROCESSORS),
        )
        for number in range(min(count, MOST_CARDS))
    )


def _open(path: Path, flag: int) -> int:
    # A container may have put a link, a pipe or a device in the place of the file.
    return os.open(path, flag | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _head(file: int) -> tuple[Any, ...]:
    """The number of cards, their uuids, and the limits."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        raise UnreadableRegion("it is not a file")
    if about.st_size not in _SIZES:
        raise UnreadableRegion(f"it has {about.st_size} bytes, a region has {_SIZE}")
    magic, major, minor, _, *rest = _HEAD.unpack(_bytes(file, _HEAD.size, 0))
    if magic != _MAGIC or (major, minor) not in _VERSIONS:
        raise UnreadableRegion(f"it is not of HAMi-core, or of version {major}.{minor}, which is not known")
    return tuple(rest)


def _bytes(file: int, size: int, offset: int) -> bytes:
    found = os.pread(file, size, offset)
    if len(found) != size:
        raise UnreadableRegion("it became shorter while it was read")
    return found


def _text(uuid: bytes) -> str:
    return uuid.partition(b"\0")[0].decode("ascii", "replace")


def _sum(processes: list[tuple[int, ...]], place: int) -> int:
    return min(sum(process[place] for process in processes), _LARGEST)
