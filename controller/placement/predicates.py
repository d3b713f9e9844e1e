"""Predicates of a pod and a node: what the node itself does not allow, and what pods on other nodes forbid. Pure.

The rules are those of kube-scheduler, so that it agrees with the node chosen here.

**The node.** ``fits`` asks one node about one pod (plugins NodeUnschedulable, TaintToleration, NodeAffinity,
NodeResourcesFit, NodePorts, NodeDeclaredFeatures).

**Pods on other nodes.** Required affinity and anti-affinity (InterPodAffinity), and topology spread
(PodTopologySpread). Each check is prepared for one pod and all nodes, and is valid until pods or nodes change.

``podcheck`` asks them all, and those of ``volumes``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from controller.placement.needs import Needs, NodeToleration, SpreadConstraint, written
from controller.placement.nodes import BY_CLASS, ExtendedResources, NodeFacts, Nodes, NodeTaint, NodeView, Reasons
from controller.placement.podindex import Selectors
from driver.node_selectors import selects
from driver.quantity import NANO

_UNSCHEDULABLE = NodeTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NO_EXTENDED = ExtendedResources()


def fits(pod: str, needs: Needs, node: NodeView, extended: ExtendedResources = _NO_EXTENDED) -> tuple[str, ...]:
    """All reasons why ``pod`` (namespace/name) cannot run on ``node``; empty if it can.

    Reasons name no node, so that equal ones can be counted. Resources that the pod already has on the node do not count
    against it.

    Args:
        extended: those that stand for device classes, which count only where the node has none of them itself.
    """
    if node.facts is None or node.facts.deleting:
        return ("the node does not exist",)
    found = facts_reasons(needs, node.facts)
    found += _resource_reasons(pod, needs, node, node.facts, extended)
    if needs.ports:
        found += _port_reasons(pod, needs, node)
    return tuple(found)


def facts_reasons(needs: Needs, facts: NodeFacts) -> list[str]:
    """The reasons of ``fits`` that do not depend on other pods."""
    found: list[str] = []
    # It is asked for every node, and most nodes and pods have nothing of most of this.
    if not facts.ready or facts.unschedulable or facts.taints or facts.closing_conditions:
        found += _state_reasons(needs, facts)
    if needs.labels or needs.affinity is not None:
        found += _selection_reasons(needs, facts)
    if needs.features:
        found += _feature_reasons(needs, facts)
    return found


def closed(needs: Needs, node: NodeView) -> tuple[str, ...]:
    """Reasons why a pod may not be on the node, whoever puts it there: a cordon, a taint that it does not tolerate, or
    a condition that closes the node.

    A pod created with ``spec.nodeName`` bypasses kube-scheduler, and the kubelet checks only taints ``NoExecute``.
    """
    return () if node.facts is None else tuple(_closing_reasons(needs, node.facts))


def _state_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    if not facts.ready:
        yield "the node is not ready"
    yield from _closing_reasons(needs, facts)


def _closing_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    if facts.unschedulable and not tolerates(needs.tolerations, _UNSCHEDULABLE):
        yield "the node is unschedulable"
    for taint in _untolerated(needs.tolerations, facts.taints):
        if taint != _UNSCHEDULABLE or not facts.unschedulable:
            yield f"node taint {taint} is not tolerated"
    for condition in facts.closing_conditions:
        yield f"the node has the condition {condition} (controller.closingNodeConditions)"


def _untolerated(tolerations: Collection[NodeToleration], taints: Iterable[NodeTaint]) -> Iterable[NodeTaint]:
    """Taints that keep a pod with these tolerations off a node."""
    return (t for t in taints if t.effect in ("NoSchedule", "NoExecute") and not tolerates(tolerations, t))


def tolerates(tolerations: Iterable[NodeToleration], taint: NodeTaint) -> bool:
    """Whether any toleration covers the taint. A toleration with an unknown operator covers nothing."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: NodeToleration, taint: NodeTaint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.key) and toleration.value == taint.value
    return False


def _selects_node(needs: Needs, facts: NodeFacts) -> bool:
    """Whether the pod's node selector and required node affinity allow the node."""
    return not any(_selection_reasons(needs, facts))


def _selection_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    if needs.labels and any(facts.labels.get(name) != value for name, value in needs.labels):
        yield "the node does not match the pod's nodeSelector"
    if needs.affinity is not None and not selects(needs.affinity, facts.name, facts.labels):
        yield "the node does not match the pod's required node affinity"


def _feature_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    for feature in needs.features:
        if feature not in facts.features:
            yield f"the node does not declare the feature {feature}"


def _resource_reasons(
    pod: str, needs: Needs, node: NodeView, facts: NodeFacts, extended: ExtendedResources
) -> Sequence[str]:
    own, allocatable, used = node.holds(pod), facts.allocatable, node.used
    found, short = [], []
    # kube-scheduler counts a pod without requests too, so a node that reports no pod limit takes none.
    if node.pods - (own is not None) + 1 > allocatable.get("pods", 0) // NANO:
        found.append("too many pods")
    for name, amount in needs.requests.items():
        total = allocatable.get(name, 0)
        if not total and name in extended.by_claim:
            found.append(
                f"{name} stands for devices that are allocated for claims alone: ask for them with a claim template in "
                "spec.resourceClaims, or have the resource adopted (docs/adoption.md)"
            )
            continue
        if not total and (name in extended.by_scheduler or name.startswith(BY_CLASS)):
            continue
        taken = used.get(name, 0) - (own.requests.get(name, 0) if own else 0)
        if amount > total - taken:
            short.append((name, amount))
    found += [f"insufficient {name} ({written(name, amount)} requested)" for name, amount in sorted(short)]
    return found


def _port_reasons(pod: str, needs: Needs, node: NodeView) -> Iterable[str]:
    own = node.holds(pod)
    taken = node.ports.copy()
    if own:
        taken.subtract(own.ports)
    for port in needs.ports:
        if any(count > 0 and port.clashes(other) for other, count in taken.items()):
            yield f"host port {port.port}/{port.protocol} is taken"


# Pods on other nodes


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
                honored = affinity is None or _selects_node(needs, facts)
                if honored and (tolerations is None or not any(_untolerated(tolerations, facts.taints))):
                    domains[name] = facts.labels[constraint.topology_key]
        known = nodes.domains[key] = nodes.topology, domains
    return known[1]
