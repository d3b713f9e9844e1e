"""A decorator passes every call on as it was made, and its hooks see every call."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from driver.kube.api import LEASES, PODS, Api, Conflict, Forbidden, Page, WatchEvent
from driver.kube.decorator import ApiCall, ApiDecorator

T = TypeVar("T")

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "get": ((PODS, "p", "ns"), {"meanwhile": list}),
    "list": (
        (PODS,),
        {"namespace": "ns", "label_selector": "a=b", "field_selector": "c=d", "limit": 7, "continue_token": "t"},
    ),
    "watch": (
        (PODS,),
        {
            "resource_version": "9",
            "namespace": "ns",
            "label_selector": "a=b",
            "field_selector": "c=d",
            "timeout_seconds": 8,
        },
    ),
    "create": ((PODS, {"metadata": {"generateName": "p-"}}, "ns"), {}),
    "update": ((PODS, {"metadata": {"name": "p", "namespace": "ns"}}, "status"), {}),
    "patch": (
        (PODS, "p", {"spec": {}}),
        {"namespace": "ns", "subresource": "status", "patch_type": "strategic"},
    ),
    "delete": ((PODS, "p", "ns"), {"uid": "u", "resource_version": "9", "grace_period_seconds": 3}),
}
"""Every method of the port with an argument for every parameter, none of them the default."""


class RecordingApi:
    """Records its calls; the answer to each is a new object."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            self.answers.append(None if name == "delete" else object())
            return self.answers[-1]

        return call


class Observer(ApiDecorator):
    def __init__(self, api: Api):
        super().__init__(api)
        self.seen: list[ApiCall] = []
        self.error: Exception | None = None

    def before(self, call: ApiCall) -> None:
        self.seen.append(call)
        if self.error:
            raise self.error


def test_every_method_of_the_port_is_tried() -> None:
    assert set(CALLS) == {name for name in vars(Api) if not name.startswith("_")}


@pytest.mark.parametrize("method", CALLS)
def test_a_call_is_passed_on_with_every_argument_and_its_answer_is_returned(method: str) -> None:
    api = RecordingApi()
    arguments, options = CALLS[method]
    answer = getattr(ApiDecorator(api), method)(*arguments, **options)
    assert api.calls == [(method, arguments, options)]
    assert answer is api.answers[0]


@pytest.mark.parametrize("method", CALLS)
def test_a_hook_sees_every_call_and_can_refuse_it(method: str) -> None:
    api = RecordingApi()
    observer = Observer(api)
    arguments, options = CALLS[method]
    getattr(observer, method)(*arguments, **options)
    observer.error = Forbidden("no")
    with pytest.raises(Forbidden):
        getattr(observer, method)(*arguments, **options)
    assert len(api.calls) == 1
    (call, again) = observer.seen
    assert call == again
    assert (call.verb, call.resource, call.namespace) == (method, PODS, "ns")
    assert call.is_write == (method in ("create", "update", "patch", "delete"))


def test_a_hook_sees_what_the_call_is_about() -> None:
    observer = Observer(RecordingApi())
    for method, (arguments, options) in CALLS.items():
        getattr(observer, method)(*arguments, **options)
    calls: dict[str, ApiCall] = {call.verb: call for call in observer.seen}
    assert [calls[verb].name for verb in CALLS] == ["p", "", "", "p-", "p", "p", "p"]
    assert calls["list"].continue_token == "t"
    assert calls["watch"].resource_version == "9"
    assert calls["create"].body == {"metadata": {"generateName": "p-"}}
    assert (calls["update"].subresource, calls["patch"].subresource) == ("status", "status")
    assert calls["patch"].body == {"spec": {}}
    assert (calls["delete"].uid, calls["delete"].resource_version) == ("u", "9")
    assert str(calls["get"]) == "get pods"


def test_a_hook_around_a_call_can_replace_its_answer_and_see_its_error() -> None:
    class Retry(ApiDecorator):
        def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
            try:
                return proceed()
            except Conflict:
                return proceed()

        def around_watch(self, call: ApiCall, proceed: Callable[[], Iterator[WatchEvent]]) -> Iterator[WatchEvent]:
            return (event for event in proceed() if event.type != "BOOKMARK")

    class ConflictsOnce(RecordingApi):
        def list(self, *_: Any, **__: Any) -> Page:
            self.calls.append(("list", (), {}))
            if len(self.calls) == 1:
                raise Conflict("changed")
            return Page([], "1")

        def watch(self, *_: Any, **__: Any) -> Iterator[WatchEvent]:
            return iter([WatchEvent("ADDED", {}), WatchEvent("BOOKMARK", {})])

    api = Retry(ConflictsOnce())
    assert api.list(LEASES) == Page([], "1")
    assert [event.type for event in api.watch(LEASES, resource_version="1")] == ["ADDED"]
