"""There is one Event for an object and reason, whoever writes it and however often."""

from controller.reporting import Note, event_of
from controller.writing.execution import carry_out
from driver.kube.api import EVENTS, PODS
from driver.limits import MAX_EVENT_MESSAGE
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock


def event(uid: str = "u", reason: str = "Full", message: str = "no room", at: str = "2027-01-15T08:00:00Z", **by: str):  # type: ignore[no-untyped-def]
    reporter = {"reporter": "lode.dev/controller", "instance": "me", **by}
    return event_of(Note(PODS, "default/p", uid, reason, message), timestamp=at, **reporter)


def test_it_is_counted_up_and_keeps_its_first_time() -> None:
    api = MemoryApi(VirtualClock())
    carry_out(api, event())
    carry_out(api, event(message="still no room", at="2027-01-15T09:00:00Z", instance="the next run"))
    carry_out(api, event(reason="Other"))
    counted, other = sorted(api.list(EVENTS).items, key=lambda found: -found["count"])
    assert (counted["count"], counted["message"]) == (2, "still no room")
    assert (counted["firstTimestamp"], counted["lastTimestamp"]) == ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z")
    assert counted["reportingInstance"] == "the next run"
    assert (other["count"], other["reason"]) == (1, "Other")


def test_a_namesake_has_events_of_its_own() -> None:
    assert event().target.name != event(uid="other").target.name


def test_long_names_and_texts_fit() -> None:
    note = Note(PODS, f"default/{'n' * 253}", "u", "R", "m" * 2000)
    step = event_of(note, reporter="r", instance="i" * 200, timestamp="t")
    assert len(step.target.name) <= 253
    assert len(step.event["message"]) == MAX_EVENT_MESSAGE
    assert len(step.event["reportingInstance"]) == 128
