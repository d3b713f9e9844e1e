"""The fake kube-scheduler binds pods whose claims are allocated, and no others."""

from typing import Any

import pytest

from driver.kube.api import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ApiError,
    Object,
    Unavailable,
)
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from simulation.kubernetes.scheduler import BACKOFF_SECONDS, KubeScheduler
from tests.system.other_driver import DRIVER as OTHER_DRIVER
from tests.system.other_driver import device_class, slices
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes


@pytest.fixture
def rig() -> FakeKubernetes:
    rig = FakeKubernetes()
    rig.components = [
        ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock),
        KubeScheduler(rig.as_user("kube-scheduler"), rig.clock, rig.api.bind),
    ]
    rig.template()
    rig.node("n1")
    return rig


def scheduled(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or []
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")


def test_a_gated_pod_is_left_alone(rig: FakeKubernetes) -> None:
    rig.pod()
    rig.settle()
    rig.allocate()
    rig.settle()
    assert "nodeName" not in rig.get()["spec"]


def test_an_allocated_claim_is_reserved_and_the_pod_bound(rig: FakeKubernetes) -> None:
    pod = rig.pod()
    rig.settle()
    rig.allocate()
    rig.remove_gate()
    rig.settle()
    assert rig.get()["spec"]["nodeName"] == "n1"
    (claim,) = rig.claims()
    assert [c["uid"] for c in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


def test_an_unallocated_claim_keeps_the_pod_pending_with_a_message(rig: FakeKubernetes) -> None:
    rig.pod()
    rig.settle()
    rig.remove_gate()
    rig.settle()
    assert "is not allocated" in scheduled(rig.get())
    rig.allocate()
    rig.settle()
    assert rig.get()["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("node", "pod", "reason"),
    [
        ({"unschedulable": True}, {}, "unschedulable"),
        ({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}, {}, "untolerated taints"),
        ({}, {"nodeSelector": {"disk": "ssd"}}, "node affinity/selector"),
        ({}, {"cpu": "3"}, "Insufficient cpu"),
    ],
)
def test_a_node_that_does_not_fit_is_named(rig: FakeKubernetes, node: Any, pod: Any, reason: str) -> None:
    rig.node("n2", **node)
    rig.pod(**pod)
    rig.settle()
    rig.allocate("n2")
    rig.remove_gate()
    rig.settle()
    assert reason in scheduled(rig.get())
    assert rig.claims()[0]["status"]["allocation"], "the policy let kube-scheduler revoke our allocation"


def test_a_failed_bind_removes_the_reservation_and_is_retried(rig: FakeKubernetes) -> None:
    errors: list[ApiError] = [Unavailable("connection lost")]

    def bind(namespace: str, name: str, node: str) -> Object:
        if errors:
            raise errors.pop()
        return rig.api.bind(namespace, name, node)

    pod = rig.pod()
    rig.settle()
    rig.components[1] = KubeScheduler(rig.as_user("kube-scheduler"), rig.clock, bind)
    rig.allocate(reserve=pod)
    rig.remove_gate()
    version = rig.api.resource_version
    rig.settle()
    changes = rig.api.watch(RESOURCE_CLAIMS, resource_version=version)
    reserved = [bool(e.object["status"].get("reservedFor")) for e in changes if e.type == "MODIFIED"]
    assert reserved == [False, True]
    assert rig.get()["spec"]["nodeName"] == "n1"


def test_a_claim_of_another_pod_is_not_used(rig: FakeKubernetes) -> None:
    rig.pod()
    rig.settle()
    claim = rig.allocate()
    claim["metadata"]["ownerReferences"][0]["uid"] = "another"
    rig.components = rig.components[1:]
    rig.api.update(RESOURCE_CLAIMS, claim)
    rig.remove_gate()
    rig.settle()
    assert "was not created for this pod" in scheduled(rig.get())


def test_a_pod_of_lower_priority_is_evicted_where_the_claim_is_allocated(rig: FakeKubernetes) -> None:
    rig.node("n2")
    for name, node in (("a", "n1"), ("b", "n2")):
        rig.api.create(PODS, plain_pod(name, node))
    rig.pod(cpu="2", priority=10)
    rig.settle()
    rig.allocate("n2")
    rig.remove_gate()
    rig.settle()
    assert rig.get()["status"]["nominatedNodeName"] == "n2"
    conditions = {c["type"]: c.get("reason") for c in rig.get("b")["status"].get("conditions") or []}
    assert conditions["DisruptionTarget"] == "PreemptionByScheduler"
    assert rig.get("b")["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in rig.get("a")["metadata"]
    rig.api.delete(PODS, "b", "default", grace_period_seconds=0)
    rig.settle()
    assert rig.get()["spec"]["nodeName"] == "n2"


def test_room_that_is_nominated_is_not_given_to_a_pod_of_the_same_priority(rig: FakeKubernetes) -> None:
    nominated = plain_pod("a", "")
    nominated["spec"]["schedulingGates"] = [{"name": "wait"}]
    rig.api.create(PODS, nominated)
    rig.api.patch(PODS, "a", {"status": {"nominatedNodeName": "n1"}}, namespace="default", subresource="status")
    rig.api.create(PODS, plain_pod("b", ""))
    rig.settle()
    assert "Insufficient cpu" in scheduled(rig.get("b"))


def test_devices_of_another_driver_are_allocated_with_the_finalizer_and_reserved(rig: FakeKubernetes) -> None:
    rig.api.create(DEVICE_CLASSES, device_class())
    for part in slices():
        rig.api.create(RESOURCE_SLICES, part)
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": OTHER_DRIVER}}]}}
    rig.api.create(
        RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "nic", "namespace": "default"}, "spec": {"spec": spec}}
    )
    pod = rig.pod(resourceClaims=[{"name": "nic", "resourceClaimTemplateName": "nic"}])
    rig.settle()
    rig.remove_gate()
    rig.settle()
    (claim,) = rig.claims()
    assert rig.get()["spec"]["nodeName"] == "n1"
    assert [result["driver"] for result in claim["status"]["allocation"]["devices"]["results"]] == [OTHER_DRIVER]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert [consumer["uid"] for consumer in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


def plain_pod(name: str, node: str) -> Object:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_an_event_of_a_claim_wakes_the_pods_that_name_it_and_free_devices_wake_all(rig: FakeKubernetes) -> None:
    """Of two pods that wait, one is tried when its claim changes, and both when devices become free."""
    for name in ("p", "q"):
        rig.pod(name)
    rig.settle()
    for name in ("p", "q"):
        rig.remove_gate(name)
    rig.settle()
    scheduler = rig.components[1]
    of_p, of_q = sorted(rig.claims(), key=lambda claim: str(claim["metadata"]["name"]))

    def woken() -> set[str]:
        for reflector in scheduler.reflectors:
            reflector.step()
        due = {key[2] for key in iter(scheduler.queue.pop, None)}
        for name in due:
            scheduler.queue.add(("pod", "default", name), BACKOFF_SECONDS)
        return due

    rig.api.patch(RESOURCE_CLAIMS, of_p["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    assert woken() == {"p"}
    free = {"metadata": {"name": "free", "namespace": "default"}, "spec": {}}
    rig.api.create(RESOURCE_CLAIMS, free)
    assert woken() == set()
    allocated: Object = {"status": {"allocation": {"devices": {"results": []}}}}
    rig.api.patch(RESOURCE_CLAIMS, "free", allocated, namespace="default", subresource="status")
    assert woken() == set()
    rig.api.patch(RESOURCE_CLAIMS, "free", {"status": {"allocation": None}}, namespace="default", subresource="status")
    assert woken() == {"p", "q"}
    rig.api.patch(RESOURCE_CLAIMS, "free", allocated, namespace="default", subresource="status")
    assert woken() == set()
    rig.api.delete(RESOURCE_CLAIMS, "free", "default")
    assert woken() == {"p", "q"}
    assert of_q["metadata"]["name"].startswith("q-")
