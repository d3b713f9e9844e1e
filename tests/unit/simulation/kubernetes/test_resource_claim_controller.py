"""The fake resource-claim-controller does what the real one does."""

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS, Object
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes


@pytest.fixture
def rig() -> FakeKubernetes:
    rig = FakeKubernetes()
    rig.components = [ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock)]
    return rig


def test_a_gated_pod_gets_its_claim_from_the_template(rig: FakeKubernetes) -> None:
    rig.template()
    pod = rig.pod()
    rig.settle()
    (claim,) = rig.claims()
    assert pod["spec"]["schedulingGates"] == [{"name": "lode.dev/allocation"}]
    assert claim["metadata"]["name"].startswith("p-device-")
    assert claim["metadata"]["labels"] == {"from": "t"}
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "device"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    statuses = rig.get()["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "device", "resourceClaimName": claim["metadata"]["name"]}]


def test_a_pod_waits_for_a_template_that_comes_later(rig: FakeKubernetes) -> None:
    rig.pod()
    rig.settle()
    assert rig.claims() == []
    rig.template()
    rig.settle()
    assert len(rig.claims()) == 1


def test_a_pod_whose_claim_cannot_be_named_never_gets_it_and_others_do(rig: FakeKubernetes) -> None:
    rig.template()
    rig.pod("p", resourceClaims=[{"name": "e" * 63, "resourceClaimTemplateName": "t"}])
    rig.pod("q")
    rig.advance(60)
    (claim,) = rig.claims()
    assert claim["metadata"]["name"].startswith("q-device-")


def test_a_restart_creates_no_second_claim(rig: FakeKubernetes) -> None:
    rig.template()
    rig.pod()
    rig.settle()
    rig.components = [ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock)]
    rig.settle()
    assert len(rig.claims()) == 1


@pytest.mark.parametrize("end", ["deleted", "succeeded", "failed"])
def test_the_claim_of_a_pod_that_is_done_is_deallocated_and_deleted(rig: FakeKubernetes, end: str) -> None:
    rig.template()
    pod = rig.pod()
    rig.settle()
    rig.allocate(reserve=pod)
    rig.settle()
    if end == "deleted":
        rig.api.delete(PODS, "p", "default")
    else:
        status = {"status": {"phase": end.capitalize()}}
        rig.api.patch(PODS, "p", status, namespace="default", subresource="status")
    rig.settle()
    assert rig.claims() == []


def test_a_claim_that_was_never_reserved_keeps_its_allocation_until_it_is_deleted(rig: FakeKubernetes) -> None:
    rig.template()
    rig.pod()
    rig.settle()
    claim = rig.allocate()
    rig.advance(1000)
    assert rig.claims()[0]["status"]["allocation"]
    rig.api.delete(RESOURCE_CLAIMS, claim["metadata"]["name"], "default")
    rig.settle()
    assert [c["metadata"]["uid"] for c in rig.claims() if c["metadata"]["uid"] == claim["metadata"]["uid"]] == []


def test_a_pod_bound_without_the_scheduler_gets_its_allocated_claim_reserved(rig: FakeKubernetes) -> None:
    rig.template()
    rig.node("n1")
    pod = rig.pod()
    rig.settle()
    rig.allocate()
    rig.remove_gate()
    rig.api.bind("default", "p", "n1")
    rig.settle()
    assert [c["uid"] for c in rig.claims()[0]["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


@pytest.mark.parametrize(("reserves_for_ended", "times"), [(False, 0), (True, 1)])
def test_a_pod_that_has_ended_gets_a_shared_claim_reserved_again_before_138(
    rig: FakeKubernetes, reserves_for_ended: bool, times: int
) -> None:
    """Once in the simulation; afterwards the claim is that of the pod that runs."""
    api, clock = rig.as_user("resource-claim-controller"), rig.clock
    rig.components = [ResourceClaimController(api, clock, reserves_for_ended=reserves_for_ended)]
    rig.template()
    rig.node("n1")
    runs, ended = (rig.pod(name, resourceClaims=[{"name": "d", "resourceClaimName": "shared"}]) for name in "ab")
    rig.api.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": {}})
    allocation: Object = {"devices": {"results": []}}
    users = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in (runs, ended)
    ]
    status = {"allocation": allocation, "reservedFor": users}
    rig.api.patch(RESOURCE_CLAIMS, "shared", {"status": status}, namespace="default", subresource="status")
    for pod in (runs, ended):
        rig.remove_gate(pod["metadata"]["name"])
        rig.api.bind("default", pod["metadata"]["name"], "n1")
    rig.settle()
    version = rig.api.resource_version
    rig.api.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
    rig.settle()
    seen = [
        event.object for event in rig.api.watch(RESOURCE_CLAIMS, resource_version=version) if event.type == "MODIFIED"
    ]
    reserved = [[user["name"] for user in claim["status"]["reservedFor"]] for claim in seen]
    assert reserved == [["a"], *[["a", "b"], ["a"]] * times]
