"""The fake kube-scheduler binds pods whose claims are allocated, and no others."""

from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, ApiError, Object, Unavailable
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from simulation.kubernetes.scheduler import KubeScheduler
from tests.unit.simulation.kubernetes.rig import Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
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


def test_a_gated_pod_is_left_alone(rig: Rig) -> None:
    rig.pod()
    rig.settle()
    rig.allocate()
    rig.settle()
    assert "nodeName" not in rig.get()["spec"]


def test_an_allocated_claim_is_reserved_and_the_pod_bound(rig: Rig) -> None:
    pod = rig.pod()
    rig.settle()
    rig.allocate()
    rig.remove_gate()
    rig.settle()
    assert rig.get()["spec"]["nodeName"] == "n1"
    (claim,) = rig.claims()
    assert [c["uid"] for c in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


def test_an_unallocated_claim_keeps_the_pod_pending_with_a_message(rig: Rig) -> None:
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
def test_a_node_that_does_not_fit_is_named(rig: Rig, node: Any, pod: Any, reason: str) -> None:
    rig.node("n2", **node)
    rig.pod(**pod)
    rig.settle()
    rig.allocate("n2")
    rig.remove_gate()
    rig.settle()
    assert reason in scheduled(rig.get())
    assert rig.claims()[0]["status"]["allocation"], "the policy let kube-scheduler revoke our allocation"


def test_a_failed_bind_removes_the_reservation_and_is_retried(rig: Rig) -> None:
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


def test_a_claim_of_another_pod_is_not_used(rig: Rig) -> None:
    rig.pod()
    rig.settle()
    claim = rig.allocate()
    claim["metadata"]["ownerReferences"][0]["uid"] = "another"
    rig.components = rig.components[1:]
    rig.api.update(RESOURCE_CLAIMS, claim)
    rig.remove_gate()
    rig.settle()
    assert "was not created for this pod" in scheduled(rig.get())
