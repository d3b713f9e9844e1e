"""Karpenter makes as many nodes as pods at our gate need."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from driver.kinds import Offer
from tests.contract.karpenter.world import karpenter_cluster

pytestmark = [pytest.mark.karpenter, pytest.mark.timeout(900)]

QUIET_SECONDS = 20.0
"""Some loops of Karpenter, in which a scale-up without end would make further nodes."""


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
    ],
)
def test_from_zero_as_many_nodes_are_made_as_are_needed(demand: Demand) -> None:
    with karpenter_cluster(demand.profile, demand.offer) as cluster:
        pods = cluster.add_pods("p", demand.pods, demand.devices, config=demand.config)
        cluster.await_running(pods)
        cluster.stays(lambda: len(cluster.made) == demand.nodes, QUIET_SECONDS)
        assert len(cluster.nodes()) == demand.nodes
        assert cluster.said_by_scheduler() == []
