"""Nodes that are held back for pods that have waited long, so that pods which come after them do not starve them. Pure.

The rule
    A pod that waits longer than a settable time, and that is the first of its shape, gets one node held back: pods that
    come after it (lower priority, or equal priority and younger) are not placed there. It is a node that could take the
    pod if what pods that come after it use there ended; among these, the one with the fewest such pods, then the first
    by name. At most ``MOST_HELD`` nodes are held back at a time. It ends when the pod is placed or gone, or when the
    node cannot take it any more, even without the pods that come after it.

    A gang that waits that long gets the nodes on which it could start if the pods that come after it ended, or if these
    do not suffice, all pods of no higher priority: pods that run end some day. In each outermost domain, nodes are held
    back for one gang at a time, the first of those that wait. Pods that come after it may use them if they have ended
    before the gang can start: their deadline says when that is at the latest, and the deadlines of the pods that are in
    the gang's way say when it can start.

    Nothing is taken from a pod that has its devices. Preemption of devices would be decided where a node is chosen to
    be held back: the pods that come after on it would be the victims.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.waiting.order import Rank

MOST_HELD: Final = 8
"""Nodes that are held back at a time."""


class HeldNodes:
    """Which node is held back for which pod."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Rank, str]] = {}

    def __len__(self) -> int:
        """How many pods have a node that is held back for them."""
        return len(self._held)

    @property
    def full(self) -> bool:
        """Whether as many nodes are held back as may be."""
        return len(self._held) >= MOST_HELD

    def node_of(self, pod: str) -> str:
        """The node that is held back for the pod; "" if none is."""
        return self._held[pod][1] if pod in self._held else ""

    def hold(self, rank: Rank, node: str) -> None:
        """Hold the node back for the pod, from every pod that comes after it."""
        self._held[rank.pod] = rank, node

    def end(self, pod: str) -> str:
        """Hold nothing back for the pod any more; returns the node that was held back, "" if none was."""
        return self._held.pop(pod)[1] if pod in self._held else ""

    def holders(self, node: str) -> list[str]:
        """The pods for which the node is held back; for "" all pods with one."""
        return [pod for pod, (_, held) in self._held.items() if node in ("", held)]

    def from_pod(self, rank: Rank) -> Mapping[str, str]:
        """The nodes that are held back from a pod, and the pod that each is held back for."""
        return {node: first.pod for first, node in sorted(self._held.values(), reverse=True) if first < rank}


@dataclass(frozen=True, slots=True)
class HeldDomain:
    """Nodes that are held back for a gang."""

    gang: str
    """Key."""
    rank: Rank
    """Of the gang."""
    outermost: str
    """The outermost domain of the nodes; "" for the whole cluster."""
    nodes: frozenset[str]
    starts: float | None = None
    """When the gang can start there at the latest (epoch seconds), if the deadlines of pods tell; else None."""

    def predicting(self, starts: float | None, now: float) -> "HeldDomain":
        """The same with another prediction, made at ``now`` (epoch seconds).

        A prediction is put off only when it has passed, so pods that use the nodes meanwhile never delay the gang by
        turns.
        """
        if self.starts is not None and self.starts > now:
            starts = self.starts if starts is None else min(starts, self.starts)
        return replace(self, starts=starts)


class HeldDomains:
    """Which nodes are held back for which gang."""

    def __init__(self) -> None:
        self._held: dict[str, HeldDomain] = {}

    @property
    def count(self) -> int:
        """How many nodes are held back."""
        return sum(len(one.nodes) for one in self._held.values())

    @property
    def held(self) -> Collection[HeldDomain]:
        """What is held back."""
        return self._held.values()

    def of(self, gang: str) -> HeldDomain | None:
        """What is held back for the gang."""
        return self._held.get(gang)

    def hold(self, held: HeldDomain) -> bool:
        """Hold nodes back for a gang; False if some of the outermost domain are for a gang that comes first."""
        others = [one for one in self._held.values() if one.outermost == held.outermost and one.gang != held.gang]
        if any(one.rank < held.rank for one in others):
            return False
        for one in others:
            del self._held[one.gang]
        self._held[held.gang] = held
        return True

    def end(self, gang: str) -> frozenset[str]:
        """Hold nothing back for the gang any more; returns the nodes that were held back."""
        held = self._held.pop(gang, None)
        return held.nodes if held else frozenset()

    def on(self, nodes: Collection[str]) -> list[str]:
        """The gangs for which one of these nodes is held back; all gangs with nodes if "" is one of them."""
        return [gang for gang, held in self._held.items() if "" in nodes or not held.nodes.isdisjoint(nodes)]

    def from_pod(self, rank: Rank, ends: float | None = None, gang: str = "") -> Mapping[str, str]:
        """The nodes that are held back from a pod, and ``gang <key>`` of the gang that each is held back for.

        Args:
            ends: when (epoch seconds) the pod has ended at the latest, if it is placed now; None if nothing tells.
            gang: of the pod, from which its own nodes are not held back.
        """
        ordered = sorted(self._held.values(), key=lambda one: one.rank, reverse=True)
        closed = [one for one in ordered if one.gang != gang and one.rank < rank and not _ends_before(ends, one)]
        return {node: f"gang {one.gang}" for one in closed for node in sorted(one.nodes)}


def _ends_before(ends: float | None, held: HeldDomain) -> bool:
    return ends is not None and held.starts is not None and ends <= held.starts
