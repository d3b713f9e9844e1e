"""Chooses the pods that kube-scheduler evicts to make room for another one (plugin DefaultPreemption). Pure."""

from collections.abc import Callable, Sequence

from driver.kube.api import Object
from driver.kube.objects import is_deleting

Refuses = Callable[[Sequence[Object]], str]
"""The reason why a node refuses the pod beside these pods; "" if it does not."""


def priority_of(pod: Object) -> int:
    """The pod's priority; 0 if it has none."""
    return pod["spec"].get("priority") or 0


def victims(pod: Object, present: Sequence[Object], refuses: Refuses) -> list[Object]:
    """The pods of lower priority that have to go from a node for ``pod``; none if that makes no room.

    All of lower priority are taken away, and then given back in the order of priority where they still fit.
    """
    lower = [other for other in present if priority_of(other) < priority_of(pod)]
    kept = [other for other in present if priority_of(other) >= priority_of(pod)]
    if not lower or refuses(kept):
        return []
    found = []
    for other in sorted(lower, key=lambda one: (-priority_of(one), one["metadata"]["name"])):
        if refuses([*kept, other]):
            found.append(other)
        else:
            kept.append(other)
    return found


def waits_for_victims(pod: Object, present: Sequence[Object]) -> bool:
    """Whether pods of lower priority are ending already on the node that the pod is nominated for."""
    return any(is_deleting(other) and priority_of(other) < priority_of(pod) for other in present)
