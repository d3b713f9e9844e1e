"""An answer that was not given takes nothing away that was known."""

import pytest

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read, kept

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
