"""Scores nodes that are equal as to devices by a pod's preferences, as kube-scheduler does. Pure.

The plugins are NodeAffinity, TaintToleration, InterPodAffinity and PodTopologySpread, with kube-scheduler's default
weights. Scores are normalized over the nodes that are possible at all.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from controller.placement.needs import Needs
from controller.placement.nodes import NodeFacts, Nodes
from controller.placement.predicates import counts_of, domains_of, tolerates, without
from driver.model import NodeSelector
from driver.node_selectors import selects

_BEST = 100
_HOST_NAME = "kubernetes.io/hostname"

_Scores = Mapping[str, float]
"""Score of each node; higher is better."""


def has_preferences(needs: Needs, nodes: Nodes) -> bool:
    """Whether scores can tell nodes apart for the pod."""
    return any(applies(needs, nodes) for _, applies, _ in _SCORES)


def preferred_first(pod: str, needs: Needs, nodes: Nodes, names: Sequence[str]) -> Sequence[str]:
    """Sort the nodes, best score first. Nodes of equal score stay in the order given.

    Args:
        pod: ``namespace/name``. The pod itself does not count on its node.
        names: existing nodes on which the pod could run.
    """
    scored = [
        (weight, scores(pod, needs, nodes, names)) for weight, applies, scores in _SCORES if applies(needs, nodes)
    ]
    total = {name: sum(weight * scores[name] for weight, scores in scored) for name in names}
    return sorted(names, key=lambda name: -total[name])


def _facts(nodes: Nodes, name: str) -> NodeFacts:
    facts = nodes[name].facts
    assert facts is not None
    return facts


def _node_affinity(pod: str, needs: Needs, nodes: Nodes, names: Sequence[str]) -> _Scores:
    sums = {
        name: sum(
            weight
            for weight, term in needs.preferred_nodes
            if selects(NodeSelector((term,)), name, nodes.labels_of(name))
        )
        for name in names
    }
    return _share_of_most(sums)


def _taints(pod: str, needs: Needs, nodes: Nodes, names: Sequence[str]) -> _Scores:
    counts = {
        name: sum(
            taint.effect == "PreferNoSchedule" and not tolerates(needs.tolerations, taint)
            for taint in _facts(nodes, name).taints
        )
        for name in names
    }
    return {name: _BEST - share for name, share in _share_of_most(counts).items()}


def _share_of_most(values: Mapping[str, int]) -> _Scores:
    most = max(values.values(), default=0)
    return {name: _BEST * value // most if most else 0 for name, value in values.items()}


def _pod_affinity(pod: str, needs: Needs, nodes: Nodes, names: Sequence[str]) -> _Scores:
    sums = dict.fromkeys(names, 0)
    for weight, term in needs.preferred_pods:
        itself = nodes.pods.selects((term.pods,), needs.pod)
        by_node = without(nodes.pods.group((term.pods,)).by_node, nodes.node_of(pod) if itself else "")
        counts = domains_of(by_node, term.topology_key, nodes)
        for name in names:
            domain = nodes.labels_of(name).get(term.topology_key)
            sums[name] += weight * counts.get(domain, 0) if domain is not None else 0
    least, most = min(sums.values(), default=0), max(sums.values(), default=0)
    return {name: _BEST * (value - least) // (most - least) if most > least else 0 for name, value in sums.items()}


def _spread(pod: str, needs: Needs, nodes: Nodes, names: Sequence[str]) -> _Scores:
    keys = {constraint.topology_key for constraint in needs.spread_softly}
    scored = [name for name in names if keys <= nodes.labels_of(name).keys()]
    sums = dict.fromkeys(scored, 0.0)
    for constraint in needs.spread_softly:
        key = constraint.topology_key
        counts = counts_of(constraint, needs.spread_softly, needs, nodes, nodes.node_of(pod))
        domains = {name: nodes.labels_of(name)[key] for name in scored}
        size = len(scored) if key == _HOST_NAME else len(set(domains.values()))
        for name, domain in domains.items():
            sums[name] += counts.get(domain, 0) * math.log(size + 2) + constraint.max_skew - 1
    rounded = {name: round(value) for name, value in sums.items()}
    least, most = min(rounded.values(), default=0), max(rounded.values(), default=0)
    return {
        name: (_BEST * (most + least - rounded[name]) // most if most else _BEST) if name in rounded else 0
        for name in names
    }


_Applies = Callable[[Needs, Nodes], bool]
_Score = Callable[[str, Needs, Nodes, Sequence[str]], _Scores]
_SCORES: Sequence[tuple[int, _Applies, _Score]] = (
    (2, lambda needs, _: bool(needs.preferred_nodes), _node_affinity),
    (3, lambda _, nodes: nodes.has_soft_taints, _taints),
    (2, lambda needs, _: bool(needs.preferred_pods), _pod_affinity),
    (2, lambda needs, _: bool(needs.spread_softly), _spread),
)
"""For each plugin its weight, a test whether its scores can differ, and its score."""
