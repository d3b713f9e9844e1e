"""What lasts is said again as rarely as allowed, once for all that wait because of it, and never as a burst."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controller.reporting import PACE_SECONDS, REMIND_SECONDS, Note, Reminders
from driver.kube.api import PODS, RESOURCE_CLAIMS

HOUR = 3600.0


def note(name: str, message: str = "no room") -> Note:
    return Note(PODS, f"ns/{name}", f"uid of {name}", "Full", message)


CLAIM = Note(RESOURCE_CLAIMS, "ns/shared", "c", "InvalidClaim", "wrong")


def said_until(reminders: Reminders, until: float) -> list[tuple[float, Note]]:
    """What is said by then, with the times."""
    said = []
    while (due := reminders.next_due()) is not None and due <= until:
        popped = reminders.pop(due)
        assert popped is not None
        assert popped[1]
        said.append((due, popped[0]))
    return said


def test_it_is_said_again_within_the_hour_after_which_the_api_server_forgets_it() -> None:
    reminders = Reminders()
    reminders.keep("ns/p", [note("p")], 0, said=True)
    assert said_until(reminders, 3 * HOUR) == [(n * REMIND_SECONDS, note("p")) for n in (1, 2, 3)]
    assert REMIND_SECONDS < HOUR


def test_news_puts_it_off_and_the_newest_words_are_said() -> None:
    reminders = Reminders()
    reminders.keep("ns/p", [note("p")], 0, said=True)
    reminders.keep("ns/p", [note("p", "less room")], 600, said=True)
    assert said_until(reminders, HOUR) == [(600 + REMIND_SECONDS, note("p", "less room"))]


def test_who_waits_no_longer_or_for_another_reason_is_not_reminded() -> None:
    reminders = Reminders()
    reminders.keep("ns/p", [note("p")], 0, said=True)
    reminders.keep("ns/q", [note("q")], 0, said=True)
    reminders.forget("ns/p")
    reminders.keep("ns/q", [CLAIM], 1, said=True)
    assert [what for _, what in said_until(reminders, HOUR)] == [CLAIM]
    reminders.keep("ns/q", [], 1, said=True)
    assert reminders.next_due() is None


def test_an_event_about_a_claim_is_said_once_for_all_pods_that_wait_because_of_it() -> None:
    reminders = Reminders()
    for name in ("p", "q"):
        reminders.keep(f"ns/{name}", [note(name), CLAIM], 0, said=True)
    reminders.forget("ns/p")
    assert [what for _, what in said_until(reminders, HOUR)].count(CLAIM) == 1
    reminders.forget("ns/q")
    assert reminders.next_due() is None


def test_five_thousand_pods_that_began_to_wait_at_once_are_told_within_ten_minutes() -> None:
    reminders = Reminders()
    for number in range(5_000):
        reminders.keep(f"ns/p{number}", [note(f"p{number}")], 0, said=True)
    said = [at for at, _ in said_until(reminders, HOUR)]
    assert len(said) == 5_000
    assert min(later - earlier for earlier, later in pairwise(said)) >= PACE_SECONDS - 1e-6


def test_what_an_earlier_run_may_have_said_is_looked_for_first() -> None:
    reminders = Reminders()
    reminders.keep("ns/old", [note("old")], 5_000, said=False)
    reminders.keep("ns/lost", [note("lost")], 5_000, said=False)
    for _ in range(2):
        popped = reminders.pop(reminders.next_due() or 0)
        assert popped is not None
        assert not popped[1]
    reminders.found(note("old").event, 4_000, 5_001)
    reminders.found(note("lost").event, None, 5_002)
    assert said_until(reminders, 4_000 + REMIND_SECONDS) == [
        (5_002, note("lost")),
        (4_000 + REMIND_SECONDS, note("old")),
    ]


def test_a_search_without_an_answer_is_repeated_whatever_is_answered_about_others() -> None:
    reminders = Reminders()
    reminders.keep("ns/p", [note("p")], 0, said=False)
    assert reminders.pop(0) == (note("p"), False)
    reminders.found("ns/other.event", None, 1)
    again = reminders.next_due()
    assert again is not None
    assert 0 < again < HOUR
    assert reminders.pop(again) == (note("p"), False)
    reminders.forget("ns/p")
    reminders.found(note("p").event, None, again)
    assert reminders.next_due() is None


Moves = st.lists(
    st.tuples(st.sampled_from(["keep", "keep said", "forget", "say"]), st.integers(0, 4), st.floats(0, 900)),
    max_size=60,
)


@given(Moves)
def test_no_event_is_said_twice_within_the_least_time_and_who_waits_is_always_reminded(
    moves: list[tuple[str, int, float]],
) -> None:
    reminders, now = Reminders(), 0.0
    last: dict[str, float] = {}
    waiting: set[str] = set()
    for what, number, seconds in moves:
        now, pod = now + seconds, f"ns/p{number}"
        while (due := reminders.next_due()) is not None and due <= now:
            popped = reminders.pop(max(due, 0))
            assert popped is not None
            told, said = popped
            assert told.key in waiting
            if said:
                assert due - last.get(told.event, -REMIND_SECONDS) >= REMIND_SECONDS - 1e-6
                last[told.event] = due
            else:
                reminders.found(told.event, last.get(told.event), due)
        if what.startswith("keep"):
            reminders.keep(pod, [note(f"p{number}")], now, said=what == "keep said")
            waiting.add(pod)
            if what == "keep said":
                last[note(f"p{number}").event] = now
        elif what == "forget":
            reminders.forget(pod)
            waiting.discard(pod)
    assert (reminders.next_due() is not None) == bool(waiting)


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    reminders = Reminders()
    for number in range(20_000):
        reminders.keep(f"ns/p{number}", [note(f"p{number}")], number, said=True)
        reminders.forget(f"ns/p{number}")
    assert len(reminders._later) < 2_000
