"""An answer is a stored object, or an error that says what the caller has to do: no shape of it reaches a caller."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kube.api import PODS, Api, ApiCall, ApiError, NotFound, Object, Unavailable

METADATA: Object = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"}
DELETED = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
CALLS: dict[str, Callable[[Api], Object]] = {
    "get": lambda api: api.get(PODS, "p", "default"),
    "create": lambda api: api.create(PODS, {"metadata": {"name": "p", "namespace": "default"}}),
    "update": lambda api: api.update(PODS, {"metadata": METADATA}),
    "patch": lambda api: api.patch(PODS, "p", {}, namespace="default"),
    "status": lambda api: api.patch(PODS, "p", {}, namespace="default", subresource="status"),
}
WRITES_OF_STORED = ("update", "patch", "status")


class Answering(Api):
    """An API that gives one answer to everything."""

    def __init__(self, answer: Any):
        self._answer = answer

    def call(self, call: ApiCall) -> Any:
        return self._answer


def without(*names: str) -> Object:
    return {name: value for name, value in METADATA.items() if name not in names}


@pytest.mark.parametrize("call", CALLS)
def test_a_stored_object_is_passed_on(call: str) -> None:
    for metadata in (METADATA, METADATA | DELETED):
        assert CALLS[call](Answering({"metadata": metadata})) == {"metadata": metadata}


@pytest.mark.parametrize("call", WRITES_OF_STORED)
def test_an_object_that_was_removed_during_the_write_is_not_found(call: str) -> None:
    """Kubernetes 1.38 answers with code 200, and without a version."""
    removed = {"metadata": without("resourceVersion") | DELETED}
    with pytest.raises(NotFound, match="'p': removed meanwhile"):
        CALLS[call](Answering(removed))


SENSELESS_ANSWERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.lists(st.just({"metadata": METADATA})),
    st.fixed_dictionaries({}, optional={"status": st.just("Success"), "metadata": st.sampled_from([None, [], "x", 1])}),
    st.sampled_from(["name", "uid", "resourceVersion"]).map(lambda name: {"metadata": without(name)}),
    st.sampled_from([None, 7, "", {}, []]).map(lambda value: {"metadata": METADATA | {"resourceVersion": value}}),
    st.just({"metadata": without("uid", "resourceVersion") | DELETED}),
)


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=60)
@given(answer=SENSELESS_ANSWERS)
def test_any_other_answer_leaves_it_open_whether_the_write_was_made(call: str, answer: Any) -> None:
    with pytest.raises(ApiError) as raised:
        CALLS[call](Answering(answer))
    assert type(raised.value) is Unavailable
