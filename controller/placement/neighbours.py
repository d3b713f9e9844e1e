"""What pods on other nodes forbid: required affinity and anti-affinity, and topology spread. Pure.

The rules are those of kube-scheduler's plugins InterPodAffinity and PodTopologySpread. Each check is prepared for one
pod and all nodes, and is valid until pods or nodes change.
"""

from collections.abc import Iterator, Mapping, Sequence

from controller.placement.needs import Needs, SpreadConstraint
from controller.placement.nodes import Nodes, Reasons
from controller.placement.podindex import Selectors
from controller.placement.predicates import selects_node, untolerated


def affinity_check(pod: str, needs: Needs, nodes: Nodes) -> Reasons | None:
    """Prepare a check of nodes for affinity between ``pod`` (namespace/name) and pods on nodes; None without any.

    Valid until pods or nodes change. The pod itself does not count if it counts on a node already.
    """
    own_node = nodes.node_of(pod)
    checks: list[Reasons] = []
    if needs.pod_affinity:
        checks.append(_affinity(needs, nodes, own_node))
    if needs.pod_anti_affinity:
        checks.append(_anti_affinity(needs, nodes, own_node))
    if against := _existing(needs, nodes, own_node):
        checks.append(against)
    if not checks:
        return None
    return lambda name, labels: (reason for check in checks for reason in check(name, labels))


def affinity_version(needs: Needs, nodes: Nodes) -> tuple[int, ...]:
    """A version that changes whenever an answer of ``affinity_check`` may change; () if none can."""
    against = [counts.changed for _, counts in nodes.pods.terms_against(needs.pod)]
    groups: list[Selectors] = [(term.pods,) for term in needs.pod_anti_affinity]
    if needs.pod_affinity:
        groups.append(_all_selectors(needs))
    if not groups and not against:
        return ()
    return nodes.topology, len(against), max([*against, *(nodes.pods.group(group).changed for group in groups)])


def _affinity(needs: Needs, nodes: Nodes, own_node: str) -> Reasons:
    """Check that each term's domain has a pod that all terms select. The first pod of a group needs none."""
    selectors = _all_selectors(needs)
    itself = nodes.pods.selects(selectors, needs.pod)
    by_node = without(nodes.pods.group(selectors).by_node, own_node if itself else "")
    keys = list(dict.fromkeys(term.topology_key for term in needs.pod_affinity))
    domains = {key: domains_of(by_node, key, nodes) for key in keys}
    first = itself and not any(domains.values())

    def reasons(_: str, labels: Mapping[str, str]) -> Iterator[str]:
        for key in keys:
            if key not in labels:
                yield f"the node has no label {key}, which the pod's required pod affinity needs"
            elif not first and labels[key] not in domains[key]:
                yield f"no pod that the pod's required pod affinity selects is in the node's {key}"

    return reasons


def _anti_affinity(needs: Needs, nodes: Nodes, own_node: str) -> Reasons:
    """Check that no term selects a pod in the node's domain."""
    excluded: dict[str, set[str]] = {}
    for term in needs.pod_anti_affinity:
        itself = nodes.pods.selects((term.pods,), needs.pod)
        by_node = without(nodes.pods.group((term.pods,)).by_node, own_node if itself else "")
        excluded.setdefault(term.topology_key, set()).update(domains_of(by_node, term.topology_key, nodes))

    def reasons(_: str, labels: Mapping[str, str]) -> Iterator[str]:
        for key, values in excluded.items():
            if labels.get(key) in values:
                yield f"a pod that the pod's required anti-affinity excludes is in the node's {key}"

    return reasons


def _existing(needs: Needs, nodes: Nodes, own_node: str) -> Reasons | None:
    """Check that no pod in the node's domain excludes the pod by its required anti-affinity."""
    excluded: dict[str, set[str]] = {}
    for term, counts in nodes.pods.terms_against(needs.pod):
        by_node = without(counts.by_node, own_node if term in needs.pod_anti_affinity else "")
        excluded.setdefault(term.topology_key, set()).update(domains_of(by_node, term.topology_key, nodes))
    if not any(excluded.values()):
        return None

    def reasons(_: str, labels: Mapping[str, str]) -> Iterator[str]:
        for key, values in excluded.items():
            if labels.get(key) in values:
                yield f"the required anti-affinity of a pod in the node's {key} excludes the pod"

    return reasons


def _all_selectors(needs: Needs) -> Selectors:
    """The selectors of all terms: a pod satisfies required affinity only if all of them select it."""
    return tuple(term.pods for term in needs.pod_affinity)


def without(by_node: Mapping[str, int], own_node: str) -> Mapping[str, int]:
    """Counts without the pod itself, which counts on ``own_node`` unless that is ""."""
    if own_node not in by_node:
        return by_node
    return {node: count - (node == own_node) for node, count in by_node.items()}


def domains_of(by_node: Mapping[str, int], key: str, nodes: Nodes) -> Mapping[str, int]:
    """Number of pods for each value of the node label ``key``; only values with pods."""
    counts: dict[str, int] = {}
    for node, count in by_node.items():
        value = nodes.labels_of(node).get(key)
        if value is not None and count:
            counts[value] = counts.get(value, 0) + count
    return counts


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
