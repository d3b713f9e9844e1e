"""What is wrong with single writes of a controller about gangs."""

import pytest

from driver.kube.api import NODES, RESOURCE_CLAIMS, Object
from driver.names import FINALIZER
from tests.unit.simulation.test_write_checks import Rig

NODES_OF = {"a1": "a", "a2": "a", "b1": "b"}
LEVEL: Object = {"nodeLabel": "fabric"}


class Gangs(Rig):
    """Nodes of two fabrics, and two pods of a gang of which both have to start together."""

    def __init__(self, minimum: int = 2, **level: object):
        super().__init__()
        for name, fabric in NODES_OF.items():
            status = {"allocatable": {"cpu": "16"}}
            self.memory.create(NODES, {"metadata": {"name": name, "labels": {"fabric": fabric}}, "status": status})
        for name in ("w0", "w1"):
            self._claim_of(name, minimum, {**LEVEL, **level})
        self.pods = {name: self.pod(name, name) for name in ("w0", "w1")}

    def _claim_of(self, name: str, minimum: int, level: Object) -> None:
        gang = {"name": "train", "minAvailable": minimum}
        parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": gang, "topology": [level]}
        want = {"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}
        config = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
        metadata = {"name": name, "namespace": "default", "finalizers": [FINALIZER]}
        spec = {"devices": {"requests": [want], "config": config}}
        self.memory.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})

    def give(self, name: str, node: str) -> None:
        self.allocate(self.pods[name], claim=name, device=f"gpu-{name}", node=node)


@pytest.mark.parametrize(
    ("node", "level", "is_split"),
    [
        ("a2", {}, False),
        ("b1", {}, True),
        ("b1", {"mode": "preferred"}, False),
        ("b1", {"groupSize": 1}, False),
    ],
)
def test_a_gang_is_in_one_domain_of_each_required_level(node: str, level: Object, is_split: bool) -> None:
    rig = Gangs(**level)
    rig.give("w0", "a1")
    rig.give("w1", node)
    assert ["split over domains of fabric" in one for one in rig.found] == [True] * is_split


@pytest.mark.parametrize(("minimum", "is_early"), [(1, False), (2, True)])
def test_the_first_pod_is_let_go_when_enough_are_placed(minimum: int, is_early: bool) -> None:
    rig = Gangs(minimum)
    rig.give("w0", "a1")
    rig.let_go(rig.pods["w0"])
    assert [f"with 1 of {minimum} members placed" in one for one in rig.found] == [True] * is_early
    rig.found.clear()
    rig.give("w1", "a1")
    rig.let_go(rig.pods["w1"])
    assert not rig.found, "those that come later need not wait for others"


def test_all_members_are_placed_before_the_first_is_let_go() -> None:
    rig = Gangs()
    for name in ("w0", "w1"):
        rig.give(name, "a1")
    for pod in rig.pods.values():
        rig.let_go(pod)
    assert not rig.found
