"""Each write reaches the object that was decided about, in the version that was, or nothing."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from controller.writing.execution import carry_out
from controller.writing.steps import (
    AddFinalizer,
    EvictPod,
    NotEvicted,
    Obstacle,
    PatchClaimStatus,
    PatchPodStatus,
    RemoveGate,
    Step,
    Target,
)
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiCall, ApiError, Conflict, Object, Resource
from driver.kube.client import error_from
from driver.kube.decorator import ApiDecorator
from driver.names import FINALIZER, Names
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock

T = TypeVar("T")
GATE = Names().gate
CONDITION = {"type": "lode.dev/Allocated", "status": "True"}
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}


def pod() -> Object:
    spec = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "busybox"}]}
    return {"metadata": {"name": "x", "namespace": "default"}, "spec": spec}


def claim(count: int = 1) -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "count": count}}
    return {"metadata": {"name": "x", "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}


def target(resource: Resource, obj: Object) -> Target:
    metadata = obj["metadata"]
    version = metadata["resourceVersion"] if resource == RESOURCE_CLAIMS else ""
    return Target(resource, "default/x", metadata["uid"], version)


class EvictionsAnswered(ApiDecorator):
    """An API that says of each eviction, which it does not make, that it was made (0), or answers with this status."""

    def __init__(self, api: Api, status: int):
        super().__init__(api)
        self._status = status

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        if call.verb != "evict":
            return proceed()
        if self._status:
            raise error_from(self._status, {"message": "not this one"})
        return None  # type: ignore[return-value]


STEPS: dict[str, tuple[Resource, Callable[[], Object], Callable[[Target], Step]]] = {
    "the gate": (PODS, pod, lambda of: RemoveGate(of, GATE, 0)),
    "the condition": (PODS, pod, lambda of: PatchPodStatus(of, {"conditions": [CONDITION]})),
    "the finalizer": (RESOURCE_CLAIMS, claim, lambda of: AddFinalizer(of, (FINALIZER,))),
    "the reservation": (RESOURCE_CLAIMS, claim, lambda of: PatchClaimStatus(of, {"reservedFor": [CONSUMER]})),
}


def content(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": None}}


@pytest.mark.parametrize("what", STEPS)
def test_a_namesake_is_never_written_to(what: str) -> None:
    resource, make, step_for = STEPS[what]
    api = MemoryApi(VirtualClock())
    step = step_for(target(resource, api.create(resource, make())))
    api.delete(resource, "x", "default", grace_period_seconds=0)
    namesake = api.create(resource, make())
    with pytest.raises(ApiError):
        carry_out(api, step)
    assert content(api.get(resource, "x", "default")) == content(namesake)


def test_a_pods_namesake_is_a_conflict_so_that_the_pod_is_decided_about_again() -> None:
    api = MemoryApi(VirtualClock())
    of = target(PODS, api.create(PODS, pod()))
    api.delete(PODS, "x", "default", grace_period_seconds=0)
    api.create(PODS, pod())
    for step in (RemoveGate(of, GATE, 0), PatchPodStatus(of, {"conditions": [CONDITION]})):
        with pytest.raises(Conflict):
            carry_out(api, step)


def test_a_claim_that_changed_since_the_decision_is_not_written_to() -> None:
    api = MemoryApi(VirtualClock())
    of = target(RESOURCE_CLAIMS, api.create(RESOURCE_CLAIMS, claim()))
    changed = api.patch(RESOURCE_CLAIMS, "x", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    for step in (AddFinalizer(of, (FINALIZER,)), PatchClaimStatus(of, {"reservedFor": [CONSUMER]})):
        with pytest.raises(Conflict):
            carry_out(api, step)
    assert content(api.get(RESOURCE_CLAIMS, "x", "default")) == content(changed)


def test_only_our_gate_is_removed() -> None:
    api = MemoryApi(VirtualClock())
    made = pod()
    made["spec"]["schedulingGates"].insert(0, {"name": "example.com/other"})
    of = target(PODS, api.create(PODS, made))
    with pytest.raises(Conflict):
        carry_out(api, RemoveGate(of, GATE, 0))
    carry_out(api, RemoveGate(of, GATE, 1))
    assert api.get(PODS, "x", "default")["spec"]["schedulingGates"] == [{"name": "example.com/other"}]


@pytest.mark.parametrize("answer", [404, 409, 0], ids=["404", "409", "evicted"])
def test_an_eviction_after_which_the_pod_does_not_end_is_a_refusal(answer: int) -> None:
    stored = MemoryApi(VirtualClock())
    of = target(PODS, stored.create(PODS, pod()))
    with pytest.raises(NotEvicted) as refused:
        carry_out(EvictionsAnswered(stored, answer), EvictPod(of))
    assert (refused.value.victim, refused.value.why) == (of, Obstacle.OTHER)


def test_a_dry_run_of_an_eviction_that_is_answered_as_if_the_pod_were_gone_is_a_refusal() -> None:
    stored = MemoryApi(VirtualClock())
    of = target(PODS, stored.create(PODS, pod()))
    with pytest.raises(NotEvicted):
        carry_out(EvictionsAnswered(stored, 409), EvictPod(of, dry_run=True))
    carry_out(EvictionsAnswered(stored, 0), EvictPod(of, dry_run=True))


@pytest.mark.parametrize("answer", [404, 409])
def test_an_eviction_of_a_pod_that_is_gone_or_has_a_namesake_is_made(answer: int) -> None:
    stored = MemoryApi(VirtualClock())
    of = target(PODS, stored.create(PODS, pod()))
    stored.delete(PODS, "x", "default", grace_period_seconds=0)
    carry_out(EvictionsAnswered(stored, answer), EvictPod(of))
    stored.create(PODS, pod())
    carry_out(EvictionsAnswered(stored, answer), EvictPod(of))
