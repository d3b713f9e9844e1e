"""Decides about one gang at a time, and has what is decided about its members carried out."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from controller.gangs import STEPS, GangPlan, Memory, choose
from controller.loop.metrics import DecisionOutcome
from controller.loop.podsync import PodSync, objects_of
from controller.loop.podwaits import PodWaits
from controller.loop.queue import Key, KeyedQueue
from controller.loop.underway import Underway
from controller.reconcile import (
    Choose,
    GangDecision,
    KnownGang,
    NodeOrder,
    Reason,
    Wait,
    decide_gang,
    known_gang,
    start_without,
)
from controller.state import Changes, PodView, State
from controller.waiting import HeldDomain, Rank, rank_of, rank_of_gang
from driver.backoff import delay
from driver.clock import Clock

_MOST_DOUBLINGS = 8
"""A search for a domain that is not finished is followed by one of twice as many steps, up to so many times."""


class GangSync:
    """Syncs gangs, one decision at a time; what it means for a pod is carried out as for any pod.

    Args:
        max_wait: longest back-off in seconds.
        hold_after: seconds that a gang waits before nodes are held back for it.
    """

    def __init__(
        self,
        state: State,
        queue: KeyedQueue[Key],
        underway: Underway,
        waits: PodWaits,
        pods: PodSync,
        clock: Clock,
        max_wait: float,
        hold_after: float,
    ):
        self._state = state
        self._queue = queue
        self._underway = underway
        self._waits = waits
        self._pods = pods
        self._clock = clock
        self._max_wait = max_wait
        self._hold_after = hold_after
        self._since: dict[str, float] = {}
        """Since when each gang waits for room (monotonic seconds)."""
        self._hold_again: dict[str, float] = {}
        """When nodes to hold back are looked for again (monotonic seconds): to find none costs most."""
        self._memory = Memory()
        self._unfinished: dict[str, int] = {}
        """How many searches in a row were not finished, by gang."""
        self._busy: dict[str, str] = {}
        """A member of each gang that was being written when the gang was to be decided."""

    def sync(self, key: str, changes: Changes) -> DecisionOutcome | None:
        """Decide about the gang ``key``, and have the decision carried out.

        Args:
            changes: what has to be looked at again is added.

        Returns:
            What came of it; None if writes are under way, so that there was nothing to decide.
        """
        gang = known_gang(self._state, key)
        pods = [self._state.pods[member.pod] for member in gang.members]
        if not pods:
            self._unfinished.pop(key, None)
            self._busy.pop(key, None)
            self._end_wait(key)
            return DecisionOutcome.GANG_GONE
        if self._is_busy(key, pods):
            # Each of its pods is looked at again when the writes have ended.
            return None
        order = replace(self._waits.order(min(pods, key=rank_of)), asked=())
        decision = self._decide(gang, order)
        self._take(decision, changes)
        self._try_again(key, decision)
        self._hold(gang, pods, decision, order)
        return DecisionOutcome.GANG_DECIDED

    def _decide(self, gang: KnownGang, order: NodeOrder) -> GangDecision:
        now, histories, choose_it = self._clock.now(), self._pods.history_of, self._chooser(gang.key)
        return decide_gang(self._state, gang, now, choose_it, histories, self._max_wait, order)

    # Holding nodes back

    def _hold(self, gang: KnownGang, pods: Sequence[PodView], decision: GangDecision, order: NodeOrder) -> None:
        """Hold nodes back for a gang that has waited long, or end that if it could not start there any more."""
        if decision.plan is not None or not decision.lacking or not decision.decided or any(p.node_name for p in pods):
            self._end_wait(gang.key)
            return
        now, rank = self._clock.monotonic(), rank_of_gang(pods)
        due = self._since.setdefault(gang.key, now) + self._hold_after
        if now < due:
            self._queue.add(("gang", gang.key), due)
            return
        held = self._waits.domain_of(gang.key)
        others = {name: "" for name in self._state.nodes if held and name not in held.nodes}
        if held and self._start(gang, rank, replace(order, held={**order.held, **others}), held.nodes):
            return
        self._waits.end_domain(gang.key)
        if now < self._hold_again.get(gang.key, now):
            return
        self._hold_again[gang.key] = now + self._hold_after
        if found := self._start(gang, rank, order):
            nodes = frozenset(placement.node for placement in found.placements)
            outermost = found.domain.path[0][1] if found.domain.path else ""
            self._waits.hold_domain(HeldDomain(gang.key, rank, outermost, nodes))

    def _start(
        self, gang: KnownGang, rank: Rank, order: NodeOrder, among: Collection[str] | None = None
    ) -> GangPlan | None:
        """Where the gang would start if pods ended: those that come after it, or all of no higher priority."""
        for ends in (lambda pod: rank_of(pod) > rank, lambda pod: rank_of(pod).below >= rank.below):
            if found := start_without(self._state, ends, lambda: self._decide(gang, order), among):
                return found
        return None

    def _end_wait(self, key: str) -> None:
        self._since.pop(key, None)
        self._hold_again.pop(key, None)
        self._waits.end_domain(key)

    def _is_busy(self, key: str, pods: Sequence[PodView]) -> bool:
        """Whether an object of any member is being written. The one that was last time most likely still is."""
        last = self._state.pods.get(self._busy.get(key, ""))
        for pod in (*([last] if last else []), *pods):
            if self._underway.is_busy(objects_of(pod)):
                self._busy[key] = pod.key
                return True
        self._busy.pop(key, None)
        return False

    def _chooser(self, key: str) -> Choose:
        budget = STEPS << min(self._unfinished.get(key, 0), _MOST_DOUBLINGS)
        return lambda gang: choose(gang, self._state.devices, self._state.nodes, budget, self._memory)

    def _take(self, decision: GangDecision, changes: Changes) -> None:
        told: set[tuple[Reason, str]] = set()
        for name, one in decision.members.items():
            what = (one.reason, one.message) if isinstance(one, Wait) else None
            # What is said about a gang is in the conditions of all its members, and in one Event.
            self._pods.take(self._state.pods[name], one, changes, event=what not in told)
            told |= {what} if what else set()
        for answer in decision.lacking:
            self._waits.wait_in_gang(answer)

    def _try_again(self, key: str, decision: GangDecision) -> None:
        after = decision.after
        if decision.decided:
            self._unfinished.pop(key, None)
        else:
            self._unfinished[key] = self._unfinished.get(key, 0) + 1
            pause = delay(self._unfinished[key], bound=self._max_wait)
            after = pause if after is None else min(after, pause)
        if after is not None:
            self._queue.add(("gang", key), self._clock.monotonic() + after)
