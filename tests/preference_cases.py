"""What pods prefer among nodes, and the nodes that suit them best: for the scores, and for a real kube-scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"
NODES: Mapping[str, Mapping[str, str]] = {
    name: {HOST: name, "zone": zone, "number": name[1:]}
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"))
}
"""Nodes and their labels."""
RUNNING: Mapping[str, str] = {"b": "n4", "c": "n1"}
"""The pods that run already, by their label ``app``: where each is."""
SOFT = {"key": "busy", "effect": "PreferNoSchedule"}
HARD = {"key": "busy", "effect": "NoSchedule"}
ANY = frozenset(NODES)


@dataclass(frozen=True)
class Case:
    """A pod, and the nodes that are equally good for it and better than all others."""

    name: str
    best: frozenset[str]
    spec: Json = field(default_factory=dict)
    taints: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    app: str = "a"
    """Its label."""


def on(*names: str) -> frozenset[str]:
    return frozenset(names)


def node_affinity(*preferred: tuple[int, str]) -> Json:
    """Weights and numbers of nodes."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "number", "operator": "In", "values": [number]}]},
        }
        for weight, number in preferred
    ]
    return {"nodeAffinity": {_PREFERRED: terms}}


def pod_affinity(app: str, key: str, weight: int = 1) -> Json:
    """To be where pods of the app are."""
    return {"podAffinity": {_PREFERRED: [_pod_term(app, key, weight)]}}


def pod_anti_affinity(app: str, key: str, weight: int = 1) -> Json:
    """To be where no pods of the app are."""
    return {"podAntiAffinity": {_PREFERRED: [_pod_term(app, key, weight)]}}


def _pod_term(app: str, key: str, weight: int) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"weight": weight, "podAffinityTerm": term}


def affine(*wishes: Json) -> Json:
    """A pod's spec with all these wishes."""
    return {"affinity": {kind: value for wish in wishes for kind, value in wish.items()}}


def spread(*keys: str, app: str = "c") -> Json:
    """A pod's spec: spread over these domains, if that can be."""
    return {
        "topologySpreadConstraints": [
            {
                "topologyKey": key,
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": app}},
            }
            for key in keys
        ]
    }


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TOLERANT: Json = {"tolerations": [{"operator": "Exists"}]}

CASES: Sequence[Case] = (
    Case("nothing", ANY),
    Case("one node", on("n3"), affine(node_affinity((1, "3")))),
    Case("the larger weight", on("n4"), affine(node_affinity((1, "2"), (2, "4")))),
    Case("a node that does not exist", ANY, affine(node_affinity((1, "9")))),
    Case("a node that it does not tolerate", on("n1", "n2", "n4"), affine(node_affinity((1, "3"))), {"n3": [HARD]}),
    Case("no soft taint", on("n2", "n3", "n4"), {}, {"n1": [SOFT]}),
    Case("the only node without a soft taint", on("n2"), {}, {name: [SOFT] for name in ("n1", "n3", "n4")}),
    Case("a soft taint that it tolerates", ANY, TOLERANT, {"n1": [SOFT]}),
    Case("the taint outweighs the node", on("n2", "n3", "n4"), affine(node_affinity((100, "1"))), {"n1": [SOFT]}),
    Case("to be near", on("n3", "n4"), affine(pod_affinity("b", "zone"))),
    Case("to be on the same node", on("n4"), affine(pod_affinity("b", HOST))),
    Case("to be far", on("n3", "n4"), affine(pod_anti_affinity("c", "zone"))),
    Case("to be on another node", on("n2", "n3", "n4"), affine(pod_anti_affinity("c", HOST))),
    Case("to be near, but not there", on("n3"), affine(pod_affinity("b", "zone", 2), pod_anti_affinity("b", HOST))),
    Case(
        "the larger weight of near and far",
        on("n1", "n2"),
        affine(pod_affinity("b", "zone"), pod_anti_affinity("b", "zone", 2)),
    ),
    Case("to be spread over zones", on("n3", "n4"), spread("zone"), app="c"),
    Case("to be spread over nodes", on("n2", "n3", "n4"), spread(HOST), app="c"),
    Case("to be spread over zones and near", on("n3"), {**spread("zone"), **affine(node_affinity((1, "3")))}, app="c"),
    Case("to be spread over zones and nodes", on("n3", "n4"), spread("zone", HOST), app="c"),
)
