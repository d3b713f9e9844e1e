"""Nodes on which kube-scheduler can make room for a pod by evicting pods of lower priority. Pure."""

from collections.abc import Collection, Iterator

from controller.placement.needs import Needs
from controller.placement.nodes import NodeView
from controller.placement.predicates import fits

Victims = tuple[int, ...]
"""The priorities of the pods to be evicted."""


def victims(pod: str, needs: Needs, node: NodeView, backed: Collection[str] = ()) -> Victims | None:
    """The pods that would be evicted from ``node`` for ``pod`` (namespace/name); None if that makes no room.

    As kube-scheduler does (plugin DefaultPreemption), pods of lower priority are taken away, and then given back in the
    order of priority where they still fit. Room is what the node itself has: CPU, memory, other resources, the number
    of pods, host ports. ``backed`` is as for ``fits``.
    """
    if not needs.preempts:
        return None
    left = NodeView(node.name)
    left.facts = node.facts
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
    """What kube-scheduler keeps small when it chooses a node: the highest priority, their sum, their number."""
    return max(found, default=0), sum(found), len(found)
