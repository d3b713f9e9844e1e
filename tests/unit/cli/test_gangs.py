"""``lode simulate`` and ``lode explain`` decide about gangs as the controller does: all or none, in one fabric."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from cli import live
from cli.__main__ import main as lode
from cli.decisions.settings import CONFIG_MAPS
from cli.shipped import device_classes
from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    Api,
    ApiCall,
    Forbidden,
    Object,
)
from driver.kube.decorator import ApiDecorator
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import Answer, node, pod, simulation, slices, template

Simulate = Callable[..., Answer]
T = TypeVar("T")


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    def call(*objects: Object, options: tuple[str, ...] = ()) -> Answer:
        return simulation(capsys, tmp_path, *objects, options=options)

    return call


def gang(count: int, minimum: int) -> list[Object]:
    """A template with the terms of the gang, and as many pods."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": "train", "minAvailable": minimum},
        "topology": [{"nodeLabel": "fabric"}],
    }
    made = template("train", count=2)
    made["spec"]["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    return [made, *(pod(f"train-{number}", of="train") for number in range(count))]


def cluster(**fabrics: str) -> list[Object]:
    """Nodes with two cards each, by name, and the fabric of each."""
    found: list[Object] = []
    for name, fabric in fabrics.items():
        found += [node(name, fabric=fabric), *slices(name, "t4x2")]
    return found


def test_a_gang_is_placed_in_the_one_fabric_that_takes_all_members(simulated: Simulate) -> None:
    answer = simulated(*cluster(a1="a", b1="b", b2="b"), *gang(2, 2))
    assert {one["name"]: one["node"] for one in answer.json["pods"]} == {"train-0": "b1", "train-1": "b2"}
    assert {one["result"] for one in answer.json["pods"]} == {"placed"}


def test_of_a_gang_that_fits_nowhere_no_member_is_placed_and_each_says_why(simulated: Simulate) -> None:
    answer = simulated(*cluster(a1="a", b1="b"), *gang(2, 2))
    assert {one["result"] for one in answer.json["pods"]} == {"waiting"}
    for one in answer.json["pods"]:
        assert "gang default/train: 1 of 2 members fit in a" in str(one)


def test_of_a_gang_with_members_that_no_node_can_take_the_reasons_are_those_of_a_single_pod(
    simulated: Simulate,
) -> None:
    wanted, *pods = gang(2, minimum=2)
    wanted["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 3
    answer = simulated(*cluster(a1="a", a2="a", b1="b"), wanted, *pods)
    ((reason, message),) = {answer.reason(f"train-{number}") for number in range(2)}
    assert reason == "Impossible"
    assert message.startswith(
        "gang default/train: pod default/train-0: 0 of 3 nodes can take the pod. Waiting does not"
    )
    (reasons, *_) = [one["reasons"] for one in answer.json["pods"]]
    assert (reasons["nodes"], reasons["groups"][0]["devices"]["requests"][0]["wanted"]) == (3, 3)


def test_a_pod_that_comes_later_gets_what_the_gang_leaves(simulated: Simulate) -> None:
    single = pod("alone", of="single")
    answer = simulated(*cluster(a1="a", a2="a"), *gang(2, 2), template("single"), single)
    results = {one["name"]: one["result"] for one in answer.json["pods"]}
    assert sorted(results.values()) in (["placed", "placed", "waiting"], ["placed", "waiting", "waiting"])
    assert results["train-0"] == results["train-1"]


POD_GROUP = {"schedulingPolicy": {"gang": {"minCount": 3}}}
TIER = {"networkTopology": {"highestTierAllowed": 1}}


def group(api_version: str, **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec}


def job(count: int) -> Object:
    metadata = {"name": "train", "uid": "uid-job", "namespace": "default"}
    spec = {"parallelism": count, "template": {"spec": pod("x", of="train")["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


OWNED = {
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job", "controller": True}
    ]
}


@pytest.mark.parametrize(
    ("described", "metadata", "spec"),
    [
        (group("scheduling.k8s.io/v1beta1", **POD_GROUP), {}, {"schedulingGroup": {"podGroupName": "train"}}),
        (group("scheduling.k8s.io/v1alpha2", **POD_GROUP), {}, {"schedulingGroup": {"podGroupName": "train"}}),
        (
            group("scheduling.volcano.sh/v1beta1", minMember=3),
            {"annotations": {"scheduling.volcano.sh/group-name": "train"}},
            {},
        ),
        (
            group("scheduling.x-k8s.io/v1alpha1", minMember=3),
            {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
            {},
        ),
        (job(3), {**OWNED, "labels": {"lode.dev/gang": ""}}, {}),
    ],
    ids=["Kubernetes", "Kubernetes 1.36", "Volcano", "coscheduling", "Job"],
)
def test_what_describes_a_gang_counts_as_for_the_controller(
    simulated: Simulate, described: Object, metadata: Object, spec: Object
) -> None:
    members = [pod(f"train-{number}", of="train", **spec) for number in range(3)]
    for number, member in enumerate(members):
        member["metadata"] |= {"uid": f"uid-{number}", "creationTimestamp": "2027-01-15T08:00:00Z", **metadata}
    answer = simulated(*cluster(a1="a", b1="b"), template("train", count=2), described, *members)
    assert [one["result"] for one in answer.json["pods"]] == ["waiting"] * 3
    assert "train: 2 of 3 members fit" in str(answer.json["pods"])


def test_tiers_of_volcano_stand_for_what_the_settings_say(simulated: Simulate, tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text("controller: {volcanoTiers: {1: {nodeLabel: fabric}}}")
    described = group("scheduling.volcano.sh/v1beta1", minMember=2, **TIER)
    members = [pod(f"train-{number}", of="train") for number in range(2)]
    for member in members:
        member["metadata"]["annotations"] = {"scheduling.volcano.sh/group-name": "train"}
    objects = (*cluster(a1="a", b1="b", b2="b"), template("train", count=2), described, *members)
    assert "controller.volcanoTiers" in str(simulated(*objects).json["pods"])
    answer = simulated(*objects, options=("--settings", str(settings)))
    assert {one["node"] for one in answer.json["pods"]} == {"b1", "b2"}


@pytest.mark.parametrize("content", [None, "volcanoTiers: []"])
def test_settings_that_cannot_be_used_are_refused(simulated: Simulate, tmp_path: Path, content: str | None) -> None:
    settings = tmp_path / "settings"
    if content is not None:
        settings.write_text(content)
    answer = simulated(*cluster(a1="a"), options=("--settings", str(settings)))
    assert (answer.status, str(settings) in answer.err) == (2, True)


Explained = Callable[..., tuple[int, str]]


@pytest.fixture
def api() -> MemoryApi:
    """A cluster with a node of two cards in each of two fabrics."""
    of_groups = (VOLCANO_POD_GROUPS, POD_GROUPS[0], COMPOSITE_POD_GROUPS[0])
    api = MemoryApi(VirtualClock(), custom=(*of_groups, DEPLOYMENTS))
    for obj in device_classes():
        api.create(DEVICE_CLASSES, obj)
    for name, fabric in (("a1", "a"), ("b1", "b")):
        api.create(NODES, node(name, fabric=fabric))
        for part in slices(name, "t4x2", ("whole",)):
            api.create(RESOURCE_SLICES, part)
    return api


@pytest.fixture
def explained(api: MemoryApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Explained:
    """The exit status of ``lode explain``, and all that it says."""
    reading: list[Api] = [api]

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
        yield reading[0], "default"

    def call(target: str, *, through: Api = api) -> tuple[int, str]:
        reading[0] = through
        status = lode(["explain", target])
        said = capsys.readouterr()
        return status, said.err + said.out

    monkeypatch.setattr(live, "cluster", connected)
    monkeypatch.setattr("time.time", lambda: VirtualClock().now() + 60)
    return call


def test_explain_shows_a_gang_and_the_verdict_on_every_domain(api: MemoryApi, explained: Explained) -> None:
    made, *_ = gang(0, 2)
    for number in range(2):
        spec = made["spec"]["spec"]
        claim = {"metadata": {"name": f"train-{number}", "namespace": "default"}, "spec": spec}
        api.create(RESOURCE_CLAIMS, claim)
        member = pod(f"train-{number}", f"train-{number}")
        member["spec"]["schedulingGates"] = [{"name": "lode.dev/allocation"}]
        api.create(PODS, member, "default")
    for target in ("gang/train", "pod/train-1"):
        status, said = explained(target)
        assert status == 1
        assert "gang default/train: 2 members exist, at least 2 start together" in said
        for fabric in ("a", "b"):
            assert f"gang default/train: 1 of 2 members fit in {fabric}" in said
    assert explained("gang/none")[0] == 2


def test_explain_finds_a_gang_of_a_job_by_the_name_that_messages_have(api: MemoryApi, explained: Explained) -> None:
    claim = {"metadata": {"name": "cards", "namespace": "default"}, "spec": template("t")["spec"]["spec"]}
    api.create(RESOURCE_CLAIMS, claim)
    member = pod("train-0", "cards", schedulingGates=[{"name": "lode.dev/allocation"}])
    member["metadata"] |= {"labels": {"lode.dev/gang": ""}, **OWNED}
    api.create(PODS, member, "default")
    assert "gang default/Job/train: " in explained("pod/train-0")[1]
    assert "members: train-0" in explained("gang/Job/train")[1]


# Tiers of Volcano, which the settings of the controller say


class Installed(ApiDecorator):
    """The API of a cluster with the controller, for a user who may read its settings or not."""

    def __init__(self, api: Api, *, readable: bool):
        super().__init__(api)
        self._readable = readable
        volumes = [{"name": "settings", "configMap": {"name": "lode-settings-5f2k"}}]
        spec = {"template": {"spec": {"volumes": volumes}}}
        api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
        api.create(DEPLOYMENTS, {"metadata": {"name": "lode-controller", "namespace": "lode-system"}, "spec": spec})

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        if call.resource != CONFIG_MAPS:
            return proceed()
        if not self._readable:
            raise Forbidden("you may not", status=403)
        assert (call.namespace, call.name) == ("lode-system", "lode-settings-5f2k")
        data = {"settings.yaml": "controller: {volcanoTiers: {1: {nodeLabel: fabric}}}"}
        metadata = {"name": call.name, "namespace": call.namespace, "uid": "u", "resourceVersion": "1"}
        return cast("T", {"metadata": metadata, "data": data})


def group_with_a_tier(api: MemoryApi) -> None:
    """Two pods of a PodGroup of Volcano."""
    spec = {"minMember": 2, **TIER}
    api.create(VOLCANO_POD_GROUPS, {"metadata": {"name": "train", "namespace": "default"}, "spec": spec})
    for number in range(2):
        claim = {"metadata": {"name": f"train-{number}", "namespace": "default"}}
        api.create(RESOURCE_CLAIMS, {**claim, "spec": template("train", count=2)["spec"]["spec"]})
        member = pod(f"train-{number}", f"train-{number}")
        member["metadata"]["annotations"] = {"scheduling.volcano.sh/group-name": "train"}
        member["spec"]["schedulingGates"] = [{"name": "lode.dev/allocation"}]
        api.create(PODS, member, "default")


def test_explain_reads_tiers_from_the_settings_of_the_controller(api: MemoryApi, explained: Explained) -> None:
    group_with_a_tier(api)
    status, said = explained("pod/train-0", through=Installed(api, readable=True))
    assert status == 1
    assert "gang default/train: 1 of 2 members fit in a" in said


def test_explain_says_what_to_do_if_it_cannot_know_the_tiers(api: MemoryApi, explained: Explained) -> None:
    group_with_a_tier(api)
    status, said = explained("pod/train-0")
    assert (status, "no controller is installed in namespace lode-system" in said) == (1, True)
    assert "--settings" in said


def test_explain_names_the_right_to_read_the_settings(api: MemoryApi, explained: Explained) -> None:
    group_with_a_tier(api)
    _, said = explained("pod/train-0", through=Installed(api, readable=False))
    assert "you may not get configmaps in namespace lode-system" in said
    assert "--settings" in said


# Groups of groups


class WithoutTrees(ApiDecorator):
    """The API for a user who may not read CompositePodGroups."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        if call.resource.plural == COMPOSITE_POD_GROUPS[0].plural:
            raise Forbidden("you may not", status=403)
        return proceed()


def tree(api: MemoryApi) -> None:
    """Two pods of PodGroup ``decode``, which is in CompositePodGroup ``serve`` with another group that has no pods."""
    least = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    api.create(COMPOSITE_POD_GROUPS[0], {"metadata": {"name": "serve", "namespace": "default"}, "spec": least})
    for name in ("decode", "prefill"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "serve"}
        api.create(POD_GROUPS[0], {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    for number in range(2):
        claim = {"metadata": {"name": f"decode-{number}", "namespace": "default"}}
        api.create(RESOURCE_CLAIMS, {**claim, "spec": template("decode")["spec"]["spec"]})
        member = pod(f"decode-{number}", f"decode-{number}", schedulingGates=[{"name": "lode.dev/allocation"}])
        member["spec"]["schedulingGroup"] = {"podGroupName": "decode"}
        api.create(PODS, member, "default")


def test_explain_says_which_group_of_a_tree_is_lacking(api: MemoryApi, explained: Explained) -> None:
    tree(api)
    said = explained("pod/decode-0")[1]
    assert "gang default/CompositePodGroup/serve: 2 of 4 members exist, 1 of 2 groups of CompositePodGroup" in said
    assert "(0 of 2 members of PodGroup default/prefill)" in said
    assert "members: decode-0, decode-1" in " ".join(explained("gang/CompositePodGroup/serve")[1].split())


def test_explain_names_the_right_to_read_groups_of_groups(api: MemoryApi, explained: Explained) -> None:
    tree(api)
    said = explained("pod/decode-0", through=WithoutTrees(api))[1]
    assert "you may not list compositepodgroups of API group scheduling.k8s.io" in said
    assert "it is not known how many members gangs have: default/decode-0, default/decode-1" in said
    assert "CompositePodGroup default/serve: does not exist, or this program may not read it" in said


def test_members_that_find_no_common_rails_are_told_which_is_missing(simulated: Simulate) -> None:
    made = gang(2, 2)
    constraints = [{"sameSet": "lode.dev/rail"}]
    made[0]["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]["gang"]["constraints"] = constraints
    fitting = simulated(*on_rails(a1=(0, 1, 2), a2=(1, 2)), *made)
    assert {one["result"] for one in fitting.json["pods"]} == {"placed"}
    answer = simulated(*on_rails(a1=(0, 1), a2=(1, 2)), *made)
    for one in answer.json["pods"]:
        assert "sameSet lode.dev/rail: 0 and 1, which most members can get; not free are 0 on a2" in str(one)


def on_rails(**nodes: tuple[int, ...]) -> list[Object]:
    """Nodes of one fabric, by name, with a whole card on each of these rails."""
    found: list[Object] = []
    for name, rails in nodes.items():
        (part,) = [one for one in slices(name, "t4x2") if one["spec"].get("devices")]
        card = part["spec"]["devices"][0]
        part["spec"]["devices"] = [
            {"name": f"gpu-{rail}", "attributes": {**card["attributes"], "rail": {"string": str(rail)}}}
            for rail in rails
        ]
        part["spec"]["pool"]["resourceSliceCount"] = 1
        found += [node(name, fabric="a"), part]
    return found
