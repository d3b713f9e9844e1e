"""The reflector tells its sink the truth, whatever the API does."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from driver.kube.api import NODES, Api, Gone, NotFound, Object, Page, Unavailable, WatchEvent
from driver.kube.reflector import Delta, Reflector, Removed, Synced, Upserted


def node(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def bookmark(version: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


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
        for event in next(self.watches):
            if isinstance(event, Exception):
                raise event
            yield event


def reflect(api: ScriptedApi, **options: Any) -> tuple[Reflector, list[Delta]]:
    seen: list[Delta] = []
    return Reflector(cast("Api", api), NODES, seen.append, **options), seen


def test_a_list_of_several_pages_is_one_synced() -> None:
    api = ScriptedApi([Page([node("a", 1)], "5", "more"), Page([node("b", 2)], "5")], [])
    reflector, seen = reflect(api)
    reflector.step()
    assert seen == [Synced(NODES, (node("a", 1), node("b", 2)))]
    assert api.asked == ["list ", "list more"]
    assert reflector.synced


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
    assert seen[-1] == Synced(NODES, ())
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
    assert seen == [Synced(NODES, ())]
    assert reflector.synced
