"""Holds nodes back for pods that have waited long, so that pods which come after them do not starve them. Pure.

The rule
    A pod that waits longer than a settable time, and that is the first of its shape, gets one node held back: pods that
    come after it (lower priority, or equal priority and younger) are not placed there. It is a node that could take the
    pod if pods that come after it ended there; among these, the one with the fewest such pods, then the first
    by name. At most ``MOST_HELD`` nodes are held back at a time, half of them for one namespace. It ends when the pod
    is placed or gone, or when the node cannot take it any more, even without the pods that come after it.

    A gang that waits that long gets the nodes on which members with devices could start if the pods that come after it
    ended, or if these do not suffice, all pods of no higher priority: pods that run end some day. In each outermost
    domain, nodes are held back for one gang at a time, the first of those that wait, and for one gang of a namespace.
    Pods that come after it may use them if they have ended before the gang can start: their deadline says when that is
    at the latest, and the deadlines of the pods that are in the gang's way say when it can start.

    If some members of a gang are made when others run, it gets the nodes for these from its start on. It comes before
    all of its priority, and no hold of another gang ends for it.

    Of all nodes with devices, a settable share is held back at a time. A gang that needs more than that gets its nodes
    when nothing is held back for gangs that come before it.

    Each hold ends after a settable time, and is followed by a pause (``controller.waiting.held``), so that those who
    come after are served in turn with the one that waits, however long the pods in its way run.

    Nothing is taken from a pod that has its devices. If pods of lower priority are to be evicted, that is done as soon
    as no node takes a pod (``controller.preemption.worker``), and what is kept then counts more than a later hold.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Literal

from controller.waiting.order import Rank

_TURNS: Final = 2
"""Pauses that a namespace waits after a hold of its own ran out, so that those of others come first."""


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """The settings ``controller.hold``; times are seconds.

    Attributes:
        enabled: whether nodes are held back at all.
        after: how long a pod or gang waits before a hold.
        longest: the longest hold.
        pause: how long after a hold nobody holds these nodes back.
        share: the part of the nodes with devices that may be held back at a time.
    """

    enabled: bool = True
    after: float = 300
    longest: float = 1800
    pause: float = 1800
    share: float = 0.5

    def most(self, nodes: int) -> int:
        """Return how many of so many nodes may be held back at a time; at least one."""
        return max(1, int(self.share * nodes))


class Pauses:
    """The nodes and namespaces for which nothing is held back for a while, because a hold ran out.

    The rule
        A hold that ran out keeps its nodes open for one pause and its namespace waiting for two. So pods that come
        after are served in turn with the one that waits, and others that wait for room have their turn before it. It
        binds those of no higher priority. A hold that ended earlier, but not because the one that waited was placed, is
        followed by a pause that is shorter in the same proportion.

    Args:
        seconds: of a pause.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._nodes: dict[str, tuple[float, int]] = {}
        self._namespaces: dict[str, tuple[float, int]] = {}
        """Each pause as its end (monotonic seconds) and ``Rank.below`` of the one whose hold ran out."""

    def ended(self, rank: Rank, nodes: Collection[str], now: float, part: float = 1) -> None:
        """Start a pause after a hold that ended while the one that it was for still waits or is gone.

        Args:
            part: the part of its longest time that has passed.
        """
        pause = self._seconds * min(1.0, max(0.0, part))
        self._nodes = {name: one for name, one in self._nodes.items() if one[0] > now}
        self._namespaces = {name: one for name, one in self._namespaces.items() if one[0] > now}
        self._nodes |= dict.fromkeys(nodes, (now + pause, rank.below))
        self._namespaces[rank.namespace] = now + _TURNS * pause, rank.below

    def nodes(self, rank: Rank, now: float) -> dict[str, float]:
        """Return the nodes that may not be held back for this rank now, each with the end of its pause."""
        return {name: ends for name, (ends, below) in self._nodes.items() if ends > now and rank.below >= below}

    def of_namespace(self, rank: Rank, now: float) -> float | None:
        """Return when (monotonic seconds) this rank's namespace may have nodes held back; None for now."""
        ends, below = self._namespaces.get(rank.namespace, (now, 0))
        return ends if ends > now and rank.below >= below else None


MOST_HELD: Final = 8
"""Most nodes that are held back for single pods at a time."""

Owner = tuple[Literal["pod", "gang"], str]
"""A single pod or a gang, with its key (``namespace/name``)."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nodes that are held back for a gang, or the one that is for a single pod.

    Attributes:
        owner: whom they are held back for, as the queue of the controller calls it: ``("gang", key)`` or
            ``("pod", key)``. A pod and a gang may have the same key.
        ends: latest end of the hold (monotonic seconds).
        outermost: the outermost domain of a gang's nodes; "" for the whole cluster, and for a single pod.
        nodes_without_devices: the nodes of members without devices. They are not held back.
        starts: latest start of the gang there (monotonic seconds), if the deadlines of pods tell it; None if not, and
            for a single pod.
    """

    owner: Owner
    rank: Rank
    nodes: frozenset[str]
    ends: float = inf
    outermost: str = ""
    nodes_without_devices: frozenset[str] = frozenset()
    starts: float | None = None

    @classmethod
    def of_pod(cls, rank: Rank, node: str, ends: float) -> "Hold":
        """The hold of one node for a single pod."""
        return cls(("pod", rank.pod), rank, frozenset((node,)), ends)

    @property
    def gang(self) -> str:
        """Key of the gang; "" for a single pod."""
        kind, key = self.owner
        return key if kind == "gang" else ""

    @property
    def who(self) -> str:
        """Whom the nodes are held back for, in words."""
        return f"gang {self.gang}" if self.gang else self.rank.pod

    @property
    def all_nodes(self) -> frozenset[str]:
        """Every node where a pod of it would go."""
        return self.nodes | self.nodes_without_devices

    def predicting(self, starts: float | None, now: float) -> "Hold":
        """Return the hold with another prediction, made at ``now`` (monotonic seconds).

        A prediction is put off only when it has passed, so pods that use the nodes meanwhile never delay the gang by
        turns.
        """
        if self.starts is not None and self.starts > now:
            starts = self.starts if starts is None else min(starts, self.starts)
        return replace(self, starts=starts)


class HeldNodes:
    """The nodes that are held back, for pods and for gangs.

    A single pod is a gang of one as to whom its node is closed to. How many there may be at a time is decided in two
    ways: a pod needs one node, so its hold is never in the way of another pod's, and each may have as many as are
    bounded by number (``is_full``). Gangs need many, and two half-empty domains would help neither. So one of higher
    rank takes the place of others (``displaced``).
    """

    def __init__(self) -> None:
        self._held: dict[Owner, Hold] = {}

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._held.values()))

    @property
    def count(self) -> int:
        """The number of nodes that are held back."""
        return sum(len(one.nodes) for one in self._held.values())

    def get(self, owner: Owner) -> Hold | None:
        """Return the hold of a pod or gang; None if there is none."""
        return self._held.get(owner)

    def hold(self, held: Hold) -> None:
        """Hold nodes back, from every pod that comes after. The holds of gangs that are ``displaced`` have to be
        ended."""
        self._held[held.owner] = held

    def end(self, owner: Owner) -> Hold | None:
        """End the hold of a pod or gang, and return it; None if there was none."""
        return self._held.pop(owner, None)

    def on(self, nodes: Collection[str]) -> list[Owner]:
        """Return for whom one of these nodes is held back; everybody with a hold if "" is one of them."""
        return [owner for owner, held in self._held.items() if "" in nodes or not held.nodes.isdisjoint(nodes)]

    def from_pod(self, rank: Rank, ends: float | None = None, gang: str = "") -> Mapping[str, str]:
        """Return the nodes that are held back from a pod, each with whom it is held back for, in words.

        Args:
            ends: when (monotonic seconds) the pod has ended at the latest, if it is placed now; None if no deadline
                tells.
            gang: of the pod, from which its own nodes are not held back.
        """
        # Of several holds of a node, the last one is told: that of a pod before that of a gang, then the first in rank.
        ordered = sorted(self._held.values(), key=lambda one: (bool(one.gang), one.rank), reverse=True)
        closed = [one for one in ordered if one.rank < rank and not _ends_before(ends, one)]
        return {node: one.who for one in closed if not one.gang or one.gang != gang for node in sorted(one.nodes)}

    # How many

    def is_full(self, namespace: str, most: int) -> bool:
        """Return whether no further node may be held back for a single pod, in all or for pods of the namespace.

        Args:
            most: how many nodes may be held back for single pods in the whole cluster.
        """
        most = min(most, MOST_HELD)
        pods = [one for one in self._held.values() if not one.gang]
        return len(pods) >= most or sum(one.rank.namespace == namespace for one in pods) >= max(1, most // 2)

    def displaced(self, held: Hold, most: int) -> Sequence[str] | None:
        """Return the gangs whose holds would have to end for this one of a gang; None if it may not be made.

        Args:
            most: how many nodes may be held back for gangs in the whole cluster.
        """
        gangs = (one for one in self._held.values() if one.gang and one.gang != held.gang)
        kept, ended = 0, []
        for one in sorted(gangs, key=lambda one: one.rank):
            together = kept + len(one.nodes) + len(held.nodes) <= most
            if together and not _exclude(one, held):
                kept += len(one.nodes)
            elif one.rank < held.rank:
                return None
            else:
                ended.append(one.gang)
        return ended


def _exclude(one: Hold, other: Hold) -> bool:
    """Return whether only one of the two holds may exist at a time."""
    return one.outermost == other.outermost or one.rank.namespace == other.rank.namespace


def _ends_before(ends: float | None, held: Hold) -> bool:
    return ends is not None and held.starts is not None and ends <= held.starts
