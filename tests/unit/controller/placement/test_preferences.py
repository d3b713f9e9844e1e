"""Among nodes that are equal as to devices, a pod gets the one that it prefers, as kube-scheduler scores them."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller.allocation import Fleet
from controller.placement import Needs, Nodes, Plan, PodDemand, facts_of, needs_of, plan
from tests.unit.controller.allocation.rig import claim, device, fleet, pool, want

Json = dict[str, Any]
SOFT = {"key": "busy", "effect": "PreferNoSchedule"}
HARD = {"key": "busy", "effect": "NoSchedule"}


def cluster(taints: dict[str, Sequence[Json]] | None = None) -> tuple[Fleet, Nodes]:
    """Nodes n1 and n2 in zone a, n3 and n4 in zone b, with four devices each."""
    built, nodes = fleet(), Nodes()
    for number in range(1, 5):
        name = f"n{number}"
        labels = {"kubernetes.io/hostname": name, "zone": "aabb"[number - 1], "number": str(number)}
        built.upsert_node(name, labels)
        for part in pool(*(device(f"gpu-{i}") for i in range(4)), node=name):
            built.upsert_slice(part)
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"}}
        spec = {"taints": (taints or {}).get(name, [])}
        nodes.upsert(facts_of({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}))
    return built, nodes


def needs(app: str = "a", **spec: Any) -> Needs:
    return needs_of({"metadata": {"namespace": "ns", "labels": {"app": app}}, "spec": spec})


def node_affinity(*preferred: tuple[int, str]) -> Json:
    """Weights and numbers of nodes."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "number", "operator": "In", "values": [number]}]},
        }
        for weight, number in preferred
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def pod_affinity(kind: str, app: str, key: str, weight: int = 1) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def spread(key: str, app: str = "a") -> Json:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def chosen(asked: Needs, built: tuple[Fleet, Nodes], **config: Any) -> str:
    answer = plan([PodDemand("ns/p", asked, (claim(want(), **config),))], *built)
    assert isinstance(answer, Plan)
    return answer.placements[0].node


TABLE: list[tuple[str, Needs, dict[str, Sequence[Json]], str]] = [
    ("nothing", needs(), {}, "n1"),
    ("one node", needs(**node_affinity((1, "3"))), {}, "n3"),
    ("the larger weight", needs(**node_affinity((1, "2"), (2, "4"))), {}, "n4"),
    ("a node that does not exist", needs(**node_affinity((1, "9"))), {}, "n1"),
    ("a node that it does not tolerate", needs(**node_affinity((1, "3"))), {"n3": [HARD]}, "n1"),
    ("no soft taint", needs(), {"n1": [SOFT]}, "n2"),
    ("a soft taint that it tolerates", needs(tolerations=[{"operator": "Exists"}]), {"n1": [SOFT]}, "n1"),
    ("the taint outweighs the node", needs(**node_affinity((100, "1"))), {"n1": [SOFT]}, "n2"),
    ("to be near", needs(**pod_affinity("podAffinity", "b", "zone")), {}, "n3"),
    ("to be far", needs(**pod_affinity("podAntiAffinity", "c", "zone")), {}, "n3"),
    ("to be on another node", needs(**pod_affinity("podAntiAffinity", "c", "kubernetes.io/hostname")), {}, "n2"),
    ("to be spread over zones", needs("c", **spread("zone", "c")), {}, "n3"),
    ("to be spread over nodes", needs("c", **spread("kubernetes.io/hostname", "c")), {}, "n2"),
]


@pytest.mark.parametrize(("asked", "taints", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE])
def test_a_pod_prefers(asked: Needs, taints: dict[str, Sequence[Json]], expected: str) -> None:
    built, nodes = cluster(taints)
    nodes.count("ns/b", needs("b"), "n4")
    nodes.count("ns/c", needs("c"), "n1")
    assert chosen(asked, (built, nodes)) == expected


def test_pods_of_a_group_prefer_to_be_apart() -> None:
    asked = needs(**spread("kubernetes.io/hostname"))
    group = [PodDemand(f"ns/{name}", asked, (claim(want(), name=name),)) for name in "abcde"]
    answer = plan(group, *cluster())
    assert isinstance(answer, Plan)
    assert [placement.node for placement in answer.placements] == ["n1", "n2", "n3", "n4", "n1"]


def test_what_running_pods_prefer_counts_for_nothing() -> None:
    built, nodes = cluster()
    nodes.count("ns/q", needs("b", **pod_affinity("podAntiAffinity", "a", "zone")), "n1")
    assert chosen(needs(), (built, nodes)) == "n1"
