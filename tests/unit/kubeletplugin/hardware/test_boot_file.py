"""What a program leaves for the next one is written while nobody waits for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from driver.observe import logger
from kubeletplugin.hardware import Card, CardSource, Hardware, HardwarePorts
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.remembered_cards import CardMemory, Failures, RememberedCards
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

FILE = "/plugin/kept.json"


class SlowDisk:
    """Files of a disk that does something else before it first makes a temporary file for ``FILE``."""

    def __init__(self) -> None:
        self.files = MemoryFiles(self._before)
        self.meanwhile: Callable[[], object] | None = None

    def _before(self, operation: str, path: str) -> None:
        if operation == "create" and path.startswith("/plugin/") and self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    def file(self, kind: type[Any]) -> BootFile[Any]:
        return BootFile(self.files, FILE, "boot-1", kind, logger("test"))


def remembered(backend: Hardware, memory: CardMemory) -> CardSource:
    return RememberedCards(HardwarePorts(backend, backend), VirtualClock(), 10, memory)


def sticky(backend: Hardware, disk: SlowDisk) -> CardSource:
    elsewhere = BootFile(MemoryFiles(), FILE, "boot-1", Failures, logger("test"))
    return remembered(backend, CardMemory(disk.file(list[Card]), elsewhere))


def debounced(backend: Hardware, disk: SlowDisk) -> CardSource:
    elsewhere = BootFile(MemoryFiles(), FILE, "boot-1", list[Card], logger("test"))
    return remembered(backend, CardMemory(elsewhere, disk.file(Failures)))


@pytest.mark.parametrize("made", [sticky, debounced])
def test_the_cards_and_their_health_are_told_while_a_disk_keeps_a_failure(
    made: Callable[[Hardware, SlowDisk], CardSource],
) -> None:
    disk, told = SlowDisk(), list[object]()
    hardware = made(SimulatedHardware(load_profile("t4x2", disk.files), "n1", disk.files, "/faults"), disk)
    hardware.cards()
    disk.files.write("/faults/gpu-1", b"Xid 79")
    with ThreadPoolExecutor() as other:

        def ask() -> None:
            told.extend(other.submit(question).result(timeout=5) for question in (hardware.cards, hardware.health))

        disk.meanwhile = ask
        health = hardware.health()
        assert told == [hardware.cards(), health]
    assert not health["gpu-1"].healthy


def test_what_is_chosen_while_another_thread_saves_is_saved_by_that_one() -> None:
    disk = SlowDisk()
    file = disk.file(list[str])

    def overtake() -> None:
        file.choose(["second"])
        file.save()
        assert disk.files.read(FILE) is None, "the other thread is not waited for"

    file.choose(["first"])
    disk.meanwhile = overtake
    file.save()
    assert file.load() == ["second"]


def test_what_was_saved_is_not_written_again() -> None:
    disk = SlowDisk()
    file = disk.file(list[str])
    file.choose(["first"])
    file.save()
    changes = disk.files.disk.changes
    file.save()
    assert disk.files.disk.changes == changes
