"""What is news about a pod: another reason at once, other words of the same reason after a while, the same never."""

import pytest

from controller.reporting import REWORD_SECONDS, LastReports
from controller.state import PodView
from controller.state.pods import Condition, pod_from


def pod(uid: str = "u", reason: str = "", message: str = "", status: str = "False") -> PodView:
    condition = {"type": "mine", "status": status, "reason": reason, "message": message}
    raw = {
        "metadata": {"name": "p", "namespace": "ns", "uid": uid},
        "spec": {"containers": []},
        "status": {"conditions": [condition] if reason else []},
    }
    return pod_from(raw, "mine")


@pytest.mark.parametrize(
    ("reason", "message", "after", "news"),
    [
        ("A", "words", 0, False),
        ("A", "words", 10 * REWORD_SECONDS, False),
        ("A", "others", REWORD_SECONDS - 1, False),
        ("A", "others", REWORD_SECONDS, True),
        ("B", "words", 0, True),
    ],
)
@pytest.mark.parametrize("earlier_run", [False, True])
def test_what_is_news(reason: str, message: str, after: float, news: bool, earlier_run: bool) -> None:
    told = LastReports()
    seen = pod(reason="A", message="words") if earlier_run else pod()
    assert told.report(seen, "A", "words", 100) != earlier_run
    assert told.report(seen, reason, message, 100 + after) == news


def test_a_pod_that_has_its_devices_by_its_condition_was_told_nothing() -> None:
    assert LastReports().report(pod(reason="A", message="words", status="True"), "A", "words", 0)


def test_a_namesake_was_told_nothing() -> None:
    told = LastReports()
    told.report(pod(), "A", "words", 0)
    assert told.report(pod(uid="other"), "A", "words", 1)


def test_what_is_forgotten_is_news_again() -> None:
    told = LastReports()
    told.report(pod(), "A", "words", 0)
    told.forget("ns/p")
    assert told.report(pod(), "A", "words", 1)


def test_words_that_were_looked_at_again_and_are_the_same_rest_for_another_while() -> None:
    told = LastReports()
    told.report(pod(), "A", "words", 0)
    assert told.reword_at(pod(), "A", 0) == REWORD_SECONDS
    assert not told.report(pod(), "A", "words", REWORD_SECONDS)
    assert told.reword_at(pod(), "A", REWORD_SECONDS) == 2 * REWORD_SECONDS
    assert told.reword_at(pod(), "B", REWORD_SECONDS) is None


def test_the_condition_is_read_as_the_api_has_it() -> None:
    assert pod(reason="A", message="words").allocated == Condition("False", "A", "words", "")
