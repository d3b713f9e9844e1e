"""Among nodes that are equal as to devices, a pod gets the one that it prefers, as kube-scheduler scores them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from controller.allocation import Fleet
from controller.placement import Needs, Nodes, PodDemand, facts_of, needs_of
from tests.preference_cases import (
    CASES,
    HOST,
    NODES,
    RUNNING,
    Case,
    Json,
    affine,
    pod_anti_affinity,
    spread,
)
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, pool, want
from tests.unit.controller.placement.plans import Plan, plan


def cluster(taints: Mapping[str, Sequence[Json]] | None = None) -> tuple[Fleet, Nodes]:
    """The nodes of the cases, with four devices each."""
    built, nodes = fleet(), Nodes()
    for name, labels in NODES.items():
        built.ledger.upsert_node(name, labels)
        for part in pool(*(device(f"gpu-{i}") for i in range(4)), node=name):
            built.ledger.upsert_slice(part)
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"}}
        spec = {"taints": (taints or {}).get(name, [])}
        nodes.upsert(facts_of({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}))
    return built, nodes


def needs(app: str = "a", **spec: Any) -> Needs:
    return needs_of({"metadata": {"namespace": "ns", "labels": {"app": app}}, "spec": spec})


def chosen(asked: Needs, built: tuple[Fleet, Nodes], **config: Any) -> str:
    answer = plan([PodDemand("ns/p", asked, (claim(want(), **config),))], *built)
    assert isinstance(answer, Plan)
    return answer.placements[0].node


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_prefers(case: Case) -> None:
    built, nodes = cluster(case.taints)
    for app, where in RUNNING.items():
        nodes.count(f"ns/{app}", needs(app), where)
    assert chosen(needs(case.app, **case.spec), (built, nodes)) == min(case.best)


def test_pods_of_a_group_prefer_to_be_apart() -> None:
    asked = needs(**spread(HOST, app="a"))
    group = [PodDemand(f"ns/{name}", asked, (claim(want(), name=name),)) for name in "abcde"]
    answer = plan(group, *cluster())
    assert isinstance(answer, Plan)
    assert [placement.node for placement in answer.placements] == ["n1", "n2", "n3", "n4", "n1"]


def test_what_running_pods_prefer_counts_for_nothing() -> None:
    built, nodes = cluster()
    nodes.count("ns/q", needs("b", **affine(pod_anti_affinity("a", "zone"))), "n1")
    assert chosen(needs(), (built, nodes)) == "n1"
