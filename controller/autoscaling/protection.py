"""Finds the nodes that autoscalers must leave alone, and those that need not be any more. Pure.

Autoscalers count a node as empty while no pod is bound to it, even if devices there are allocated for pods that still
have gates. A node that is awaited by such pods for long gets the annotation for which Karpenter leaves it alone, and
beside it our own, which says who set it. An annotation that somebody else has set is left as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.reconcile.lettinggo import is_bound_by_nobody
from controller.state import State
from controller.state.knownnodes import DO_NOT_DISRUPT, PROTECTED, ending_protection
from driver.kube.api import NODES


@dataclass(frozen=True, slots=True)
class ProtectNode:
    """Annotations of a node to be changed, if it is still the known version.

    Attributes:
        annotations: the new values; None removes the annotation.
    """

    node: str
    uid: str
    version: str
    annotations: Mapping[str, str | None]


def awaited_nodes(state: State, now: float) -> frozenset[str]:
    """Return the nodes where pods have a place that are not bound, but may be yet at ``now`` (``State.at``)."""
    awaited = state.unbound.items()
    return frozenset(node for pod, node in awaited if not is_bound_by_nobody(state, state.pods[pod], now))


def protection_changes(state: State, awaited: Mapping[str, bool]) -> Iterator[ProtectNode]:
    """Yield the nodes whose annotations have to be changed, in the order of their names.

    Args:
        awaited: for each of the ``awaited_nodes``, whether it is one for so long that it has to be protected.
    """
    for node in sorted({*awaited, *state.protections.ours}):
        value, annotations = state.protections.protection_of(node).value, dict[str, str | None]()
        if node not in awaited:
            annotations = {**ending_protection(state.names, value)}
        elif awaited[node] and value is None and node in state.nodes:
            annotations = {state.names.protection: PROTECTED, DO_NOT_DISRUPT: PROTECTED}
        if annotations:
            yield ProtectNode(node, state.uid_of(NODES, node), state.version_of(NODES, node), annotations)
