"""The port of the running program: many writes in flight, none of which waits for another."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import TypeVar

import pytest

from controller.election import Deposed
from controller.writing import Channel, Lane, ThreadedWrites, WriteResult, WriteSequence, WritingMetrics
from controller.writing.steps import PatchPodStatus, Target
from driver.clock import SystemClock
from driver.kube.api import PODS, Api, ApiCall, Object
from driver.kube.decorator import ApiDecorator
from driver.observe import Metrics
from tests.unit.controller.loop.world import ControllerWorld
from tests.unit.controller.writing.terms import OneTerm

# A thread that dies as it should may be noticed only while the next test runs.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

T = TypeVar("T")
SECONDS = 10
"""Longest wait for what must happen."""


class Gates(ApiDecorator):
    """An API whose calls about the pods in ``shut`` hang until they are opened."""

    def __init__(self, api: Api):
        super().__init__(api)
        self.shut: dict[str, threading.Event] = {}
        self.arrived: Queue[str] = Queue()

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        self.arrived.put(call.name)
        if gate := self.shut.get(call.name):
            gate.wait(SECONDS)
        return proceed()


class Broken(threading.Event):
    """A gate that fails in a way nobody foresaw."""

    def wait(self, timeout: float | None = None) -> bool:
        raise RuntimeError("a bug")


class ManyWrites:
    def __init__(self) -> None:
        world = ControllerWorld()
        self.pods = {name: world.add_pod(name) for name in ("slow", "fast", "other")}
        self.api = Gates(world.api)
        self.terms = OneTerm()
        self.results: Queue[WriteResult] = Queue()
        self.died = threading.Event()
        self.metrics = Metrics()
        self.writes = ThreadedWrites(
            Channel(self.api, self.terms, self.results.put, SystemClock()),
            {Lane.PLACING: 3, Lane.REPORTING: 1},
            WritingMetrics(self.metrics),
            died=self.died.set,
        )

    def sequence(self, name: str, node: str = "n1", lane: Lane = Lane.PLACING, times: int = 1) -> WriteSequence:
        pod: Object = self.pods[name]
        target = Target(PODS, f"default/{name}", pod["metadata"]["uid"])
        steps = (PatchPodStatus(target, {"nominatedNodeName": node}),) * times
        return WriteSequence(("pod", target.key), steps, lane, term=1)

    def result(self) -> tuple[str, bool]:
        """The name of the pod of the next result, and whether it succeeded."""
        result = self.results.get(timeout=SECONDS)
        return result.sequence.subject[1].removeprefix("default/"), result.error is None

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"lode_controller_{name}", labels)


@pytest.fixture
def rig() -> Iterator[ManyWrites]:
    made = ManyWrites()
    yield made
    for gate in made.api.shut.values():
        gate.set()
    assert made.writes.close(SECONDS)
    assert not made.died.is_set()


@contextmanager
def hanging(rig: ManyWrites, name: str) -> Iterator[None]:
    """Calls about the pod hang meanwhile."""
    rig.api.shut[name] = threading.Event()
    yield
    rig.api.shut[name].set()


def test_a_write_does_not_wait_for_slow_writes_of_others(rig: ManyWrites) -> None:
    with hanging(rig, "slow"):
        rig.writes.submit(rig.sequence("slow"))
        assert rig.api.arrived.get(timeout=SECONDS) == "slow"
        rig.writes.submit(rig.sequence("fast"))
        assert rig.result() == ("fast", True)
        assert rig.value("writes_in_flight", lane="placing") == 1
    assert rig.result() == ("slow", True)


def test_a_second_write_of_an_object_waits_for_the_first_and_others_pass_it(rig: ManyWrites) -> None:
    with hanging(rig, "slow"):
        rig.writes.submit(rig.sequence("slow", "n1"))
        rig.writes.submit(rig.sequence("slow", "n2"))
        rig.writes.submit(rig.sequence("fast"))
        assert rig.result() == ("fast", True)
        assert rig.value("writes_waiting", lane="placing") == 1
    assert rig.result() == rig.result() == ("slow", True)


def test_placing_does_not_wait_for_telling(rig: ManyWrites) -> None:
    with hanging(rig, "slow"):
        rig.writes.report(((PODS, "slow"), "condition"), rig.sequence("slow", lane=Lane.REPORTING))
        rig.writes.report(((PODS, "other"), "condition"), rig.sequence("other", lane=Lane.REPORTING))
        assert rig.api.arrived.get(timeout=SECONDS) == "slow"
        rig.writes.submit(rig.sequence("fast"))
        assert rig.result() == ("fast", True)
    assert {rig.result(), rig.result()} == {("slow", True), ("other", True)}


def test_a_term_that_ends_ends_what_has_not_been_sent(rig: ManyWrites) -> None:
    with hanging(rig, "slow"):
        rig.writes.submit(rig.sequence("slow", times=2))
        assert rig.api.arrived.get(timeout=SECONDS) == "slow"
        rig.terms.term = None
    result = rig.results.get(timeout=SECONDS)
    assert isinstance(result.error, Deposed)
    assert len(result.rest) == 1


def test_closing_waits_for_what_is_under_way_and_starts_nothing_more(rig: ManyWrites) -> None:
    with hanging(rig, "slow"):
        rig.writes.submit(rig.sequence("slow", times=2))
        rig.writes.submit(rig.sequence("slow"))
        assert rig.api.arrived.get(timeout=SECONDS) == "slow"
        assert not rig.writes.close(0)
    assert rig.writes.close(SECONDS)
    assert rig.result() == ("slow", True)
    assert rig.results.empty()


def test_the_time_of_each_write_is_measured_by_outcome(rig: ManyWrites) -> None:
    rig.writes.submit(rig.sequence("fast", times=2))
    assert rig.result() == ("fast", True)
    assert rig.value("write_seconds_count", outcome="done") == 2
    rig.terms.term = None
    rig.writes.submit(rig.sequence("fast"))
    assert rig.result() == ("fast", False)
    assert rig.value("write_seconds_count", outcome="Deposed") == 1


def test_a_worker_that_dies_is_noticed() -> None:
    rig = ManyWrites()
    rig.api.shut["fast"] = Broken()
    rig.writes.submit(rig.sequence("fast"))
    assert rig.died.wait(SECONDS)
    rig.writes.close(0)
    # The error of a thread is reported when it has ended, which has to be during this test.
    for thread in threading.enumerate():
        if thread.name.partition(" ")[0] in list(Lane):
            thread.join(SECONDS)
