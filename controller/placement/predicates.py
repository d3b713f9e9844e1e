"""Whether a pod can run on a node, and if not, every reason why. Pure.

The rules are kube-scheduler's own (plugins NodeUnschedulable, TaintToleration, NodeAffinity, NodeResourcesFit,
NodePorts), so that it agrees with the node chosen here. What it checks beyond these (volumes, spreading, affinity
between pods) shows as a refusal of the pod, which ``controller.reconcile`` answers.
"""

from collections.abc import Collection, Iterable

from controller.placement.needs import Needs, NodeToleration, written
from controller.placement.nodes import NodeFacts, NodeTaint, NodeView
from driver.node_selectors import selects
from driver.quantity import NANO

_UNSCHEDULABLE = NodeTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_BY_CLASS = "deviceclass.resource.kubernetes.io/"


def fits(pod: str, needs: Needs, node: NodeView, backed: Collection[str] = ()) -> tuple[str, ...]:
    """Every reason why ``pod`` (namespace/name) cannot run on ``node``; empty if it can.

    Reasons name no node, so that equal ones can be counted. What the pod itself already takes on the node does not
    count against it. ``backed`` are the extended resources that device classes stand for: kube-scheduler gets those
    from devices where the node has none.
    """
    if node.facts is None or node.facts.deleting:
        return ("the node does not exist",)
    return (
        *_state_reasons(needs, node.facts),
        *_selection_reasons(needs, node.facts),
        *_resource_reasons(pod, needs, node, backed),
        *_port_reasons(pod, needs, node),
    )


def _state_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    if not facts.ready:
        yield "the node is not ready"
    if facts.unschedulable and not tolerates(needs.tolerations, _UNSCHEDULABLE):
        yield "the node is unschedulable"
    for taint in facts.taints:
        if taint == _UNSCHEDULABLE and facts.unschedulable:
            continue
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(needs.tolerations, taint):
            yield f"node taint {taint} is not tolerated"


def tolerates(tolerations: Iterable[NodeToleration], taint: NodeTaint) -> bool:
    """Whether any toleration covers the taint; an operator we do not know covers nothing."""
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


def _selection_reasons(needs: Needs, facts: NodeFacts) -> Iterable[str]:
    if any(facts.labels.get(name) != value for name, value in needs.labels):
        yield "the node does not match the pod's nodeSelector"
    if needs.affinity is not None and not selects(needs.affinity, facts.name, facts.labels):
        yield "the node does not match the pod's required node affinity"


def _resource_reasons(pod: str, needs: Needs, node: NodeView, backed: Collection[str]) -> Iterable[str]:
    assert node.facts is not None
    own = node.holds(pod)
    # kube-scheduler counts a pod without requests too, so a node that reports no pod limit takes none.
    if node.pods - (own is not None) + 1 > node.facts.allocatable.get("pods", 0) // NANO:
        yield "too many pods"
    for name, amount in sorted(needs.requests.items()):
        total = node.facts.allocatable.get(name, 0)
        if not total and (name in backed or name.startswith(_BY_CLASS)):
            continue
        taken = node.used[name] - (own.requests.get(name, 0) if own else 0)
        if amount > total - taken:
            yield f"insufficient {name} ({written(name, amount)} requested)"


def _port_reasons(pod: str, needs: Needs, node: NodeView) -> Iterable[str]:
    if not needs.ports:
        return
    own = node.holds(pod)
    taken = node.ports.copy()
    if own:
        taken.subtract(own.ports)
    for port in needs.ports:
        if any(count > 0 and port.clashes(other) for other, count in taken.items()):
            yield f"host port {port.port}/{port.protocol} is taken"
