"""``lode simulate`` and ``lode explain`` say who would be evicted for a pod that waits, and why nobody would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.kube.api import POD_DISRUPTION_BUDGETS, Object
from tests.unit.cli.cluster import Answer, allocated, claim, node, pod, simulation, slices, stored
from tests.unit.cli.user import User, add, hold

Simulate = Callable[..., Answer]
GATED: dict[str, Any] = {"schedulingGates": [{"name": "lode.dev/allocation"}]}
TEXT = ("-o", "table")


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    def call(*objects: Object, options: tuple[str, ...] = ()) -> Answer:
        return simulation(capsys, tmp_path, *objects, options=options)

    return call


def running(name: str, device: str, priority: int = 0, **labels: str) -> list[Object]:
    """A pod that runs on node g with a card."""
    made = stored(pod(name, f"{name}-claim", nodeName="g", priority=priority), phase="Running")
    made["metadata"]["labels"] = labels
    return [made, allocated(claim(f"{name}-claim"), f"g/{device}", name)]


def full(*more: Object) -> list[Object]:
    """A node with two cards, held by pods of the priorities 1 and 5."""
    return [
        node("g"),
        *slices("g", "t4x2", ("whole",)),
        *running("low", "gpu-0", 1, app="low"),
        *running("middle", "gpu-1", 5),
        *more,
    ]


def waiting(name: str = "important", priority: int = 10, **spec: Any) -> list[Object]:
    return [stored(claim(f"{name}-claim")), stored(pod(name, f"{name}-claim", priority=priority, **GATED, **spec))]


def preemption(answer: Answer, name: str = "important") -> Any:
    return next(one for one in answer.json["pods"] if one["name"] == name).get("preemption")


def test_the_pod_of_the_lowest_priority_would_go(simulated: Simulate) -> None:
    objects = full(*waiting())
    assert preemption(simulated(*objects)) == {
        "victims": [
            {"namespace": "default", "name": "low", "node": "g", "priority": 1, "claims": ["default/low-claim"]}
        ],
        "awaited": [],
        "nodes": ["g"],
        "decided": True,
    }
    shown = simulated(*objects, options=TEXT).out
    assert "Where preemption is on: evicting 1 pod of lower priority makes room: default/low on node g" in shown


def test_why_nobody_would_go(simulated: Simulate) -> None:
    answer = preemption(simulated(*full(*waiting(priority=3, preemptionPolicy="Never"))))
    assert answer["never"] == "its preemptionPolicy is Never"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}},
    }
    objects = full(*waiting(priority=3), stored(budget, disruptionsAllowed=0, observedGeneration=1))
    answer = preemption(simulated(*objects))
    assert answer["victims"] == []
    assert {one["reason"]: one["some"] for one in answer["kept"]} == {
        "do not have a lower priority": ["default/middle"],
        "PodDisruptionBudget default/budget does not let go": ["default/low"],
    }
    assert "Where preemption is on: no pod would be evicted: 1 that" in simulated(*objects, options=TEXT).out


def test_nothing_is_said_where_nobody_has_a_priority(simulated: Simulate) -> None:
    objects = [node("g"), *slices("g", "t4x2", ("whole",)), *running("a", "gpu-0"), *running("b", "gpu-1")]
    assert preemption(simulated(*objects, *waiting(priority=0))) is None
    answer = preemption(simulated(*running("a", "gpu-0"), *objects[:-2], *waiting(priority=1), *objects[-2:]))
    assert answer["victims"]


def in_gang(*objects: Object) -> list[Object]:
    """The objects; their claims say that they are of a gang of two."""
    config: dict[str, Any] = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
    config["gang"] = {"name": "gang", "minAvailable": 2}
    for one in objects:
        if one["kind"] == "ResourceClaim":
            one["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": config}}]
    return [*objects]


def test_nobody_would_go_for_whom_a_quota_is_in_the_way(simulated: Simulate) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards"}}
    over = {**quota, "spec": {"hard": {"lode.dev/cores": "299"}}}
    why = "a quota of its namespace leaves too little for these devices"
    assert preemption(simulated(*full(*waiting(), stored(over))))["never"] == why
    over["spec"] = {"hard": {"lode.dev/cores": "399"}}
    assert preemption(simulated(*full(*waiting(), stored(over))))["victims"]
    gang = in_gang(*waiting("worker-0"), *waiting("worker-1"))
    assert preemption(simulated(*full(*gang, stored(over))), "worker-0")["never"] == why


def test_nobody_would_go_for_a_member_that_a_gang_lost(simulated: Simulate) -> None:
    gang = in_gang(*running("worker-0", "gpu-0"), *waiting("worker-1"))
    objects = [node("g"), *slices("g", "t4x2", ("whole",)), *running("middle", "gpu-1", 5), *gang]
    answer = preemption(simulated(*objects), "worker-1")
    assert answer["never"] == "it has started, and only a gang that has not preempts"


def test_a_gang_is_told_who_would_go_for_all_of_it(simulated: Simulate) -> None:
    answer = simulated(*full(*in_gang(*waiting("worker-0"), *waiting("worker-1"))))
    for rank in range(2):
        assert [one["name"] for one in preemption(answer, f"worker-{rank}")["victims"]] == ["low", "middle"]


def test_explain_says_it_of_a_live_pod(cluster: User, explained: Any) -> None:
    low = add(cluster, pod("low", "held", priority=1, nodeName="g"))
    hold(cluster, "held", "g/gpu-0", low)
    add(cluster, claim("c", count=2))
    add(cluster, pod("p", "c", priority=10, **GATED))
    answer = explained("pod/p")
    assert [one["name"] for one in answer.json["preemption"]["victims"]] == ["low"]
    assert "Where preemption is on: evicting 1 pod" in explained("p", output="table").out
    cluster.denied.add(("list", POD_DISRUPTION_BUDGETS, ""))
    answer = explained("pod/p")
    assert answer.json["preemption"]["never"] == "PodDisruptionBudgets may not be read, which say who may go"
    assert any("poddisruptionbudgets" in note for note in answer.json["notes"])
