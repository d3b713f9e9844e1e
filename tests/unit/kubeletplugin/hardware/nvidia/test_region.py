"""The file in which HAMi-core counts is read as it is on a real card, and nothing in it is believed."""

import contextlib
import os
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware.nvidia.sharing.region import FILE_NAME, CardUse, UnreadableRegion, read_region
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
    assert read(tmp_path, bytes(len(recorded("one")))) == ()


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
