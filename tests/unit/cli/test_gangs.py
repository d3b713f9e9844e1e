"""``lode simulate`` and ``lode explain`` decide about gangs as the controller does: all or none, in one fabric."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli import explain, live
from cli.shipped import device_classes
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from memoryapi import MemoryApi
from simulation.clock import VirtualClock
from tests.unit.cli.cluster import Answer, node, pod, simulation, slices, template

Simulate = Callable[..., Answer]


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
    assert "gang default/train: 2 of 3 members fit" in str(answer.json["pods"])


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


def test_explain_shows_a_gang_and_the_verdict_on_every_domain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    api = MemoryApi(clock)
    for obj in device_classes():
        api.create(DEVICE_CLASSES, obj)
    for name, fabric in (("a1", "a"), ("b1", "b")):
        api.create(NODES, node(name, fabric=fabric))
        for part in slices(name, "t4x2", ("whole",)):
            api.create(RESOURCE_SLICES, part)
    made, *_ = gang(0, 2)
    for number in range(2):
        spec = made["spec"]["spec"]
        claim = {"metadata": {"name": f"train-{number}", "namespace": "default"}, "spec": spec}
        api.create(RESOURCE_CLAIMS, claim)
        member = pod(f"train-{number}", f"train-{number}")
        member["spec"]["schedulingGates"] = [{"name": "lode.dev/allocation"}]
        api.create(PODS, member, "default")

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
        yield api, "default"

    monkeypatch.setattr(live, "cluster", connected)
    monkeypatch.setattr("time.time", lambda: clock.now() + 60)
    for target in ("gang/train", "pod/train-1"):
        assert explain.main([target]) == 1
        said = capsys.readouterr()
        assert "gang default/train: 2 members exist, at least 2 start together" in said.err
        for fabric in ("a", "b"):
            assert f"gang default/train: 1 of 2 members fit in {fabric}" in said.err
    assert explain.main(["gang/none"]) == 2
    assert "no gang none in namespace default" in capsys.readouterr().err
