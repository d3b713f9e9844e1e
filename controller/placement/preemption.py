"""Predicts evictions by which kube-scheduler makes room for a pod. Pure."""

from collections.abc import Collection, Iterator

from controller.placement.needs import Needs
from controller.placement.nodes import NodeView
from controller.placement.predicates import fits

Victims = tuple[int, ...]
"""Priorities of the pods to evict."""


def victims(pod: str, needs: Needs, node: NodeView, backed: Collection[str] = ()) -> Victims | None:
    """Pods that kube-scheduler would evict from ``node`` for ``pod`` (namespace/name); None if that makes no room.

    As in kube-scheduler (plugin DefaultPreemption), all pods of lower priority are removed, and then put back in the
    order of priority where they still fit. Room means CPU, memory, other resources, number of pods, and host ports.
    ``backed`` as of ``fits``.
    """
    if not needs.preempts or node.facts is None:
        return None
    left = NodeView.without_pods(node.facts)
    lower: list[tuple[str, Needs]] = []
    for key, held in node.held():
        if held.priority < needs.priority and key != pod:
            lower.append((key, held))
        else:
            left.add(key, held)
    if not lower or fits(pod, needs, left, backed):
        return None
    lower.sort(key=lambda entry: (-entry[1].priority, entry[0]))
    return tuple(_evicted(pod, needs, left, lower, backed))


def _evicted(
    pod: str, needs: Needs, left: NodeView, lower: list[tuple[str, Needs]], backed: Collection[str]
) -> Iterator[int]:
    for key, held in lower:
        left.add(key, held)
        if fits(pod, needs, left, backed):
            left.remove(key)
            yield held.priority


def harm(found: Victims) -> tuple[int, int, int]:
    """Harm of evictions, by which kube-scheduler compares nodes: highest priority, sum of priorities, number."""
    return max(found, default=0), sum(found), len(found)
