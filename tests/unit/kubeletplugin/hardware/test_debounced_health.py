"""Health that does not flap."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.observe import logger
from kubeletplugin.hardware import Card, Hardware, HardwarePorts, Health
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.remembered_cards import (
    LONGEST_RECOVERY_SECONDS,
    CardMemory,
    Failures,
    RememberedCards,
    after_report,
)
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.simulation.hardware_decorator import HardwareDecorator

RECOVERY = 60.0
FILE = "/plugin/health.json"


class Parted(HardwareDecorator):
    """A backend of which partitions have faults of their own."""

    faults: Mapping[str, Health] = {}

    def health(self) -> Mapping[str, Health]:
        return {**super().health(), **self.faults}


def full(operation: str, _path: str) -> None:
    """A disk that is full."""
    if operation == "create":
        raise OSError("no space left on device")


def remembered(backend: Hardware, clock: VirtualClock, file: BootFile[Failures]) -> RememberedCards:
    failed = BootFile(MemoryFiles(), FILE, "boot-1", list[Card], logger("test"))
    return RememberedCards(HardwarePorts(backend, backend), clock, RECOVERY, CardMemory(failed, file))


class FailingCards:
    """A node with two cards, of which ``gpu-1`` can fail."""

    def __init__(self) -> None:
        self.clock, self.files = VirtualClock(), MemoryFiles()
        backend = SimulatedHardware(load_profile("t4x2", self.files), "n1", self.files, "/faults")
        self.backend = backend
        self.start()

    def start(self, boot_id: str = "boot-1") -> None:
        """Start the program anew."""
        self.debounced = remembered(self.backend, self.clock, self.file(boot_id))

    def file(self, boot_id: str = "boot-1") -> BootFile[Failures]:
        return BootFile(self.files, FILE, boot_id, Failures, logger("test"))

    def fail(self, reason: bytes = b"Xid 79") -> None:
        self.files.write("/faults/gpu-1", reason)

    def work(self) -> None:
        self.files.remove("/faults/gpu-1")

    def health(self) -> Mapping[str, Health]:
        return self.debounced.health()

    def recovers_after(self) -> float:
        """Seconds of work until the card counts as healthy, to the second."""
        self.work()
        started = self.clock.monotonic()
        while not self.health()["gpu-1"].healthy:
            self.clock.sleep(1)
        return self.clock.monotonic() - started


def test_a_failure_is_reported_at_once_and_of_that_card_only() -> None:
    scene = FailingCards()
    assert all(health.healthy for health in scene.health().values())
    scene.fail()
    assert scene.health() == {"gpu-0": Health(), "gpu-1": Health("fatal", "Xid 79")}


def test_a_card_that_works_again_counts_as_unhealthy_with_its_reason_for_a_while() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    scene.work()
    assert scene.health()["gpu-1"] == Health("fatal", "Xid 79")
    assert scene.recovers_after() == RECOVERY


def test_the_while_starts_anew_with_each_failure_and_grows() -> None:
    scene, found = FailingCards(), []
    for _ in range(8):
        scene.fail()
        scene.health()
        found.append(scene.recovers_after())
    assert found == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_failure_long_after_the_last_one_counts_as_the_first() -> None:
    scene = FailingCards()
    for _ in range(3):
        scene.fail()
        scene.health()
        scene.recovers_after()
    scene.clock.sleep(2 * LONGEST_RECOVERY_SECONDS)
    scene.health()
    scene.fail()
    scene.health()
    assert scene.recovers_after() == RECOVERY


def test_a_card_that_has_to_be_reset_counts_as_unhealthy_until_it_was() -> None:
    needs_reset = Health(recovery="reset")
    failure = after_report(None, replace(needs_reset, state="fatal"), 0, RECOVERY)
    failure = after_report(failure, needs_reset, 10 * RECOVERY, RECOVERY)
    assert failure is not None
    assert failure.working_since is None
    failure = after_report(failure, Health(), 11 * RECOVERY, RECOVERY)
    assert failure is not None
    assert failure.working_since == 11 * RECOVERY


AWAY = Health("fatal", "its device plugin is not connected", away=True)


def test_a_card_is_healthy_as_soon_as_who_speaks_for_it_is_back() -> None:
    scene = FailingCards()
    backend = Parted(scene.backend)
    scene.debounced = remembered(backend, scene.clock, scene.file())
    for _ in range(8):
        backend.faults = {"gpu-1": AWAY}
        assert scene.health()["gpu-1"] == AWAY
        backend.faults = {}
        assert scene.health()["gpu-1"].healthy
    assert not scene.files.names("/plugin")


def test_a_card_that_has_failed_stays_so_while_who_speaks_for_it_is_away() -> None:
    scene = FailingCards()
    backend = Parted(scene.backend)
    scene.debounced = remembered(backend, scene.clock, scene.file())
    scene.fail()
    scene.health()
    backend.faults = {"gpu-1": AWAY}
    assert scene.health()["gpu-1"] == Health("fatal", "Xid 79")
    backend.faults = {}
    assert scene.recovers_after() == RECOVERY


@pytest.mark.parametrize("seconds", [5.0, 30.0])
def test_a_card_that_toggles_changes_once(seconds: float) -> None:
    scene, seen = FailingCards(), []
    for number in range(int(600 / seconds)):
        (scene.fail if number % 2 else scene.work)()
        scene.clock.sleep(seconds)
        seen.append(scene.health()["gpu-1"].healthy)
    assert sum(before != after for before, after in itertools.pairwise(seen)) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200)), max_size=40))
def test_a_card_that_does_not_work_never_counts_as_healthy(history: list[tuple[bool, int]]) -> None:
    scene = FailingCards()
    for works, seconds in history:
        (scene.work if works else scene.fail)()
        scene.clock.sleep(seconds)
        assert works or not scene.health()["gpu-1"].healthy
        assert scene.health()["gpu-0"].healthy


def test_a_restart_of_the_program_neither_shortens_nor_lengthens_the_while() -> None:
    scene = FailingCards()
    for _ in range(2):
        scene.fail()
        scene.health()
        scene.work()
        scene.health()
        scene.clock.sleep(0.9 * RECOVERY)
        scene.start()
        assert scene.health()["gpu-1"] == Health("fatal", "Xid 79")
    assert scene.recovers_after() == 2 * RECOVERY - 0.9 * RECOVERY
    scene.start()
    assert scene.health()["gpu-1"].healthy


def test_another_boot_of_the_machine_begins_anew() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    scene.work()
    scene.start("boot-2")
    assert scene.health()["gpu-1"].healthy


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"bootId": "boot-1"}', b'{"bootId": "boot-1", "value": {"a": 1}}']
)
def test_a_file_that_is_damaged_is_one_without_failures(content: bytes) -> None:
    scene = FailingCards()
    scene.files.write(FILE, content)
    scene.start()
    assert all(health.healthy for health in scene.health().values())
    scene.fail()
    assert not scene.health()["gpu-1"].healthy


def test_a_disk_that_cannot_be_written_keeps_no_health_from_being_told() -> None:
    scene = FailingCards()
    file = BootFile(MemoryFiles(full), FILE, "b", Failures, logger("test"))
    scene.debounced = remembered(scene.backend, scene.clock, file)
    scene.fail()
    assert not scene.health()["gpu-1"].healthy
    scene.work()
    assert not scene.health()["gpu-1"].healthy


def test_the_file_is_written_only_when_a_failure_begins_or_ends() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    scene.files.remove(FILE)
    for _ in range(3):
        scene.clock.sleep(5)
        scene.health()
    assert scene.files.read(FILE) is None


def test_a_failure_that_is_forgotten_leaves_no_file() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    assert scene.files.read(FILE)
    scene.recovers_after()
    scene.clock.sleep(2 * LONGEST_RECOVERY_SECONDS)
    scene.health()
    assert scene.files.read(FILE) is None


def test_a_plugin_that_stops_keeps_the_failures_of_cards_that_count_as_failed_only() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    scene.debounced.leave()
    scene.start()
    scene.work()
    assert not scene.health()["gpu-1"].healthy
    scene.recovers_after()
    scene.debounced.leave()
    assert scene.files.read(FILE) is None


def test_a_plugin_that_stops_leaves_no_file_of_an_earlier_boot() -> None:
    scene = FailingCards()
    scene.fail()
    scene.health()
    scene.start("boot-2")
    scene.debounced.leave()
    assert scene.files.read(FILE) is None


def test_a_partition_that_is_gone_leaves_nothing() -> None:
    scene, failed = FailingCards(), Health("fatal", "Xid 94")
    part = "gpu-0-mig-1g-5gb-6"
    backend = Parted(scene.backend)
    scene.debounced = remembered(backend, scene.clock, scene.file())
    backend.faults = {part: failed}
    assert scene.health()[part] == failed
    backend.faults = {}
    assert part not in scene.health()
    backend.faults = {part: Health()}
    assert scene.health()[part].healthy
