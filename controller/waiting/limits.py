"""Limits how long, how often and how many nodes are held back. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

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
