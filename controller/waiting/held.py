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

    Each hold ends after a settable time, and is followed by a pause (``controller.waiting.limits``), so that those who
    come after are served in turn with the one that waits, however long the pods in its way run.

    Nothing is taken from a pod that has its devices. If pods of lower priority are to be evicted, that is done as soon
    as no node takes a pod (``controller.loop.preempting``), and what is kept then counts more than a later hold.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from controller.waiting.order import Rank

MOST_HELD: Final = 8
"""Most nodes that are held back for single pods at a time."""


@dataclass(frozen=True, slots=True)
class HeldNode:
    """A node that is held back for a pod."""

    rank: Rank
    """Rank of the pod."""
    node: str
    ends: float
    """Latest end of the hold (monotonic seconds)."""


class HeldNodes:
    """The nodes that are held back for single pods."""

    def __init__(self) -> None:
        self._held: dict[str, HeldNode] = {}

    def __len__(self) -> int:
        """Return the number of pods with a node that is held back for them."""
        return len(self._held)

    def is_full(self, namespace: str, most: int) -> bool:
        """Return whether no further node may be held back, in all or for pods of the namespace.

        Args:
            most: how many nodes may be held back in the whole cluster.
        """
        most = min(most, MOST_HELD)
        own = sum(one.rank.namespace == namespace for one in self._held.values())
        return len(self._held) >= most or own >= max(1, most // 2)

    def of(self, pod: str) -> HeldNode | None:
        """Return the hold of the pod; None if there is none."""
        return self._held.get(pod)

    def hold(self, held: HeldNode) -> None:
        """Hold a node back for a pod, from every pod that comes after it."""
        self._held[held.rank.pod] = held

    def end(self, pod: str) -> str:
        """End the hold of the pod; return its node, "" if there was none."""
        return self._held.pop(pod).node if pod in self._held else ""

    def holders(self, node: str) -> list[str]:
        """Return the pods for which the node is held back; for "" all pods with a hold."""
        return [pod for pod, one in self._held.items() if node in ("", one.node)]

    @property
    def held(self) -> Collection[HeldNode]:
        """All holds for single pods."""
        return self._held.values()

    def from_pod(self, rank: Rank) -> Mapping[str, str]:
        """Return the nodes that are held back from a pod, each with the pod that it is held back for."""
        ordered = sorted(self._held.values(), key=lambda one: (one.rank, one.node), reverse=True)
        return {one.node: one.rank.pod for one in ordered if one.rank < rank}


@dataclass(frozen=True, slots=True)
class HeldDomain:
    """Nodes that are held back for a gang."""

    gang: str
    """Key of the gang."""
    rank: Rank
    """Rank of the gang."""
    outermost: str
    """The outermost domain of the nodes; "" for the whole cluster."""
    nodes: frozenset[str]
    ends: float = inf
    """Latest end of the hold (monotonic seconds)."""
    nodes_without_devices: frozenset[str] = frozenset()
    """The nodes of members without devices. They are not held back."""
    starts: float | None = None
    """Latest start of the gang there (monotonic seconds), if the deadlines of pods tell it; else None."""

    @property
    def all_nodes(self) -> frozenset[str]:
        """Every node where a member would go."""
        return self.nodes | self.nodes_without_devices

    def predicting(self, starts: float | None, now: float) -> "HeldDomain":
        """Return the hold with another prediction, made at ``now`` (monotonic seconds).

        A prediction is put off only when it has passed, so pods that use the nodes meanwhile never delay the gang by
        turns.
        """
        if self.starts is not None and self.starts > now:
            starts = self.starts if starts is None else min(starts, self.starts)
        return replace(self, starts=starts)


class HeldDomains:
    """The nodes that are held back for gangs."""

    def __init__(self) -> None:
        self._held: dict[str, HeldDomain] = {}

    @property
    def count(self) -> int:
        """The number of nodes that are held back."""
        return sum(len(one.nodes) for one in self._held.values())

    @property
    def held(self) -> Collection[HeldDomain]:
        """All holds for gangs."""
        return self._held.values()

    def of(self, gang: str) -> HeldDomain | None:
        """Return the hold of the gang; None if there is none."""
        return self._held.get(gang)

    def displaced(self, held: HeldDomain, most: int) -> Sequence[str] | None:
        """Return the gangs whose holds would have to end for this one; None if it may not be made.

        Args:
            most: how many nodes may be held back in the whole cluster.
        """
        others = sorted((one for one in self._held.values() if one.gang != held.gang), key=lambda one: one.rank)
        kept, ended = 0, []
        for one in others:
            together = kept + len(one.nodes) + len(held.nodes) <= most
            if together and not _exclude(one, held):
                kept += len(one.nodes)
            elif one.rank < held.rank:
                return None
            else:
                ended.append(one.gang)
        return ended

    def hold(self, held: HeldDomain) -> None:
        """Hold nodes back for a gang. The holds of gangs that are ``displaced`` have to be ended."""
        self._held[held.gang] = held

    def end(self, gang: str) -> frozenset[str]:
        """End the hold of the gang; return its nodes."""
        held = self._held.pop(gang, None)
        return held.nodes if held else frozenset()

    def on(self, nodes: Collection[str]) -> list[str]:
        """Return the gangs for which one of these nodes is held back; all gangs with a hold if "" is one of them."""
        return [gang for gang, held in self._held.items() if "" in nodes or not held.nodes.isdisjoint(nodes)]

    def from_pod(self, rank: Rank, ends: float | None = None, gang: str = "") -> Mapping[str, str]:
        """Return the nodes that are held back from a pod, each with ``gang <key>`` of its gang.

        Args:
            ends: when (monotonic seconds) the pod has ended at the latest, if it is placed now; None if no deadline
                tells.
            gang: of the pod, from which its own nodes are not held back.
        """
        ordered = sorted(self._held.values(), key=lambda one: one.rank, reverse=True)
        closed = [one for one in ordered if one.gang != gang and one.rank < rank and not _ends_before(ends, one)]
        return {node: f"gang {one.gang}" for one in closed for node in sorted(one.nodes)}


def _exclude(one: HeldDomain, other: HeldDomain) -> bool:
    """Return whether only one of the two holds may exist at a time."""
    return one.outermost == other.outermost or one.rank.namespace == other.rank.namespace


def _ends_before(ends: float | None, held: HeldDomain) -> bool:
    return ends is not None and held.starts is not None and ends <= held.starts
