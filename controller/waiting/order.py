"""The order in which pods are served; and the pods that wait in it, in groups that a change can help. Pure."""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from controller.state import PodView, State

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
    """Time stamp from which the pod could be served; compared as text."""
    pod: str
    """Key (namespace/name)."""

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.pod.partition("/")[0]


def rank_of(state: State, pod: PodView) -> Rank:
    """Return the pod's rank: by priority, then age, then key.

    Each pod has one, whether it waits or runs, and whether it is a member of a gang: it says who comes after whom.
    Those who wait together have that of ``rank_of_gang``; of a single pod that waits for all of its devices, it is the
    same.

    A pod is as old as the youngest of its claims: before that, nothing could be decided about it. The same holds for
    scheduling gates of others, such as those of a queue: the pod comes after all pods that existed when the last of
    these gates was removed. So nobody keeps a place for a pod that is to be served later. A pod that lacks a claim, has
    gates of others, or does not exist yet, is the youngest.
    """
    return Rank(-pod.priority, _ready_since(state, pod), pod.key)


def rank_of_gang(state: State, members: Collection[PodView]) -> Rank:
    """Return the gang's rank: the priority of its first member, and the age of the gang.

    It is as old as the member that completed its minimum. A gang with a running member that has devices comes first in
    its priority: it lost another member.
    """
    ranks = sorted(rank_of(state, pod) for pod in members)
    if any(pod.node_name and _has_devices(state, pod) for pod in members):
        return first_of_its_priority(ranks[0])
    ages = sorted(rank.created for rank in ranks)
    gang = state.gangs.gang_of(ranks[0].pod)
    needed = state.gangs.needed(gang) if gang else 1
    return replace(ranks[0], created=ages[needed - 1] if needed <= len(ages) else _LAST)


def first_of_its_priority(rank: Rank) -> Rank:
    """Return the rank of a gang of which a member with devices runs, or is about to."""
    return replace(rank, created=_FIRST)


def _ready_since(state: State, pod: PodView) -> str:
    openings = state.pods.openings
    if not pod.created or openings.is_held(pod) or any(not reference.claim for reference in pod.references):
        return _LAST
    records = [state.claims.get(key) for key in pod.claim_keys]
    known = [record.created for record in records if record is not None]
    if len(known) < len(records):
        return _LAST
    since, opened = max((pod.created, *known)), openings.opened(pod)
    # Of those that were opened at one moment, such as all that a queue admits at once, the oldest comes first.
    return f"{opened} {since}" if opened >= since else since


def _has_devices(state: State, pod: PodView) -> bool:
    records = (state.claims.get(key) for key in pod.claim_keys)
    return any(record is not None and state.holds_ours(record.claim) for record in records)


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
