"""What is wrong with single writes of a controller about gangs."""

from typing import Any

import pytest

from driver.clock import rfc3339
from driver.kube.api import JOB_SETS, JOBS, NODES, PODS, RESOURCE_CLAIMS, VOLCANO_POD_GROUPS, Object
from driver.names import FINALIZER
from tests.unit.simulation.test_write_checks import CheckedWrites

NODES_OF = {"a1": "a", "a2": "a", "b1": "b"}
LEVEL: Object = {"nodeLabel": "fabric"}


class Gangs(CheckedWrites):
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
        self._level = {**LEVEL, **level}
        self.pods: dict[str, Object] = {}
        for name in ("w0", "w1"):
            self.add_member(name)

    def add_member(self, name: str) -> None:
        self._claim_of(name, self._level)
        self.pods[name] = self.pod(name, name)

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


REPLICAS: Object = {"gang": {"name": "train", "subGroup": {"label": "replica", "size": 2, "minAvailable": 1}}}
"""Two pods are a whole sub-group."""
POD_GROUP: Object = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"minMember": 2, "subGroupPolicy": [{"matchLabelKeys": ["replica"], "subGroupSize": 2, "minSubGroups": 1}]},
}


@pytest.mark.parametrize("source", ["claim", "Volcano"])
def test_a_gang_starts_with_whole_sub_groups_and_as_many_as_have_to_be(source: str) -> None:
    said, metadata = (
        (REPLICAS, {}) if source == "claim" else ({}, {"annotations": {"scheduling.k8s.io/group-name": "train"}})
    )
    rig = Gangs(said=said, metadata=metadata)
    rig.memory.create(VOLCANO_POD_GROUPS, POD_GROUP)
    for number, name in enumerate(rig.pods):
        rig.memory.patch(PODS, name, {"metadata": {"labels": {"replica": str(number)}}}, namespace="default")
        rig.give(name, "a1")
    rig.let_go(rig.pods["w0"])
    assert [text.partition("starts with ")[2] for text in rig.found] == [
        "1 of 2 members of sub-group 0",
        "0 of 1 whole sub-groups",
    ]


@pytest.mark.parametrize(("number", "same"), [(1, True), (2, True), (2, False)])
def test_sub_groups_of_which_enough_members_have_devices_are_whole(number: int, same: bool) -> None:
    rig = Gangs(said=REPLICAS)
    for at, name in enumerate(list(rig.pods)[:number]):
        labels = {"replica": "0" if same else str(at)}
        rig.memory.patch(PODS, name, {"metadata": {"labels": labels}}, namespace="default")
        rig.give(name, "a1")
    rig.let_go(rig.pods["w0"])
    assert bool(rig.found) is not (number == 2 and same)


@pytest.mark.parametrize(("order", "needed"), [(None, 2), ("InOrder", 1)])
def test_of_a_jobset_with_an_order_the_first_part_starts_together(order: str | None, needed: int) -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "set"}
    job: Object = {"parallelism": 1, "completions": 1, "template": {"spec": {"resourceClaims": [{"name": "c"}]}}}
    parts = [{"name": name, "replicas": 1, "template": {"spec": job}} for name in ("leader", "worker")]
    spec: Object = {"replicatedJobs": parts, **({"startupPolicy": {"startupPolicyOrder": order}} if order else {})}
    rig = Gangs(said={"gang": {}})
    made = rig.memory.create(JOB_SETS, {"metadata": {"name": "set", "namespace": "default"}, "spec": spec})
    labels["jobset.sigs.k8s.io/jobset-uid"] = made["metadata"]["uid"]
    for name in rig.pods:
        rig.memory.patch(PODS, name, {"metadata": {"labels": labels}}, namespace="default")
    rig.give("w0", "a1")
    rig.let_go(rig.pods["w0"])
    assert ["with 1 of 2 members placed" in text for text in rig.found] == [True] * (needed == 2)
    rig.found.clear()
    rig.give("w1", "b1")
    assert "split over domains of fabric" in rig.found[0]


@pytest.mark.parametrize(("seconds", "is_early"), [(1, False), (300, True)])
def test_a_member_that_ended_a_moment_ago_may_still_run_for_the_process(seconds: int, is_early: bool) -> None:
    rig = Gangs()
    for name in ("w0", "w1"):
        rig.give(name, "a1")
    for name in ("w0", "w1"):
        rig.let_go(rig.pods[name])
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(rig.clock.now())}
        rig.tell(rig.pods[name], {"phase": "Failed", "conditions": [ready]})
    rig.clock.advance(seconds)
    rig.add_member("w2")
    rig.give("w2", "a1")
    rig.let_go(rig.pods["w2"])
    assert ["with 1 of 2 members placed" in one for one in rig.found] == [True] * is_early


@pytest.mark.parametrize(("number", "is_half"), [(1, True), (2, False)])
def test_a_sub_group_that_begins_later_is_whole_when_the_first_of_it_is_let_go(number: int, is_half: bool) -> None:
    rig = Gangs(said=REPLICAS)
    for name in ("w2", "w3"):
        rig.add_member(name)
    for at, name in enumerate(rig.pods):
        rig.memory.patch(PODS, name, {"metadata": {"labels": {"replica": str(at // 2)}}}, namespace="default")
    for name in ("w0", "w1"):
        rig.give(name, "a1")
    for name in ("w0", "w1"):
        rig.let_go(rig.pods[name])
    for name in ("w2", "w3")[:number]:
        rig.give(name, "a1")
    rig.let_go(rig.pods["w2"])
    assert rig.found == ["patch pods default/w2: sub-group 1 of gang train starts with 1 of 2 members"] * is_half
