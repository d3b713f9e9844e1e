"""What is wrong with single writes of a controller about gangs."""

from typing import Any

import pytest

from driver.kube.api import JOBS, NODES, PODS, RESOURCE_CLAIMS, Object
from driver.names import FINALIZER
from tests.unit.simulation.test_write_checks import Rig

NODES_OF = {"a1": "a", "a2": "a", "b1": "b"}
LEVEL: Object = {"nodeLabel": "fabric"}


class Gangs(Rig):
    """Nodes of two fabrics, and two pods of a gang of which both have to start together.

    Args:
        said: what the claims say about it.
        metadata: of the pods.
    """

    def __init__(self, minimum: int = 2, said: Object | None = None, metadata: Object | None = None, **level: object):
        super().__init__()
        self._said = {"gang": {"name": "train", "minAvailable": minimum}} if said is None else said
        self._metadata = metadata or {}
        for name, fabric in NODES_OF.items():
            status = {"allocatable": {"cpu": "16"}}
            self.memory.create(NODES, {"metadata": {"name": name, "labels": {"fabric": fabric}}, "status": status})
        for name in ("w0", "w1"):
            self._claim_of(name, {**LEVEL, **level})
        self.pods = {name: self.pod(name, name) for name in ("w0", "w1")}

    def pod(self, name: str = "p", claim: str = "c", **options: Any) -> Object:
        made = super().pod(name, claim, **options)
        return self.memory.patch(PODS, name, {"metadata": self._metadata}, namespace="default") or made

    def _claim_of(self, name: str, level: Object) -> None:
        parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", **self._said, "topology": [level]}
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


JOB: Object = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "j", "controller": True}
SOURCES: dict[str, tuple[Object, Object]] = {
    "owner": ({"gang": {}}, {"ownerReferences": [JOB]}),
    "owner, with a minimum": ({"gang": {"minAvailable": 2}}, {"ownerReferences": [JOB]}),
    "label": ({}, {"ownerReferences": [JOB], "labels": {"lode.dev/gang": ""}}),
    "Kueue": (
        {},
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "train"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
        },
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_gangs_of_every_source_are_judged(source: str) -> None:
    said, metadata = SOURCES[source]
    rig = Gangs(said=said, metadata=metadata)
    template = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    rig.memory.create(JOBS, {"metadata": {"name": "job", "namespace": "default"}, "spec": spec})
    rig.give("w0", "a1")
    rig.let_go(rig.pods["w0"])
    assert "with 1 of 2 members placed" in rig.found[0]
    rig.found.clear()
    rig.give("w1", "b1")
    assert "split over domains of fabric" in rig.found[0]


def test_a_node_that_has_lost_its_label_is_still_where_its_gang_is() -> None:
    rig = Gangs()
    rig.give("w0", "a1")
    rig.memory.patch(NODES, "a1", {"metadata": {"labels": {"fabric": None}}})
    rig.give("w1", "b1")
    assert "split over domains of fabric: ['a', 'b']" in rig.found[0]


def test_members_that_may_move_are_not_judged_by_their_domain() -> None:
    rig = Gangs(said={"gang": {"name": "train", "minAvailable": 2, "onDomainLoss": "move"}})
    rig.give("w0", "a1")
    rig.give("w1", "b1")
    assert not rig.found
