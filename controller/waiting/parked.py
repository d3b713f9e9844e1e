"""The pods that cannot be placed now, and those of them that a change can help. Pure."""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator
from enum import Enum

from controller.waiting.order import Rank


class Help(Enum):
    """The kind of change that can help a pod that waits."""

    NODES = "a node or device that can be used now"
    CLUSTER = "a change that concerns every node, such as a device class"
    QUOTA = "room in the quotas of the pod's namespace"
    OWN = "a change of the pod or its claims"


_Group = tuple[Help, Hashable]


class ParkedPods(Collection[str]):
    """Pods that wait, in groups. One answer holds for a whole group, so only its first pod is tried.

    All but ``Help.OWN`` need a wake-up: a change of a pod or its claims always leads to a decision.
    """

    def __init__(self) -> None:
        self._parked: dict[str, tuple[_Group, Rank]] = {}
        self._groups: dict[Help, dict[_Group, list[Rank]]] = {kind: {} for kind in Help}

    def __contains__(self, pod: object) -> bool:
        return pod in self._parked

    def __iter__(self) -> Iterator[str]:
        return iter(self._parked)

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, rank: Rank, by: Help, group: Hashable) -> str | None:
        """Let the pod wait with others of the group; return as ``leave`` for the group that it was in before."""
        name = by, group
        known = self._parked.get(rank.pod)
        if known == (name, rank):
            return None
        woken = self.leave(rank.pod)
        self._parked[rank.pod] = name, rank
        insort(self._groups[by].setdefault(name, []), rank)
        return woken

    def leave(self, pod: str) -> str | None:
        """End the pod's wait; return the pod that is first of its group now, if another one was first before."""
        known = self._parked.pop(pod, None)
        if known is None:
            return None
        (by, _), rank = known
        ranks = self._groups[by][known[0]]
        position = bisect_left(ranks, rank)
        del ranks[position]
        if not ranks:
            del self._groups[by][known[0]]
        return ranks[0].pod if ranks and position == 0 else None

    def is_first(self, pod: str, by: Help = Help.NODES) -> bool:
        """Return whether the pod waits for this kind of change and no pod of its group comes before it."""
        known = self._parked.get(pod)
        return known is not None and known[0][0] is by and self._groups[by][known[0]][0].pod == pod

    def first_for_nodes(self) -> list[str]:
        """Return the first pod of each group that waits for nodes."""
        return [ranks[0].pod for ranks in self._groups[Help.NODES].values()]

    def woken(self, changed: Collection[str]) -> list[str]:
        """Return the pods that changes in favour of these nodes ("": of every node) may help: one of each group."""
        if not changed:
            return []
        more = self._groups[Help.CLUSTER].values() if "" in changed else ()
        return [*self.first_for_nodes(), *(ranks[0].pod for ranks in more)]

    def woken_by_quota(self, namespace: str) -> list[str]:
        """Return the pods that room in the quotas of a namespace may help: the first of each of its groups."""
        ranks = (ranks[0] for ranks in self._groups[Help.QUOTA].values())
        return [rank.pod for rank in ranks if rank.namespace == namespace]
