"""The order in which pods are served. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace

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
