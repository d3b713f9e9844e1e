"""The order in which pods are served. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.state import PodView

_FIRST = ""
"""Sorts before every time stamp."""
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

    @property
    def namespace(self) -> str:
        """Of the pod."""
        return self.pod.partition("/")[0]


def rank_of(pod: PodView) -> Rank:
    """By priority, then age, then key; a pod that does not exist yet is the youngest."""
    return Rank(-pod.priority, pod.created or _LAST, pod.key)


def rank_of_gang(members: Collection[PodView]) -> Rank:
    """The rank of the member that comes first. A gang that runs comes first in its priority: it lost a member."""
    first = min(map(rank_of, members))
    return replace(first, created=_FIRST) if any(pod.node_name for pod in members) else first
