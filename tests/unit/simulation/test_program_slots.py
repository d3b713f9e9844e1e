"""When the programs of a simulated cluster start, act and die."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from driver.kube.api import PODS
from driver.kube.reflector import Reflector
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.faults import NO_FAULTS, Crash, NetworkFaults
from tests.simulation.process import Process
from tests.simulation.program_slots import LAG_SECONDS, ProgramSlots


class Idle:
    """A program that has nothing to do."""

    reflectors: Sequence[Reflector] = ()

    def step(self) -> bool:
        return False

    def next_due(self) -> float | None:
        return None


def test_a_program_that_dies_in_a_call_starts_again_only_when_the_call_has_ended() -> None:
    clock = VirtualClock()
    slots = ProgramSlots(clock, random.Random(0), EventLog(clock), lambda name: None)
    slots.add("plugin", lambda process: Idle())
    (slot,) = slots.ready()
    slots.run(slot)
    ready_meanwhile: list[object] = []

    def dies(_: Process) -> None:
        slots.kill("plugin")
        ready_meanwhile.extend(slots.ready())

    slot.process = Process("plugin", dies)
    with pytest.raises(Crash):
        slot.process.call()
    assert ready_meanwhile == []
    assert slots.ready() == [slot]


@pytest.mark.parametrize("lag", [0.0, 0.1])
def test_a_watch_that_lagged_is_read_again_within_a_minute(lag: float) -> None:
    """Of a kind that is written once, nothing else tells the program that there is something new."""
    clock = VirtualClock()
    slots = ProgramSlots(clock, random.Random(0), EventLog(clock), lambda name: None)
    slots.faults = replace(NO_FAULTS, network=NetworkFaults(lag=lag))
    api = MemoryApi(clock)
    heard: list[object] = []
    watching = Idle()
    watching.reflectors = [Reflector(api, PODS, heard.append)]
    slots.add("controller", lambda process: watching)
    (slot,) = slots.ready()
    for _ in range(20):
        slots.run(slot)
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    api.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    known = len(heard)
    for _ in range(20):
        clock.advance(LAG_SECONDS)
        slots.run(slot)
    assert (len(heard) > known) is bool(lag), "the log, which counts writes, has none"
