"""The fake admission policies gate pods and guard allocations as those in ``manifests/controller`` do."""

import pytest

from driver.kube.api import RESOURCE_CLAIMS, Forbidden
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes


@pytest.fixture
def rig() -> FakeKubernetes:
    rig = FakeKubernetes()
    rig.components = [ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock)]
    return rig


def test_only_the_controller_sets_and_only_the_two_controllers_clear_our_allocations(rig: FakeKubernetes) -> None:
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
