"""The stand-in for the resource-claim-controller does what the real one does."""

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS, Forbidden
from simulation.standins.claims import ResourceClaimController, base_name
from tests.unit.simulation.standins.rig import Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.parts = [ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock)]
    return rig


def test_a_gated_pod_gets_its_claim_from_the_template(rig: Rig) -> None:
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


def test_a_pod_waits_for_a_template_that_comes_later(rig: Rig) -> None:
    rig.pod()
    rig.settle()
    assert rig.claims() == []
    rig.template()
    rig.settle()
    assert len(rig.claims()) == 1


def test_a_restart_makes_no_second_claim(rig: Rig) -> None:
    rig.template()
    rig.pod()
    rig.settle()
    rig.parts = [ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock)]
    rig.settle()
    assert len(rig.claims()) == 1


@pytest.mark.parametrize("way", ["deleted", "succeeded", "failed"])
def test_the_claim_of_a_pod_that_is_done_is_freed_and_deleted(rig: Rig, way: str) -> None:
    rig.template()
    pod = rig.pod()
    rig.settle()
    rig.allocate(reserve=pod)
    rig.settle()
    if way == "deleted":
        rig.api.delete(PODS, "p", "default")
    else:
        status = {"status": {"phase": way.capitalize()}}
        rig.api.patch(PODS, "p", status, namespace="default", subresource="status")
    rig.settle()
    assert rig.claims() == []


def test_a_claim_that_was_never_reserved_keeps_its_allocation_until_it_is_deleted(rig: Rig) -> None:
    rig.template()
    rig.pod()
    rig.settle()
    claim = rig.allocate()
    rig.later(1000)
    assert rig.claims()[0]["status"]["allocation"]
    rig.api.delete(RESOURCE_CLAIMS, claim["metadata"]["name"], "default")
    rig.settle()
    assert [c["metadata"]["uid"] for c in rig.claims() if c["metadata"]["uid"] == claim["metadata"]["uid"]] == []


def test_a_pod_bound_without_the_scheduler_gets_its_allocated_claim_reserved(rig: Rig) -> None:
    rig.template()
    rig.node("n1")
    pod = rig.pod()
    rig.settle()
    rig.allocate()
    rig.lift_gate()
    rig.api.bind("default", "p", "n1")
    rig.settle()
    assert [c["uid"] for c in rig.claims()[0]["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


@pytest.mark.parametrize(("pod", "entry"), [("p", "device"), ("p" * 100, "d"), ("p" * 40, "d" * 40)])
def test_a_generated_name_leaves_room_for_five_characters(pod: str, entry: str) -> None:
    name = base_name(pod, entry)
    assert len(name) <= 57
    assert name.endswith("-")


def test_only_the_controller_sets_and_only_the_two_controllers_clear_our_allocations(rig: Rig) -> None:
    rig.template()
    rig.pod()
    rig.settle()
    claim = rig.allocate()
    stranger = rig.as_user("kube-scheduler")
    with pytest.raises(Forbidden, match=r"only the lode\.dev controller"):
        stranger.update(RESOURCE_CLAIMS, {**claim, "status": {}}, "status")
    rig.as_user("resource-claim-controller").update(RESOURCE_CLAIMS, {**claim, "status": {}}, "status")
    (cleared,) = rig.claims()
    with pytest.raises(Forbidden):
        stranger.update(RESOURCE_CLAIMS, {**cleared, "status": claim["status"]}, "status")
