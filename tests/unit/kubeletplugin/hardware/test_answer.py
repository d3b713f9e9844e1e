"""An answer that was not given takes nothing away that was known."""

from dataclasses import dataclass

import pytest

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read, kept, kept_facts, unread_in

UNREAD = Unread("NVML: nvmlDeviceGetName: unknown error (code 999)")


@pytest.mark.parametrize(
    ("known", "now", "holds"),
    [
        (None, 80, 80),
        (None, LACKS, LACKS),
        (None, UNREAD, UNREAD),
        (80, UNREAD, 80),
        (LACKS, UNREAD, LACKS),
        (80, LACKS, LACKS),
        (LACKS, 80, 80),
        (UNREAD, 80, 80),
    ],
)
def test_what_was_known_holds_until_there_is_an_answer(
    known: Answer[int] | None, now: Answer[int], holds: Answer[int]
) -> None:
    assert kept(known, now) == holds


@pytest.mark.parametrize(("answer", "value"), [(0, 0), (80, 80), (LACKS, None), (UNREAD, None)])
def test_what_is_shown_is_the_value_if_there_is_one(answer: Answer[int], value: int | None) -> None:
    assert if_read(answer) == value


@dataclass(frozen=True, slots=True)
class Measured:
    """Facts of a card, the first of which is no answer."""

    index: int
    name: Answer[str]
    memory: Answer[int]


def test_of_facts_each_that_was_not_answered_is_as_it_was_known() -> None:
    known, now = Measured(0, "A100", LACKS), Measured(1, UNREAD, 80)
    assert kept_facts(known, now) == Measured(1, "A100", 80)


def test_each_reason_of_what_was_not_answered_is_told_once() -> None:
    other = Unread("NVML: nvmlDeviceGetMemoryInfo: timeout (code 10)")
    assert unread_in(Measured(0, UNREAD, other)) == (UNREAD.why, other.why)
    assert unread_in(Measured(0, UNREAD, UNREAD)) == (UNREAD.why,)
    assert unread_in(Measured(0, "A100", LACKS)) == ()
