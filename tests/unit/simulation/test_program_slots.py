"""When the programs of a simulated cluster start, act and die."""

import random
from collections.abc import Sequence

import pytest

from driver.kube.reflector import Reflector
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.faults import Crash
from tests.simulation.process import Process
from tests.simulation.program_slots import ProgramSlots


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
