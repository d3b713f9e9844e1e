"""What cluster-autoscaler makes of the pods that the controller waits for, by its rules as data.

They are those of cluster-autoscaler 1.36 (utils/kubernetes/listers.go): the first rule that fits a pod counts. None of
them looks at gates.
"""

from collections.abc import Callable
from typing import Any

import pytest

from driver.kube.api import PODS, Object
from tests.unit.controller.loop.world import GATE, ControllerWorld

Rule = tuple[Callable[[Object], Any], str]


def is_unschedulable(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said = [(one["status"], one.get("reason")) for one in conditions if one["type"] == "PodScheduled"]
    return said == [("False", "Unschedulable")]


RULES: tuple[Rule, ...] = (
    (lambda pod: pod["spec"].get("nodeName"), "counts on its node"),
    (lambda pod: pod["metadata"].get("deletionTimestamp"), "is ignored"),
    (lambda pod: (pod.get("status") or {}).get("nominatedNodeName"), "counts on its node"),
    (is_unschedulable, "is helped"),
    (lambda pod: True, "is ignored"),
)


def answer(pod: Object) -> str:
    return next(said for fits, said in RULES if fits(pod))


def full_cluster() -> ControllerWorld:
    world = ControllerWorld(cards=1, autoscaling={"enabled": True})
    add(world, "first")
    world.settle()
    return world


def add(world: ControllerWorld, name: str, count: int = 1, **pod: Any) -> None:
    world.add_claim(name, count)
    world.add_pod(name, name, **pod)


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        pytest.param({}, "is helped", id="a new node would take it"),
        pytest.param({"count": 2}, "is ignored", id="no node has so many devices"),
        pytest.param({"cpu": "9"}, "is ignored", id="no node has so many CPUs"),
        pytest.param({"gates": (GATE, "example.com/queue")}, "is ignored", id="a queue holds it"),
        pytest.param({"nodeSelector": {"zone": "b"}}, "is ignored", id="no node has the label"),
    ],
)
def test_a_pod_that_waits_is_helped_exactly_if_a_node_would_help(pod: dict[str, Any], said: str) -> None:
    world = full_cluster()
    add(world, "second", **pod)
    world.settle()
    assert answer(world.pod("second")) == said


def test_a_pod_is_never_helped_while_it_holds_devices() -> None:
    world = full_cluster()
    add(world, "second")
    world.settle()
    seen: list[tuple[bool, str]] = []

    def look(_call: str, _about: Any) -> None:
        seen.append((bool(world.devices("second")), answer(world.pod("second"))))

    world.meddler.after = look
    world.add_node("n2", cards=1)
    world.settle()
    assert (True, "is helped") not in seen
    assert seen[-1] == (True, "counts on its node")


def test_a_pod_that_is_deleted_while_it_asks_is_ignored() -> None:
    world = full_cluster()
    add(world, "second")
    world.settle()
    world.api.patch(PODS, "second", {"metadata": {"finalizers": ["example.com/slow"]}}, namespace="default")
    world.api.delete(PODS, "second", "default")
    world.settle()
    assert answer(world.pod("second")) == "is ignored"
