"""What a kube-scheduler may do that preempts devices itself (KEP-5690, planned for 1.38); a stand-in has its identity.

It evicts a pod, and clears reservation and allocation of the pod's claim in one write, so that the devices are free
before the resource-claim-controller has seen the end of the pod.
"""

from collections.abc import Iterator

import pytest

from testclusters.controlplane import ControlPlane
from tests.contract.identity import SCHEDULER, Identity, Object, Response, eventually
from tests.contract.installed import CLAIMS, OUR_DRIVER, allocated, claim, installed, patch_status

RESERVED = [{"apiGroup": "lode.example", "resource": "holds", "name": "victim", "uid": "1"}]


def preempt(who: Identity, stored: Object) -> Response:
    """Take the devices of a claim away, as kube-scheduler will."""
    return patch_status(who, {**stored, "status": {}})


@pytest.fixture
def where_the_controller_allocates() -> Iterator[Identity]:
    with installed() as admin:
        yield admin


def test_where_the_controller_allocates_kube_scheduler_takes_no_devices_of_ours(
    where_the_controller_allocates: Identity,
) -> None:
    admin = where_the_controller_allocates
    wanted = allocated(admin.request("POST", CLAIMS, claim()).must(), OUR_DRIVER)
    wanted["status"]["reservedFor"] = RESERVED
    controller = admin.as_user("system:serviceaccount:lode-system:lode-controller")
    stored = patch_status(controller, wanted).must()
    refused = preempt(admin.as_user(SCHEDULER), stored)
    assert refused.status == 403
    assert "system:kube-scheduler may not clear the allocation of this ResourceClaim" in refused.message
    assert "delete the pods that use it" in refused.message
    assert admin.get(f"{CLAIMS}/{stored['metadata']['name']}")["status"] == stored["status"]


def test_where_kube_scheduler_allocates_it_may_take_devices() -> None:
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-k", "manifests/scheduler-allocated")
        admin = Identity.admin(plane)
        scheduler = admin.as_user(SCHEDULER)
        wanted = allocated(admin.request("POST", CLAIMS, claim()).must(), OUR_DRIVER)
        wanted["status"]["reservedFor"] = RESERVED
        stored = patch_status(scheduler, wanted).must()
        path = f"{CLAIMS}/{stored['metadata']['name']}"
        others, try_out = admin.as_user("somebody", "system:masters"), f"{path}/status?dryRun=All"
        cleared = {**stored, "status": {}}
        # Only tried: before the policies are in force, it would take the devices.
        eventually("the policies are in force", lambda: others.request("PUT", try_out, cleared).status == 403, 60)
        assert preempt(others, stored).status == 403
        assert "allocation" not in preempt(scheduler, admin.get(path)).must().get("status", {})
