"""The reflector tells its sink the truth, whatever the API does."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from driver.kube.api import NODES, Api, Forbidden, Gone, NotFound, Object, Page, Unavailable, Undecoded, WatchEvent
from driver.kube.reflector import (
    MISSING_LISTS,
    OUTAGE_SECONDS,
    PAGE_SIZE,
    Delta,
    Missing,
    Reflector,
    Removed,
    Restored,
    Synced,
    Unreadable,
    Upserted,
)
from tests.simulation.clock import VirtualClock


def node(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def bookmark(version: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class Refused(Unavailable):
    """No watch is opened. Any other error ends one that was."""


class ScriptedApi:
    """Answers list and watch calls from scripts and records what was asked."""

    def __init__(self, lists: list[Any], watches: list[list[WatchEvent | Exception]]):
        self.lists = iter(lists)
        self.watches = iter(watches)
        self.asked: list[str] = []

    def list(self, resource: Any, **options: Any) -> Page:
        self.asked.append(f"list {options['continue_token']}")
        answer = next(self.lists)
        if isinstance(answer, Exception):
            raise answer
        return cast("Page", answer)

    def watch(self, resource: Any, *, resource_version: str, **options: Any) -> Iterator[WatchEvent]:
        self.asked.append(f"watch {resource_version}")
        events = next(self.watches)
        if events and isinstance(events[0], Refused):
            raise events[0]
        return self._open(events)

    def _open(self, events: Sequence[WatchEvent | Exception]) -> Iterator[WatchEvent]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield event


def reflect(api: ScriptedApi, **options: Any) -> tuple[Reflector, list[Delta]]:
    seen: list[Delta] = []
    return Reflector(cast("Api", api), NODES, seen.append, **options), seen


def synced(version: str, *names: str) -> Synced:
    return Synced(NODES, frozenset(names), version)


def test_a_page_is_reported_before_the_next_one_is_read_and_one_synced_ends_the_list() -> None:
    api = ScriptedApi([Page([node("a", 1)], "5", "more"), Page([node("b", 2)], "5")], [])
    seen: list[tuple[int, Delta]] = []
    reflector = Reflector(cast("Api", api), NODES, lambda delta: seen.append((len(api.asked), delta)))
    reflector.step()
    assert seen == [
        (1, Upserted(NODES, node("a", 1), "5")),
        (2, Upserted(NODES, node("b", 2), "5")),
        (2, synced("5", "a", "b")),
    ]
    assert api.asked == ["list ", "list more"]
    assert reflector.synced


@pytest.mark.parametrize("error", [Unavailable("reset"), Gone("the continue token is too old", status=410)])
def test_a_list_that_breaks_off_says_nothing_about_what_does_not_exist_and_is_begun_anew(error: Exception) -> None:
    api = ScriptedApi([Page([node("a", 1)], "5", "more"), error, Page([node("b", 2)], "8")], [])
    reflector, seen = reflect(api)
    with pytest.raises(type(error)):
        reflector.step()
    assert seen == [Upserted(NODES, node("a", 1), "5")]
    assert (reflector.position, reflector.synced) == ("", False)
    reflector.step()
    assert seen[1:] == [Upserted(NODES, node("b", 2), "8"), synced("8", "b")]
    assert api.asked == ["list ", "list more", "list "]


def test_the_size_of_a_page_and_the_selection_hold_for_every_page() -> None:
    class Recording(ScriptedApi):
        def list(self, resource: Any, **options: Any) -> Page:
            self.asked.append(f"{options['limit']} {options['field_selector']}")
            return super().list(resource, **options)

    api = Recording([Page([], "5", "more"), Page([], "5")], [])
    reflector, _ = reflect(api, field_selector="a=b")
    reflector.step()
    assert api.asked[::2] == [f"{PAGE_SIZE} a=b"] * 2


def test_a_watch_goes_on_from_the_last_version_seen() -> None:
    first: list[WatchEvent | Exception] = [WatchEvent("ADDED", node("a", 6)), bookmark(9)]
    api = ScriptedApi([Page([], "5")], [first, [WatchEvent("DELETED", node("a", 10))]])
    reflector, seen = reflect(api)
    for _ in range(3):
        reflector.step()
    assert seen[1:] == [Upserted(NODES, node("a", 6)), Removed(NODES, node("a", 10))]
    assert api.asked == ["list ", "watch 5", "watch 9"]


def test_a_version_that_is_gone_leads_to_a_new_list() -> None:
    api = ScriptedApi([Page([node("a", 1)], "5"), Page([], "20")], [[Gone("too old", status=410)]])
    reflector, seen = reflect(api)
    positions = []
    for _ in range(3):
        reflector.step()
        positions.append(reflector.position)
    assert seen[-1] == synced("20")
    assert positions == ["5", "", "20"]
    assert api.asked == ["list ", "watch 5", "list "]


def test_a_lost_connection_is_raised_and_nothing_seen_is_lost() -> None:
    broken: list[WatchEvent | Exception] = [WatchEvent("MODIFIED", node("a", 7)), Unavailable("reset")]
    api = ScriptedApi([Page([], "5")], [broken, []])
    reflector, _ = reflect(api)
    reflector.step()
    with pytest.raises(Unavailable):
        reflector.step()
    reflector.step()
    assert api.asked[-1] == "watch 7"


def test_a_kind_the_api_does_not_serve_is_an_error_unless_optional() -> None:
    reflector, _ = reflect(ScriptedApi([NotFound("no such kind", status=404)], []))
    with pytest.raises(NotFound):
        reflector.step()
    reflector, seen = reflect(ScriptedApi([NotFound("no such kind", status=404)], []), optional=True)
    reflector.step()
    assert seen == [Missing(NODES)]
    assert reflector.synced


def test_an_error_is_kept_until_a_watch_is_open_or_a_list_complete() -> None:
    refused = Unavailable("no")
    api = ScriptedApi([refused, Page([], "1"), Page([], "9")], [[refused], [], [Gone("old")]])
    reflector, _ = reflect(api)
    errors = []
    for _ in range(6):
        with suppress(Unavailable):
            reflector.step()
        errors.append(reflector.error)
    assert errors == [refused, None, refused, None, None, None]


def test_an_optional_kind_that_is_forbidden_is_reported_and_asked_for_again() -> None:
    answers = [Forbidden("no right", status=403), Page([node("a", 5)], "5")]
    reflector, seen = reflect(ScriptedApi(answers, []), optional=True)
    with pytest.raises(Forbidden):
        reflector.step()
    assert seen == [Unreadable(NODES)]
    assert (reflector.synced, reflector.error, reflector.forbidden) == (True, None, answers[0])
    reflector.step()
    assert (len(seen), reflector.forbidden) == (3, None)


def test_a_kind_that_is_served_no_longer_is_gone_after_some_lists_and_found_when_it_comes_back() -> None:
    no_kind = NotFound("no such kind", status=404)
    lists = [Page([node("a", 5)], "5"), *[no_kind] * (MISSING_LISTS + 1), Page([node("a", 9)], "9")]
    reflector, seen = reflect(ScriptedApi(lists, [[no_kind]]), optional=True)
    reflector.step()
    reflector.step()
    assert (reflector.position, reflector.error) == ("", None), "what is gone is listed, and not watched for ever"
    for _ in range(MISSING_LISTS - 1):
        with pytest.raises(NotFound):
            reflector.step()
        assert reflector.error is no_kind
    assert len(seen) == 2, "an API server that starts may not serve every kind at once"
    for _ in range(3):
        reflector.step()
    assert seen[2:] == [Missing(NODES), Missing(NODES), Upserted(NODES, node("a", 9), "9"), synced("9", "a")]
    assert reflector.error is None


def test_versions_that_went_back_are_told_before_what_is_listed() -> None:
    api = ScriptedApi([Page([node("a", 5)], "20"), Page([node("a", 3)], "9"), Page([], "10")], [[Gone("old")]] * 2)
    reflector, seen = reflect(api)
    for _ in range(5):
        reflector.step()
    restored = [Restored(NODES), Upserted(NODES, node("a", 3), "9"), synced("9", "a")]
    assert seen == [Upserted(NODES, node("a", 5), "20"), synced("20", "a"), *restored, synced("10")]


def failing(error: Exception) -> list[WatchEvent | Exception]:
    return [error]


REFUSED = Refused("connection refused")
TOO_MANY = Refused("too many requests", status=429)


@pytest.mark.parametrize(
    ("errors", "seconds", "asked"),
    [
        ([REFUSED], OUTAGE_SECONDS, ["watch 20", "list ", "watch 9"]),
        ([REFUSED, TOO_MANY], OUTAGE_SECONDS, ["watch 20", "watch 20", "list ", "watch 9"]),
        ([REFUSED], 1.0, ["watch 20", "watch 20", "watch 20"]),
        ([TOO_MANY], OUTAGE_SECONDS, ["watch 20", "watch 20", "watch 20"]),
        ([], OUTAGE_SECONDS, ["watch 20", "watch 20"]),
    ],
    ids=["for long", "for long, and busy then", "for a moment", "busy", "quiet"],
)
def test_after_an_outage_all_is_listed_because_a_backup_may_have_been_restored(
    errors: list[Exception], seconds: float, asked: list[str]
) -> None:
    clock = VirtualClock()
    watches: list[list[WatchEvent | Exception]] = [*map(failing, errors), [], []]
    api = ScriptedApi([Page([], "20"), Page([], "9")], watches)
    reflector, seen = reflect(api, now=clock.monotonic)
    reflector.step()
    for _ in errors:
        with pytest.raises(Unavailable):
            reflector.step()
        clock.advance(seconds / len(errors))
    if not errors:
        clock.advance(seconds)
    reflector.step()
    reflector.step()
    assert api.asked[1:] == asked
    assert (Restored(NODES) in seen) == ("list " in asked)


def test_an_object_that_cannot_be_decoded_is_reported_and_the_watch_goes_on_behind_it() -> None:
    bad = Undecoded({"name": "bad", "resourceVersion": "7"}, "not a JSON object")
    nameless_version = Undecoded({"name": "worse"}, "not a JSON object")
    events: list[WatchEvent | Exception] = [WatchEvent("ADDED", bad), WatchEvent("DELETED", nameless_version)]
    api = ScriptedApi([Page([bad], "5")], [events, []])
    reflector, seen = reflect(api)
    for _ in range(3):
        reflector.step()
    assert seen == [
        Upserted(NODES, bad, "5"),
        synced("5", "bad"),
        Upserted(NODES, bad),
        Removed(NODES, nameless_version),
    ]
    assert api.asked == ["list ", "watch 5", "watch 7"]
