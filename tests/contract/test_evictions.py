"""Evictions: what budgets allow, what an eviction leaves on the pod, and which pod it means."""

from typing import Any

import pytest

from controller.allocation import Fleet
from controller.preemption.occupancy import budgets_of
from controller.state import State
from controller.state.budgets import budget_from
from driver.kube.api import POD_DISRUPTION_BUDGETS, PODS, Api, Conflict, Invalid, NotFound, Object, OverBudget
from driver.names import Names
from memoryapi import MemoryApi
from tests.contract.conftest import eventually
from tests.contract.test_pods import bind, unscheduled

APP = {"app": "a"}


def running(api: Api, name: str, namespace: str, *, ready: bool = True) -> Object:
    """A pod with the label of the budget that runs on a node."""
    wanted = unscheduled(name, namespace)
    wanted["metadata"]["labels"] = APP
    api.create(PODS, wanted)
    bind(api, namespace, name, "node-1")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return api.patch(PODS, name, {"status": status}, namespace=namespace, subresource="status", patch_type="strategic")


def budget(api: Api, namespace: str, healthy: int, allowed: int, name: str = "b", **spec: Any) -> None:
    """A budget of pods of which at least ``healthy - allowed`` stay, with the status that its controller writes."""
    desired = healthy - allowed
    wanted = {"minAvailable": desired, "selector": {"matchLabels": APP}, **spec}
    api.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": name, "namespace": namespace}, "spec": wanted})
    if isinstance(api, MemoryApi):
        numbers = {"currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed}
        status = {**numbers, "expectedPods": healthy, "observedGeneration": 1}
        api.patch(POD_DISRUPTION_BUDGETS, name, {"status": status}, namespace=namespace, subresource="status")

    def counted() -> bool:
        status = api.get(POD_DISRUPTION_BUDGETS, name, namespace).get("status") or {}
        return (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (healthy, allowed)

    eventually(counted)


def test_an_eviction_marks_the_pod_and_gives_it_its_grace_period(api: Api, namespace: str) -> None:
    running(api, "p", namespace)
    api.evict("p", namespace)
    pod = api.get(PODS, "p", namespace)
    [mark] = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    api.evict("p", namespace)
    assert api.get(PODS, "p", namespace)["metadata"]["deletionTimestamp"] == pod["metadata"]["deletionTimestamp"]
    api.evict("p", namespace, grace_period_seconds=5)
    assert api.get(PODS, "p", namespace)["metadata"]["deletionGracePeriodSeconds"] == 5


def test_a_pod_that_was_never_bound_is_gone_at_once(api: Api, namespace: str) -> None:
    api.create(PODS, unscheduled("p", namespace))
    api.evict("p", namespace)
    with pytest.raises(NotFound):
        api.get(PODS, "p", namespace)
    with pytest.raises(NotFound):
        api.evict("p", namespace)


def test_only_the_pod_that_was_meant_is_evicted(api: Api, namespace: str) -> None:
    pod = running(api, "p", namespace)
    with pytest.raises(Conflict, match="UID"):
        api.evict("p", namespace, uid="another")
    with pytest.raises(Conflict, match="ResourceVersion"):
        api.evict("p", namespace, resource_version="1")
    assert api.get(PODS, "p", namespace) == pod
    exactly = {"uid": pod["metadata"]["uid"], "resource_version": pod["metadata"]["resourceVersion"]}
    api.evict("p", namespace, **exactly)
    assert api.get(PODS, "p", namespace)["metadata"]["deletionTimestamp"]


def test_an_eviction_on_trial_is_answered_like_any_other_and_changes_nothing(api: Api, namespace: str) -> None:
    pods = [running(api, name, namespace) for name in ("p", "q")]
    budget(api, namespace, healthy=2, allowed=1)
    before = api.get(POD_DISRUPTION_BUDGETS, "b", namespace)["status"]
    for pod in pods:
        # Each is asked about alone: two would be more than the budget allows.
        api.evict(pod["metadata"]["name"], namespace, uid=pod["metadata"]["uid"], dry_run=True)
    assert [api.get(PODS, name, namespace) for name in ("p", "q")] == pods
    assert api.get(POD_DISRUPTION_BUDGETS, "b", namespace)["status"] == before
    with pytest.raises(Conflict, match="UID"):
        api.evict("p", namespace, uid="another", dry_run=True)
    api.evict("p", namespace)
    with pytest.raises(OverBudget, match="disruption budget"):
        api.evict("q", namespace, dry_run=True)
    with pytest.raises(NotFound):
        api.evict("nobody", namespace, dry_run=True)


def test_a_budget_allows_so_many_evictions_and_no_more(api: Api, namespace: str) -> None:
    pods = [running(api, name, namespace) for name in ("p", "q")]
    budget(api, namespace, healthy=2, allowed=1)
    api.evict("p", namespace, uid=pods[0]["metadata"]["uid"])
    with pytest.raises(OverBudget, match="disruption budget") as error:
        api.evict("q", namespace)
    assert (error.value.status, error.value.reason) == (429, "TooManyRequests")
    assert api.get(PODS, "q", namespace) == pods[1]
    # What ends already is no disruption.
    api.evict("p", namespace)


def test_pods_that_serve_nobody_are_evicted_whatever_a_budget_says(api: Api, namespace: str) -> None:
    running(api, "p", namespace)
    budget(api, namespace, healthy=1, allowed=0)
    waiting = unscheduled("q", namespace)
    waiting["metadata"]["labels"] = APP
    api.create(PODS, waiting)
    api.evict("q", namespace)
    with pytest.raises(OverBudget):
        api.evict("p", namespace)


@pytest.mark.parametrize(("policy", "evicted"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
def test_a_pod_that_is_not_ready_uses_no_budget(api: Api, namespace: str, policy: str, evicted: bool) -> None:
    running(api, "p", namespace, ready=False)
    budget(api, namespace, healthy=0, allowed=0, minAvailable=1, unhealthyPodEvictionPolicy=policy)
    if evicted:
        api.evict("p", namespace)
    else:
        with pytest.raises(OverBudget):
            api.evict("p", namespace)


@pytest.mark.parametrize("policy", ["AlwaysAllow", "IfHealthyBudget", None])
@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("state", ["ready", "unready", "pending"])
def test_what_is_foreseen_of_an_eviction_is_what_the_api_server_answers(
    api: Api, namespace: str, policy: str | None, wanted: int, state: str
) -> None:
    """``wanted`` pods have to be healthy; one other is. Nobody asks about pods that have ended."""
    running(api, "other", namespace)
    if state == "pending":
        waiting = unscheduled("p", namespace)
        waiting["metadata"]["labels"] = APP
        api.create(PODS, waiting)
    else:
        running(api, "p", namespace, ready=state == "ready")
    healthy = 2 if state == "ready" else 1
    more = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
    budget(api, namespace, healthy=healthy, allowed=healthy - wanted, **more)
    known = State(Fleet(), Names())
    known.budgets.upsert(budget_from(api.get(POD_DISRUPTION_BUDGETS, "b", namespace)))
    known.put(PODS, api.get(PODS, "p", namespace))
    pod = known.pods[f"{namespace}/p"]
    foreseen = all(known.budgets.allowed[one] > 0 for one in budgets_of(known, pod))
    try:
        api.evict("p", namespace, dry_run=True)
        answered = True
    except OverBudget:
        answered = False
    assert foreseen == answered


def test_a_pod_of_two_budgets_cannot_be_evicted(api: Api, namespace: str) -> None:
    running(api, "p", namespace)
    for name in ("b", "c"):
        budget(api, namespace, healthy=1, allowed=1, name=name)
    with pytest.raises(OverBudget, match="more than one PodDisruptionBudget"):
        api.evict("p", namespace)


def test_a_budget_has_one_bound(api: Api, namespace: str) -> None:
    metadata, spec = {"name": "b", "namespace": namespace}, {"minAvailable": 1, "maxUnavailable": 1}
    with pytest.raises(Invalid, match="both set"):
        api.create(POD_DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})
