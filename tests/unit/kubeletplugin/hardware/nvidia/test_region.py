"""The file in which HAMi-core counts is read as it is on a real card, and nothing in it is believed."""

import contextlib
import os
import stat
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware.nvidia.sharing.region import (
    FILE_NAME,
    CardLimit,
    CardUse,
    UnreadableRegion,
    read_region,
    write_limit,
)
from tests.unit.kubeletplugin.hami_regions import UUID, recorded

GIB = 2**30
CONTEXT = 543162368
"""Bytes that CUDA itself takes in each process on an H200."""
PAGE = 4096
"""Bytes of a further allocation of each recorded process."""
PROCESSES = 1856
"""Where the processes begin, of 1,960 bytes each."""


def read(folder: Path, content: bytes) -> tuple[CardUse, ...]:
    (folder / FILE_NAME).write_bytes(content)
    return read_region(folder)


def changed(offset: int, layout: str, *values: int) -> bytes:
    content = bytearray(recorded("two"))
    struct.pack_into(layout, content, offset, *values)
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "limit", "memory", "compute"),
    [
        ("one", 8 * GIB, CONTEXT + 2 * GIB + PAGE, 0),
        ("two", 16 * GIB, 2 * (CONTEXT + PAGE) + 3 * GIB, 0),
        ("killed", 16 * GIB, 2 * (CONTEXT + PAGE) + 3 * GIB, 0),
        ("busy", 16 * GIB, CONTEXT + PAGE, 7),
        ("ended", 8 * GIB, 0, 0),
        ("after", 16 * GIB, 0, 0),
    ],
)
def test_what_processes_used_on_a_real_card_is_read(
    tmp_path: Path, name: str, limit: int, memory: int, compute: int
) -> None:
    assert read(tmp_path, recorded(name)) == (CardUse(UUID, limit, memory, compute),)


def test_a_second_container_of_a_claim_takes_the_place_of_the_first(tmp_path: Path) -> None:
    assert read(tmp_path, recorded("two-containers"))[0].memory_bytes == CONTEXT + GIB + PAGE


def test_before_a_process_has_used_a_card_nothing_is_used(tmp_path: Path) -> None:
    assert read_region(tmp_path) == ()
    write_limit(folder := made(tmp_path), range(16), CardLimit(8 * GIB, 30))
    assert read_region(folder) == ()


def made(tmp_path: Path) -> Path:
    folder = tmp_path / "claim"
    folder.mkdir()
    return folder


def test_a_new_file_is_as_the_library_makes_it(tmp_path: Path) -> None:
    """Locks, flags and limits are those of a recorded file, whose processes have ended and left no number behind."""
    write_limit(folder := made(tmp_path), range(16), CardLimit(8 * GIB, 100))
    new, ended = (folder / FILE_NAME).read_bytes(), recorded("ended")
    head, processes, tail = slice(0, 56), slice(1600, PROCESSES), slice(len(ended) - 57, None)
    assert new[head] == ended[head]
    assert new[processes] == ended[processes]
    number_of_processes, time_of_last_kernel = slice(0, 4), slice(16, 24)
    expected = bytearray(ended[tail])
    for changing in (number_of_processes, time_of_last_kernel):
        expected[changing] = bytes(changing.stop - changing.start)
    assert new[tail] == expected
    assert len(new) == len(ended)
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o666, "processes of any user count in it"


def limits(folder: Path, number: int) -> tuple[int, int]:
    content = (folder / FILE_NAME).read_bytes()
    (memory,), (compute,) = (struct.unpack_from("<Q", content, start + 8 * number) for start in (1600, 1728))
    return memory, compute


def test_each_card_of_a_container_has_its_limit(tmp_path: Path) -> None:
    folder = made(tmp_path)
    write_limit(folder, (1,), CardLimit(GIB, 30))
    write_limit(folder, (0,), CardLimit(2 * GIB, 100))
    assert [limits(folder, number) for number in range(3)] == [(2 * GIB, 100), (GIB, 30), (0, 100)]


def test_a_card_that_the_library_cannot_limit_changes_nothing_else(tmp_path: Path) -> None:
    folder = made(tmp_path)
    write_limit(folder, (0,), CardLimit(GIB, 30))
    before = (folder / FILE_NAME).read_bytes()
    write_limit(folder, (16, 17), CardLimit(2 * GIB, 50))
    assert (folder / FILE_NAME).read_bytes() == before


def test_a_limit_that_is_written_again_keeps_what_processes_count(tmp_path: Path) -> None:
    read(folder := made(tmp_path), recorded("two"))
    before = (folder / FILE_NAME).stat().st_ino
    write_limit(folder, range(16), CardLimit(4 * GIB, 30))
    (use,) = read_region(folder)
    assert (use.limit_bytes, use.memory_bytes) == (4 * GIB, 2 * (CONTEXT + PAGE) + 3 * GIB)
    assert (folder / FILE_NAME).stat().st_ino == before


def test_what_a_container_has_put_in_the_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    folder, secret = made(tmp_path), tmp_path / "secret"
    place = folder / FILE_NAME
    secret.write_bytes(recorded("one"))
    for put in (
        lambda: place.symlink_to(secret),
        lambda: os.mkfifo(place),
        lambda: (place / "full").mkdir(parents=True),
        lambda: place.write_bytes(b"short"),
    ):
        put()
        write_limit(folder, range(16), CardLimit(GIB, 30))
        assert limits(folder, 0) == (GIB, 30)
        place.unlink()
    assert secret.read_bytes() == recorded("one")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "has 0 bytes", id="empty"),
        pytest.param(recorded("one")[:-2], "a region has", id="shorter"),
        pytest.param(recorded("one") + b"\0", "a region has", id="longer"),
        pytest.param(changed(0, "<i", 1), "not of HAMi-core", id="magic"),
        pytest.param(changed(4, "<2I", 1, 3), "version 1.3", id="newer"),
        pytest.param(changed(4, "<2I", 0, 0), "version 0.0", id="older"),
    ],
)
def test_another_layout_is_not_guessed(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableRegion, match=reason):
        read(tmp_path, content)


def test_a_container_that_puts_something_else_there_leads_nobody_elsewhere(tmp_path: Path) -> None:
    secret, place = tmp_path / "secret", tmp_path / FILE_NAME
    secret.write_bytes(recorded("one"))
    place.symlink_to(secret)
    with pytest.raises(UnreadableRegion):
        read_region(tmp_path)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(UnreadableRegion, match="not a file"):
        read_region(tmp_path)
    place.unlink()
    place.mkdir()
    with pytest.raises(UnreadableRegion, match="not a file"):
        read_region(tmp_path)


@pytest.mark.parametrize(
    ("offset", "layout", "values"),
    [
        pytest.param(56, "<Q", (2**64 - 1,), id="cards"),
        pytest.param(len(recorded("two")) - 57, "<i", (-1,), id="fewer processes than none"),
        pytest.param(len(recorded("two")) - 57, "<i", (2**31 - 1,), id="more processes than fit"),
        pytest.param(1600, "<Q", (2**64 - 1,), id="limit"),
        pytest.param(PROCESSES + 8 + 4 * 8, "<Q", (2**64 - 1,), id="memory"),
    ],
)
def test_numbers_that_cannot_be_are_bounded(tmp_path: Path, offset: int, layout: str, values: tuple[int, ...]) -> None:
    for use in read(tmp_path, changed(offset, layout, *values)):
        assert 0 <= use.memory_bytes < 2**63
        assert 0 <= use.limit_bytes < 2**63


@given(st.lists(st.tuples(st.integers(0, PROCESSES + 4000) | st.integers(-60, -9), st.binary(min_size=8, max_size=8))))
def test_whatever_a_container_writes_is_read_or_refused(written: list[tuple[int, bytes]]) -> None:
    content = bytearray(recorded("two"))
    for offset, number in written:
        place = offset % len(content)
        content[place : place + 8] = number
    with TemporaryDirectory() as folder, contextlib.suppress(UnreadableRegion):
        found = read(Path(folder), bytes(content))
        assert len(found) <= 16
        assert all(0 <= use.memory_bytes < 2**63 for use in found)
