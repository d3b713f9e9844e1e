"""``lode simulate`` plans gangs as the controller does: all members or none, in one fabric."""

from collections.abc import Callable
from pathlib import Path

import pytest

from driver.kube.api import Object
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
