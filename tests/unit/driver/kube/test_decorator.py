"""Every method of the port makes one call, a decorator passes it on as it was made, and its hooks see every call."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from driver.kube.api import LEASES, PODS, Api, ApiCall, Conflict, Forbidden, Page, WatchEvent
from driver.kube.decorator import ApiDecorator

T = TypeVar("T")

ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
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
    "patch": ((PODS, "p", {"spec": {}}), {"namespace": "ns", "subresource": "status", "patch_type": "strategic"}),
    "delete": ((PODS, "p", "ns"), {"uid": "u", "resource_version": "9", "grace_period_seconds": 3}),
    "evict": (("p", "ns"), {"uid": "u", "resource_version": "9", "grace_period_seconds": 3}),
}
"""Every method of the port with an argument for every parameter, none of them the default."""

CALLS: dict[str, ApiCall] = {
    "get": ApiCall("get", PODS, "ns", "p", meanwhile=list),
    "list": ApiCall("list", PODS, "ns", label_selector="a=b", field_selector="c=d", limit=7, continue_token="t"),
    "watch": ApiCall(
        "watch", PODS, "ns", resource_version="9", label_selector="a=b", field_selector="c=d", timeout_seconds=8
    ),
    "create": ApiCall("create", PODS, "ns", "p-", body={"metadata": {"generateName": "p-"}}),
    "update": ApiCall("update", PODS, "ns", "p", "status", body={"metadata": {"name": "p", "namespace": "ns"}}),
    "patch": ApiCall("patch", PODS, "ns", "p", "status", body={"spec": {}}, patch_type="strategic"),
    "delete": ApiCall("delete", PODS, "ns", "p", uid="u", resource_version="9", grace_period_seconds=3),
    "evict": ApiCall("evict", PODS, "ns", "p", uid="u", resource_version="9", grace_period_seconds=3),
}
"""The same as values."""


STORED = {"name": "p", "uid": "u", "resourceVersion": "7"}


class RecordingApi(Api):
    """Records its calls; the answer to each is a new object."""

    def __init__(self) -> None:
        self.calls: list[ApiCall] = []
        self.answers: list[Any] = []

    def call(self, call: ApiCall) -> Any:
        self.calls.append(call)
        self.answers.append(None if call.verb in ("delete", "evict") else {"metadata": {**STORED}})
        return self.answers[-1]


def make(api: Api, verb: str) -> Any:
    """The answer of the method, called with its ``ARGUMENTS``."""
    arguments, options = ARGUMENTS[verb]
    return getattr(api, verb)(*arguments, **options)


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
    assert set(ARGUMENTS) == {name for name in vars(Api) if not name.startswith("_")} - {"call"}


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_call_has_every_argument_and_its_answer_is_returned(verb: str) -> None:
    api = RecordingApi()
    answer = make(api, verb)
    assert api.calls == [CALLS[verb]]
    assert answer is api.answers[0]


def test_an_object_says_its_own_namespace() -> None:
    api = RecordingApi()
    api.create(PODS, {"metadata": {"name": "p", "namespace": "own"}})
    assert (api.calls[0].namespace, api.calls[0].name) == ("own", "p")


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_call_is_passed_on_as_it_was_made_and_its_answer_is_returned(verb: str) -> None:
    api = RecordingApi()
    answer = make(ApiDecorator(api), verb)
    assert api.calls == [CALLS[verb]]
    assert answer is api.answers[0]


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_hook_sees_every_call_and_can_refuse_it(verb: str) -> None:
    api = RecordingApi()
    observer = Observer(api)
    make(observer, verb)
    observer.error = Forbidden("no")
    with pytest.raises(Forbidden):
        make(observer, verb)
    assert len(api.calls) == 1
    assert observer.seen == [CALLS[verb], CALLS[verb]]
    assert CALLS[verb].is_write == (verb in ("create", "update", "patch", "delete", "evict"))
    assert str(CALLS[verb]) == f"{verb} pods"


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
        def call(self, call: ApiCall) -> Any:
            super().call(call)
            if call.verb == "watch":
                return iter([WatchEvent("ADDED", {}), WatchEvent("BOOKMARK", {})])
            if len(self.calls) == 1:
                raise Conflict("changed")
            return Page([], "1")

    api = Retry(ConflictsOnce())
    assert api.list(LEASES) == Page([], "1")
    assert [event.type for event in api.watch(LEASES, resource_version="1")] == ["ADDED"]
