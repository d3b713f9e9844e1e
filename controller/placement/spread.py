"""Topology spread constraints with ``DoNotSchedule`` (kube-scheduler's plugin PodTopologySpread). Pure."""

from collections.abc import Iterator, Mapping, Sequence

from controller.placement.needs import Needs
from controller.placement.nodes import Nodes, Reasons
from controller.placement.podterms import SpreadConstraint
from controller.placement.predicates import selects_node, untolerated


def spread_check(pod: str, needs: Needs, nodes: Nodes) -> Reasons | None:
    """Prepare a check of nodes for the pod's topology spread; None if the pod has no such constraint.

    Valid until pods or nodes change. The pod itself does not count if it counts on a node already.
    """
    if not needs.spread:
        return None
    own_node = nodes.node_of(pod)
    surplus = [(constraint, *_fullest_allowed(constraint, needs, nodes, own_node)) for constraint in needs.spread]

    def reasons(_: str, labels: Mapping[str, str]) -> Iterator[str]:
        for constraint, counts, most in surplus:
            key = constraint.topology_key
            if key not in labels:
                yield f"the node has no label {key}, which the pod's topology spread needs"
            elif counts.get(labels[key], 0) > most:
                yield f"too many matching pods are in the node's {key} for the pod's topology spread"

    return reasons


def spread_version(needs: Needs, nodes: Nodes) -> tuple[int, ...]:
    """A version that changes whenever an answer of ``spread_check`` may change; () if none can."""
    if not needs.spread:
        return ()
    return nodes.topology, max(nodes.pods.group((constraint.pods,)).changed for constraint in needs.spread)


def _fullest_allowed(
    constraint: SpreadConstraint, needs: Needs, nodes: Nodes, own_node: str
) -> tuple[Mapping[str, int], int]:
    """Number of matching pods in each domain, and the most with which a domain takes the pod."""
    counts = counts_of(constraint, needs.spread, needs, nodes, own_node)
    least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
    return counts, constraint.max_skew + least - constraint.counts_itself


def counts_of(
    constraint: SpreadConstraint, constraints: Sequence[SpreadConstraint], needs: Needs, nodes: Nodes, own_node: str
) -> Mapping[str, int]:
    """Number of matching pods in each domain, without the pod itself.

    Args:
        constraints: all constraints of the pod. Only nodes with the labels of all of them count.
        own_node: the node that the pod itself counts on; "" for none.
    """
    domain_of = _domains(constraint, constraints, needs, nodes)
    counts = dict.fromkeys(domain_of.values(), 0)
    for node, count in nodes.pods.group((constraint.pods,)).by_node.items():
        if (domain := domain_of.get(node)) is not None:
            counts[domain] += count
    if constraint.counts_itself and nodes.pods.selects((constraint.pods,), needs.pod) and own_node in domain_of:
        counts[domain_of[own_node]] -= 1
    return counts


def _domains(
    constraint: SpreadConstraint, constraints: Sequence[SpreadConstraint], needs: Needs, nodes: Nodes
) -> Mapping[str, str]:
    """The domain of each node that counts for the constraint."""
    keys = tuple(dict.fromkeys(other.topology_key for other in constraints))
    affinity = (needs.labels, needs.affinity) if constraint.honors_affinity else None
    tolerations = needs.tolerations if constraint.honors_taints else None
    key = (constraint.topology_key, keys, affinity, tolerations)
    known = nodes.domains.get(key)
    if known is None or known[0] != nodes.topology:
        domains = {}
        for name in nodes:
            facts = nodes[name].facts
            assert facts is not None
            if all(other in facts.labels for other in keys):
                honored = affinity is None or selects_node(needs, facts)
                if honored and (tolerations is None or not any(untolerated(tolerations, facts.taints))):
                    domains[name] = facts.labels[constraint.topology_key]
        known = nodes.domains[key] = nodes.topology, domains
    return known[1]
