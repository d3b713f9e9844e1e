"""The controller is killed at every write of a gang's commit, beside real Kubernetes components."""

from collections.abc import Iterator

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Api
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.running import installed, nodes_of, remove, running_controller
from tests.dying_controller import DIED
from tests.unit.controller.filled_state import placement_config

MEMBERS = ("train-0", "train-1")
WRITES = range(1, 3 * len(MEMBERS) + 1)
"""Of each member: the allocation of its claim; the nomination of the pod, and its gate. A policy sets the finalizer."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    """Nodes of two fabrics. A Lease that was not released is taken over soon."""
    nodes = {"a1": {"fabric": "a"}, "b1": {"fabric": "b"}}
    with installed(nodes, {"leaseSeconds": 3, "writeSeconds": 1}) as cluster:
        asked = placement_config(gang={"name": "train", "minAvailable": 2}, topology=[{"nodeLabel": "fabric"}])
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
        template = {"metadata": {"name": "one", "namespace": "default"}}
        spec = {"spec": {"devices": {"requests": requests, **asked}}}
        cluster[1].create(RESOURCE_CLAIM_TEMPLATES, {**template, "spec": spec})
        yield cluster


@pytest.mark.parametrize("number", WRITES)
def test_a_gang_starts_whole_after_the_controller_was_killed_at_a_write(
    cluster: tuple[ControlPlane, Api], number: int
) -> None:
    plane, api = cluster
    with running_controller(plane, "tests.dying_controller", str(number)) as dying:
        for name in MEMBERS:
            spec = {
                "containers": [{"name": "main", "image": "none"}],
                "resourceClaims": [{"name": "card", "resourceClaimTemplateName": "one"}],
            }
            api.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        assert dying.wait(60) == DIED
    pods = [api.get(PODS, name, "default") for name in MEMBERS]
    claims = api.list(RESOURCE_CLAIMS, namespace="default").items
    allocated = [claim for claim in claims if (claim.get("status") or {}).get("allocation")]
    let_go = [pod for pod in pods if not pod["spec"].get("schedulingGates")]
    assert not let_go or len(allocated) == len(MEMBERS), "no gate is removed before all claims are written"
    with running_controller(plane):
        where = eventually(lambda: nodes_of(api, *MEMBERS), 60)
        assert len(set(where)) == 1, "in one fabric"
        remove(api, *MEMBERS)
