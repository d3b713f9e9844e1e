"""Nodes that are held back for gangs that have waited long (``controller.waiting.held`` has the rule)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from controller.gangs import GangPlan
from controller.loop.podwaits import PodWaits
from controller.loop.queue import Key, KeyedQueue
from controller.reconcile import GangDecision, NodeOrder, predicted_start, start_without
from controller.state import PodView, State
from controller.waiting import HeldDomain, Rank, rank_of, rank_of_gang
from driver.clock import Clock

Decide = Callable[[NodeOrder], GangDecision]
"""What would be decided about the gang with these nodes held back from it."""


class GangHolds:
    """Holds nodes back for gangs that wait for room.

    Args:
        hold_after: seconds that a gang waits before nodes are held back for it.
    """

    def __init__(self, state: State, queue: KeyedQueue[Key], waits: PodWaits, clock: Clock, hold_after: float):
        self._state = state
        self._queue = queue
        self._waits = waits
        self._clock = clock
        self._hold_after = hold_after
        self._since: dict[str, float] = {}
        """Since when each gang waits for room (monotonic seconds)."""
        self._again: dict[str, float] = {}
        """When nodes to hold back are looked for again (monotonic seconds): to find none costs most."""

    def waits(self, gang: str, pods: Sequence[PodView], order: NodeOrder, decide: Decide) -> None:
        """The gang waits for room: hold nodes back if it has waited long, or end that if it could not start there."""
        now, rank = self._clock.monotonic(), rank_of_gang(pods)
        due = self._since.setdefault(gang, now) + self._hold_after
        if now < due:
            self._queue.add(("gang", gang), due)
            return
        if (held := self._waits.domains.of(gang)) and self._start(rank, order, decide, held.nodes):
            self._predict(replace(held, rank=rank), order, decide)
            return
        self._waits.end_domain(gang)
        if now < self._again.get(gang, now):
            return
        self._again[gang] = now + self._hold_after
        if found := self._start(rank, order, decide):
            nodes = frozenset(placement.node for placement in found.placements)
            outermost = found.domain.path[0][1] if found.domain.path else ""
            self._predict(HeldDomain(gang, rank, outermost, nodes), order, decide)

    def end(self, gang: str) -> None:
        """The gang waits for room no longer."""
        self._since.pop(gang, None)
        self._again.pop(gang, None)
        self._waits.end_domain(gang)

    def _start(
        self, rank: Rank, order: NodeOrder, decide: Decide, among: Collection[str] | None = None
    ) -> GangPlan | None:
        """Where the gang would start if pods ended: those that come after it, or all of no higher priority."""
        order = order if among is None else self._only(among, order)
        for ends in (lambda pod: rank_of(pod) > rank, lambda pod: rank_of(pod).below >= rank.below):
            if found := start_without(self._state, ends, lambda: decide(order), among):
                return found
        return None

    def _predict(self, held: HeldDomain, order: NodeOrder, decide: Decide) -> None:
        """Hold the nodes back, and say from when on the gang can use them."""
        order = self._only(held.nodes, order)
        starts = predicted_start(self._state, held.nodes, lambda: decide(order))
        self._waits.hold_domain(held.predicting(starts, self._clock.now()))

    def _only(self, nodes: Collection[str], order: NodeOrder) -> NodeOrder:
        """The order with all other nodes held back."""
        others = {name: "" for name in self._state.nodes if name not in nodes}
        return replace(order, held={**order.held, **others})
