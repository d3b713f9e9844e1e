"""Hardware that is missing, fails or hangs keeps nobody waiting for ever, and is used as soon as it is there."""

import threading
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue

import pytest

from driver.clock import SystemClock
from driver.errors import Fault, InvalidInput, TransientFault
from driver.parameters import GpuConfig
from kubeletplugin.hardware import Action, Card, CardGone, CardState, Handle, InUse, Readings, Use
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.guarded import FIND_AGAIN_SECONDS, Guard, GuardedHardware
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles


def simulated() -> SimulatedHardware:
    return SimulatedHardware(load_profile("t4x2", MemoryFiles()), "n1")


def test_it_answers_as_its_backend() -> None:
    backend = simulated()
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), VirtualClock())
    assert hardware.cards() == backend.cards()
    assert hardware.health() == backend.health()
    for card in backend.cards():
        use = Use("claim", card, config=GpuConfig(sharing="mps"))
        assert hardware.observe(card) == backend.observe(card)
        assert hardware.readings(card) == backend.readings(card)
        assert hardware.edits(use, {}) == backend.edits(use, {})
        for each in (use, Use("claim", card)):
            assert hardware.assess(each, ()) == backend.assess(each, ())
        (action,) = hardware.actions(use, ())
        assert hardware.ensure(action) == backend.ensure(action)
        assert [found.action for found in hardware.observe(card).found] == [action]
        hardware.release(action, None)
        assert not backend.observe(card).found


@pytest.mark.parametrize("error", [InvalidInput("profile 'h100x9'", [Fault("", "unknown")]), OSError("no driver")])
def test_hardware_that_is_not_found_is_looked_for_again_and_meanwhile_it_is_said_why(error: Exception) -> None:
    clock, tries, present = VirtualClock(), [], False

    def find() -> CombinedHardware:
        tries.append(clock.monotonic())
        if not present:
            raise error
        return CombinedHardware.only(simulated())

    hardware = GuardedHardware(find, clock)
    for _ in range(3):
        with pytest.raises(TransientFault, match=str(error)):
            hardware.cards()
    assert len(tries) == 1, "it is not looked for at every question"
    present = True
    clock.sleep(FIND_AGAIN_SECONDS)
    assert len(hardware.cards()) == 2
    assert len(hardware.health()) == 2
    assert len(tries) == 2


class Hanging(SimulatedHardware):
    """Hardware whose calls do not return before they may."""

    def __init__(self) -> None:
        super().__init__(load_profile("t4x2", MemoryFiles()), "n1")
        self.may_return = threading.Event()
        self.calls = 0

    def cards(self) -> tuple[Card, ...]:
        self.calls += 1
        self.may_return.wait()
        return super().cards()


def test_a_call_that_hangs_is_given_up_and_no_other_is_made_until_it_returns() -> None:
    backend = Hanging()
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock(), answer_seconds=0.05)
    with pytest.raises(TransientFault, match="did not answer within"):
        hardware.cards()
    for _ in range(3):
        with pytest.raises(TransientFault, match="still hangs"):
            hardware.health()
    assert backend.calls == 1
    backend.may_return.set()
    patient = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock())
    assert len(patient.cards()) == 2


def test_after_a_call_that_hung_the_hardware_is_asked_again() -> None:
    backend = Hanging()
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock(), answer_seconds=0.05)
    with pytest.raises(TransientFault):
        hardware.cards()
    backend.may_return.set()
    found: list[str] = []
    while not found:
        with suppress(TransientFault):
            found = [*hardware.health()]
    assert len(found) == 2


class Defective(SimulatedHardware):
    def cards(self) -> tuple[Card, ...]:
        raise ZeroDivisionError


def test_a_defect_of_a_backend_is_a_fault_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = SimpleQueue[type[BaseException]]()
    monkeypatch.setattr(threading, "excepthook", lambda arguments: printed.put(arguments.exc_type))
    backend = Defective(load_profile("t4x2", MemoryFiles()))
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock())
    with pytest.raises(TransientFault, match="defect"):
        hardware.cards()
    assert printed.get() is ZeroDivisionError
    assert len(hardware.health()) == 2


class OneCardHangs(SimulatedHardware):
    """Hardware of which one card does not answer before it may."""

    def __init__(self) -> None:
        super().__init__(load_profile("t4x2", MemoryFiles()), "n1")
        self.may_return = threading.Event()

    def observe(self, card: Card) -> CardState:
        if card.index == 0:
            self.may_return.wait()
        return super().observe(card)


def test_a_card_that_hangs_delays_no_other_card_and_no_question_about_the_node() -> None:
    backend = OneCardHangs()
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock(), answer_seconds=0.05)
    hanging, other = backend.cards()
    for reason in ("did not answer within", "still hangs"):
        with pytest.raises(TransientFault, match=f"card {hanging.uuid} .*{reason}"):
            hardware.observe(hanging)
    patient = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock())
    assert patient.observe(other) == CardState()
    assert len(patient.health()) == 2
    backend.may_return.set()


class OneCardMeasuresNothing(SimulatedHardware):
    """Hardware of which one card does not say what it measures before it may."""

    def __init__(self) -> None:
        super().__init__(load_profile("h100x8", MemoryFiles()), "n1")
        self.may_return = threading.Event()
        self.asked = SimpleQueue[str]()

    def readings(self, card: Card) -> Readings:
        self.asked.put(card.name)
        if card.index == 0:
            self.may_return.wait()
        return super().readings(card)


def test_a_card_that_says_nothing_of_itself_delays_no_other_and_no_claim() -> None:
    backend = OneCardMeasuresNothing()
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock())
    silent, *others = hardware.cards()
    for reason in ("did not answer within", "still hangs"):
        (first, problem), *rest = hardware.all_readings()
        assert first == silent
        assert reason in str(problem)
        assert [(card, isinstance(answer, Readings)) for card, answer in rest] == [(card, True) for card in others]
    with pytest.raises(TransientFault, match="still hangs"):
        hardware.readings(silent)
    assert hardware.observe(silent) == CardState()
    assert hardware.edits(Use("claim", silent), {}).device_nodes
    assert [backend.asked.get() for _ in range(backend.asked.qsize())].count(silent.name) == 1
    backend.may_return.set()
    while not all(isinstance(answer, Readings) for _, answer in hardware.all_readings()):
        pass


def test_before_there_are_cards_none_is_asked() -> None:
    backend = OneCardMeasuresNothing()
    assert GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock()).all_readings() == []
    assert backend.asked.empty()


class Refusing(SimulatedHardware):
    def release(self, action: Action, handle: Handle | None) -> None:
        raise InUse("two processes")


def test_a_refusal_of_the_hardware_is_its_answer() -> None:
    backend = Refusing(load_profile("t4x2", MemoryFiles()), "n1")
    hardware = GuardedHardware(lambda: CombinedHardware.only(backend), SystemClock())
    (action,) = hardware.actions(Use("claim", backend.cards()[0], config=GpuConfig(sharing="mps")), ())
    with pytest.raises(InUse, match="two processes"):
        hardware.release(action, {})
    absent = replace(backend.cards()[0], uuid="GPU-absent")
    with pytest.raises(CardGone, match="GPU-absent"):
        hardware.observe(absent)


def test_a_moment_without_threads_makes_no_card_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(60.0)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(TransientFault, match="card x cannot be asked now"):
            guard("card x", lambda: 1)
    assert guard("card x", lambda: 2) == 2
