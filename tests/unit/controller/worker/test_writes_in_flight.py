"""What is being written is not decided about, and has an end."""

from controller.state import Changes
from controller.worker.writes_in_flight import LONGEST_TRIED_SECONDS, MOST_TRIES, SequenceState, WritesInFlight
from controller.writing import WriteResult, WriteSequence
from controller.writing.steps import PatchPodStatus, Target
from driver.kube.api import PODS, Unavailable
from driver.observe import logger
from tests.simulation.clock import VirtualClock
from tests.unit.controller.filled_state import FilledState


class Accepted:
    """Writes without an answer."""

    def __init__(self) -> None:
        self.submitted: list[WriteSequence] = []

    def submit(self, sequence: WriteSequence) -> None:
        """Nothing is carried out."""
        self.submitted.append(sequence)

    def report(self, key: object, sequence: WriteSequence) -> None:
        """Nothing is carried out."""


def test_a_pod_waits_for_writes_of_the_claims_of_an_earlier_pod_of_its_name() -> None:
    in_flight = WritesInFlight(FilledState().state, Accepted(), VirtualClock(), logger("test"), 10)
    in_flight.submit(WriteSequence(("pod", "default/a"), ()))
    assert in_flight.is_busy([(PODS, "default/a")])
    assert not in_flight.is_busy([(PODS, "default/b")])


def test_a_write_whose_tries_each_wait_for_their_turn_is_given_up_in_time() -> None:
    clock, turn, longest_write = VirtualClock(), 30.0, 10.0
    writes = Accepted()
    in_flight = WritesInFlight(FilledState().state, writes, clock, logger("test"), longest_write)
    step = PatchPodStatus(Target(PODS, "default/a", "u"), {})
    in_flight.submit(WriteSequence(("claim", "default/a"), (step,)))
    while step in writes.submitted[-1].steps:
        clock.advance(turn)
        result = WriteResult(writes.submitted[-1], (), Unavailable("timeout"), (step,))
        state, _ = in_flight.on_result(result, Changes())
        assert state is SequenceState.IN_DOUBT
        clock.advance((in_flight.next_due() or 0) - clock.monotonic())
        in_flight.repeat_due()
    assert 2 < len(writes.submitted) < MOST_TRIES, "repeated, and given up in time"
    assert clock.monotonic() <= turn + LONGEST_TRIED_SECONDS + turn + longest_write
