"""Karpenter makes as many nodes as pods at our gate need, and takes them away when they are not needed any more."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from driver.kinds import Offer
from driver.kube.api import PODS
from tests.contract.conftest import eventually
from tests.contract.karpenter.world import karpenter_cluster
from tests.contract.stuck_gates import stuck_gates

pytestmark = [pytest.mark.karpenter, pytest.mark.timeout(900)]

QUIET_SECONDS = 20.0
"""Some loops of Karpenter, in which a scale-up without end would make further nodes."""
GONE_SECONDS = 120.0
"""Within this time, Karpenter deletes a node that is not needed. It took 30 s on a machine with nothing else to do."""
SOON = "5s"
"""How soon a node may be taken away."""


@dataclass(frozen=True)
class Demand:
    """Pods that all wait in a cluster without nodes."""

    profile: str
    offer: tuple[Offer, ...]
    pods: int
    devices: dict[str, Any]
    nodes: int
    """The nodes that they need."""
    config: list[dict[str, Any]] = field(default_factory=list)


def cards(count: int) -> dict[str, Any]:
    return {"deviceClassName": "gpu.lode.dev", "count": count}


def share(memory: str, cores: str) -> dict[str, Any]:
    return {"deviceClassName": "gpu-share.lode.dev", "capacity": {"requests": {"memory": memory, "cores": cores}}}


def mig(profile: str) -> dict[str, Any]:
    expression = f'device.attributes["lode.dev"].profile == "{profile}"'
    return {"deviceClassName": "mig.lode.dev", "selectors": [{"cel": {"expression": expression}}]}


GANG = {
    "opaque": {
        "driver": "lode.dev",
        "parameters": {
            "apiVersion": "lode.dev/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": "train", "minAvailable": 4},
        },
    }
}


@pytest.mark.parametrize(
    "demand",
    [
        pytest.param(Demand("t4x2", ("whole",), 3, cards(1), 2), id="a card each"),
        pytest.param(Demand("t4x2", ("whole",), 2, cards(2), 2), id="two cards each"),
        pytest.param(Demand("t4x2", (), 2, cards(2), 2), id="two cards each, which have counters"),
        pytest.param(Demand("t4x2", ("whole",), 4, cards(1), 2, [GANG]), id="a gang of four"),
        pytest.param(Demand("t4x2", ("share",), 6, share("5Gi", "30"), 1), id="shares, three to a card"),
        pytest.param(Demand("a100x4", ("partitions",), 9, mig("3g.20gb"), 2), id="partitions, two to a card"),
    ],
)
def test_from_zero_as_many_nodes_are_made_as_are_needed(demand: Demand) -> None:
    with karpenter_cluster(demand.profile, demand.offer) as cluster:
        pods = cluster.add_pods("p", demand.pods, demand.devices, config=demand.config)
        cluster.await_running(pods)
        cluster.stays(lambda: len(cluster.made) == demand.nodes, QUIET_SECONDS)
        assert len(cluster.nodes()) == demand.nodes
        assert cluster.said_by_scheduler() == []


def test_nodes_go_when_their_pods_have_ended() -> None:
    with karpenter_cluster("t4x2", ("whole",), SOON) as cluster:
        [first, *others] = pods = cluster.add_pods("p", 4, cards(1))
        cluster.await_running(pods)
        kept = cluster.pod(first)["spec"]["nodeName"]
        for pod in others:
            cluster.api.delete(PODS, pod, "default", grace_period_seconds=0)
        eventually(lambda: cluster.nodes() == [kept], GONE_SECONDS)
        assert cluster.running() == [first]
        cluster.api.delete(PODS, first, "default", grace_period_seconds=0)
        eventually(lambda: cluster.nodes() == [], GONE_SECONDS)
        assert len(cluster.made) == 2


def test_pods_of_two_nodes_are_put_on_one_which_is_large_enough() -> None:
    with karpenter_cluster("t4x2", ("whole",), SOON) as cluster:
        cluster.add_deployment("d", 3, cards(1))
        eventually(lambda: len(cluster.running()) == 3, GONE_SECONDS)
        cluster.plane.kubectl("scale", "deployment/d", "--replicas=2")
        eventually(lambda: len(cluster.nodes()) == 1, GONE_SECONDS)
        eventually(lambda: len(cluster.running()) == 2, GONE_SECONDS)
        cluster.stays(lambda: len(cluster.nodes()) == 1 and len(cluster.running()) == 2, QUIET_SECONDS)
        assert len(cluster.made) == 2


def test_a_node_stays_while_its_devices_are_held_behind_the_gate() -> None:
    with karpenter_cluster("t4x2", ("whole",), SOON) as cluster:
        with stuck_gates(cluster.api):
            [pod] = cluster.add_pods("p", 1, cards(1))
            eventually(lambda: len(cluster.nodes()) == 1, GONE_SECONDS)
            eventually(lambda: cluster.protected() == cluster.nodes(), GONE_SECONDS)
            cluster.stays(lambda: len(cluster.nodes()) == 1, 3 * QUIET_SECONDS)
        cluster.await_running([pod])
        assert len(cluster.made) == 1
        eventually(lambda: cluster.protected() == [])
