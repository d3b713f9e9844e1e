"""The fake resource-claim-controller does what the real one does."""

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS
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
