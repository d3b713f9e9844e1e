"""The order in which pods are served. Pure."""

from dataclasses import dataclass

from controller.state import PodView

_LAST = "~"
"""Sorts after every time stamp."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A pod's place in the order in which pods are served; the smallest comes first."""

    below: int
    """Minus the pod's priority (``spec.priority``)."""
    created: str
    pod: str
    """Key (namespace/name)."""


def rank_of(pod: PodView) -> Rank:
    """By priority, then age, then key; a pod that does not exist yet is the youngest."""
    return Rank(-pod.priority, pod.created or _LAST, pod.key)
