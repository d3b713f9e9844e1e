"""Predicates of one pod and one node. Pure.

The rules are those of kube-scheduler (plugins NodeUnschedulable, TaintToleration, NodeAffinity, NodeResourcesFit,
NodePorts, NodeDeclaredFeatures), so that it agrees with the node chosen here. ``podcheck`` adds the predicates that
depend on other nodes.
"""

from collections.abc import Collection, Iterable, Sequence

from controller.placement.needs import Needs, NodeToleration, written
from controller.placement.nodes import BY_CLASS, ExtendedResources, NodeFacts, NodeTaint, NodeView
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
    for taint in untolerated(needs.tolerations, facts.taints):
        if taint != _UNSCHEDULABLE or not facts.unschedulable:
            yield f"node taint {taint} is not tolerated"
    for condition in facts.closing_conditions:
        yield f"the node has the condition {condition} (controller.closingNodeConditions)"


def untolerated(tolerations: Collection[NodeToleration], taints: Iterable[NodeTaint]) -> Iterable[NodeTaint]:
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


def selects_node(needs: Needs, facts: NodeFacts) -> bool:
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
