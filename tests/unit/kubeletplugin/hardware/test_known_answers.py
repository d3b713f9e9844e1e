"""What was read holds; what was not is asked again, at once and then after growing pauses."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.known_answers import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, KnownAnswers
from tests.simulation.clock import VirtualClock

TIMEOUT = Unread("hbm_info: timeout (code -8006)")


class Library:
    """Gives the answers of a list, and the last one for ever."""

    def __init__(self, *answers: Answer[int]):
        self._answers = list(answers)
        self.calls = 0

    def __call__(self) -> Answer[int]:
        self.calls += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_a_fact_is_asked_until_it_is_read_and_never_again() -> None:
    for answer in (7, LACKS):
        known, library = KnownAnswers(VirtualClock()), Library(TIMEOUT, answer)
        assert known.fact("chip", "memory", library) == TIMEOUT
        assert known.unread("chip") == (TIMEOUT.why,)
        for _ in range(3):
            assert known.fact("chip", "memory", library) == answer
        assert library.calls == 2
        assert known.unread("chip") == ()


def test_a_fact_that_is_never_read_is_asked_after_growing_pauses() -> None:
    clock = VirtualClock()
    known, library = KnownAnswers(clock), Library(TIMEOUT)
    for _ in range(2):
        known.fact("chip", "memory", library)
    assert library.calls == 2, "once more at the next call: most errors are of a moment"
    clock.advance(FIRST_PAUSE_SECONDS - 1)
    known.fact("chip", "memory", library)
    assert library.calls == 2
    for _ in range(3600):
        clock.advance(1)
        known.fact("chip", "memory", library)
    assert 5 < library.calls < 3 + 6 + 3600 / LONGEST_PAUSE_SECONDS


@given(st.lists(st.sampled_from([1, 2, LACKS, TIMEOUT]), min_size=1, max_size=8))
def test_of_a_question_whose_answer_changes_the_last_one_that_was_read_holds(answers: Sequence[Answer[int]]) -> None:
    known, library = KnownAnswers(VirtualClock()), Library(*answers)
    for number in range(len(answers)):
        read = [answer for answer in answers[: number + 1] if not isinstance(answer, Unread)]
        assert known.latest("chip", "mode", library) == (read[-1] if read else TIMEOUT)
        assert bool(known.unread("chip")) == isinstance(answers[number], Unread)


def test_subjects_are_known_by_themselves() -> None:
    known = KnownAnswers(VirtualClock())
    assert known.fact("one", "memory", Library(1)) == 1
    assert known.fact("two", "memory", Library(TIMEOUT)) == TIMEOUT
    assert known.fact("one", "cores", Library(2)) == 2
    assert known.unread("one") == ()
