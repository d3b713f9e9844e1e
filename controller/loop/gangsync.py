"""Decides about one gang at a time, and has the decisions about its members carried out."""

from collections.abc import Mapping

from controller.autoscaling import NodeWishes
from controller.gangs import STEPS, GangPlan, Memory, SearchOptions, Unfinished, choose
from controller.loop.holds import GangHolds, Holds
from controller.loop.podsync import PodSync
from controller.loop.waiting import WaitingPods
from controller.preemption.worker import Preempting
from controller.reconcile import DecisionContext, NodeRestrictions, decide_gang, known_gang
from controller.reconcile.decisions import GangDecision, MakeRoom, Reason, TakeBack, Wait
from controller.reconcile.demand import ANY_NODE
from controller.reconcile.gangmembers import KnownGang
from controller.reconcile.gangs import Choose, places_for_later
from controller.state import Changes
from controller.worker import Shared, Worker
from controller.worker.metrics import DecisionOutcome
from driver.backoff import delay

_MOST_DOUBLINGS = 2
"""A search for a domain that is not finished is followed by one of twice as many steps, up to so many times.

Searches for devices on a node become longer with it (``choose``). Further ones go on where the last one ended, as long
as nothing changes in the domain.
A step of members that are all unlike takes a tenth of a millisecond, so a decision keeps others waiting for less than a
second.
"""


class GangSync(Worker):
    """Syncs gangs, one decision at a time; each member's decision is carried out as for any pod."""

    def __init__(
        self,
        shared: Shared,
        *,
        preempting: Preempting,
        waiting: WaitingPods,
        holds: Holds,
        wishes: NodeWishes,
        pods: PodSync,
    ):
        super().__init__(shared)
        self._max_wait = shared.settings.max_retry_seconds
        self._wishes = wishes
        self._preempting = preempting
        self._waiting = waiting
        self._holds = GangHolds(shared, holds)
        self._pods = pods
        self._memory = Memory()
        self._unfinished: dict[str, Unfinished] = {}
        """Searches that were not finished since members were placed last, by gang.

        A search that needed many steps needs them again; otherwise the gang would be reported as undecided each time.
        """
        self._expected: dict[str, tuple[str, ...]] = {}
        """Members of each gang that need no claim and have a place by the last decision."""
        self._taken_back: set[str] = set()
        """Gangs that were reported to have lost their devices, and that were not placed since."""

    def note(self, changes: Changes) -> None:
        """Have the gangs decided about that have changed; pods stand for theirs."""
        now = self._clock.monotonic()
        for gang in changes.gangs:
            self._queue.add_changed(gang, now)

    def sync(self, key: str, changes: Changes) -> DecisionOutcome | None:
        """Decide about the gang ``key``, and have the decision carried out.

        Args:
            changes: takes in the objects that have to be looked at again.

        Returns:
            The outcome; None if writes are under way, so that nothing could be decided.
        """
        if self._queue.is_busy(key):
            # Each of its pods is looked at again when the writes have ended.
            return None
        freed = self._state.expect(dict.fromkeys(self._expected.pop(key, ()), ""))
        gang = known_gang(self._state, key)
        pods = [self._state.pods[member.pod] for member in gang.members]
        if not pods:
            self._unfinished.pop(key, None)
            self._taken_back.discard(key)
            self._holds.end(key)
            self._queue.gone(key)
            changes.add(freed)
            return DecisionOutcome.GANG_GONE
        self._queue.decided(key)
        restrictions = self._holds.restrictions(key)
        decision = self._decide_or_make_room(gang, restrictions)
        if not _is_pause(decision):
            others = [pod.key for pod in pods if not isinstance(decision.members.get(pod.key), MakeRoom)]
            ended = [pod for pod in others if self._preempting.end(pod, changes, decision.members.get(pod))]
            if ended and not decision.makes_room and decision.refusal is not None:
                decision = self._decide_or_make_room(gang, restrictions)
        if decision.plan is None:
            changes.add(freed)
        else:
            self._expect(key, decision.plan)
        wishes = self._wishes.wishes_of_gang(gang, decision, lambda: self._decide(gang, ANY_NODE).plan is not None)
        self._carry_out(key, decision, changes, wishes)
        self._try_again(key, decision)
        runs = any(pod.node_name for pod in pods)
        if gang.later and (decision.started or (self._holds.reserves(key) and not decision.lacking)):
            self._holds.reserve(key, pods, gang.later, lambda: self._places_for_later(gang, restrictions))
        elif decision.plan is None and decision.lacking and decision.decided and not runs:
            self._holds.waits(key, pods, restrictions, lambda restrictions: self._decide(gang, restrictions))
        else:
            self._holds.end(key, placed=decision.plan is not None or runs)
        return DecisionOutcome.GANG_DECIDED

    def _decide_or_make_room(self, gang: KnownGang, restrictions: NodeRestrictions) -> GangDecision:
        """Decide about the gang, with the places that are kept for it; whom to evict for it if no domain takes it."""
        members = [member.pod for member in gang.members]
        priority = min(self._state.pods[pod].priority for pod in members)
        with_kept = self._preempting.restrict(restrictions, members)
        with self._state.kept_places.open_to(members) as opened:
            if opened:
                # What others were refused is no answer for a gang that sees more places than they do.
                decision = self._decide(gang, with_kept, self._chooser(gang.key, None, Memory()))
            else:
                decision = self._decide(gang, restrictions, self._chooser(gang.key, self._unfinished.get(gang.key)))
        if decision.refusal is None:
            return decision
        # What is kept for lower priorities is taken only if there is no other place.
        with self._state.kept_places.open_to(members, priority) as opened:
            if opened:
                decision = self._decide(gang, with_kept, self._chooser(gang.key, None, Memory()))
            return self._preempting.evictions_for_gang(decision) if self._pods.may_evict_for(members) else decision

    def _decide(self, gang: KnownGang, restrictions: NodeRestrictions, choose: Choose | None = None) -> GangDecision:
        return decide_gang(
            self._state,
            gang,
            self._clock.monotonic(),
            choose or self._chooser(gang.key),
            history_of=self._pods.history_of,
            context=DecisionContext(restrictions, max_wait=self._max_wait),
        )

    def _places_for_later(self, gang: KnownGang, restrictions: NodeRestrictions) -> GangPlan | None:
        return places_for_later(
            self._state,
            gang,
            self._clock.monotonic(),
            self._chooser(gang.key),
            history_of=self._pods.history_of,
            context=DecisionContext(restrictions, max_wait=self._max_wait),
        )

    def _expect(self, key: str, plan: GangPlan) -> None:
        """Count members without claims on their nodes until they are bound. Claims make the others count."""
        pods = self._state.pods
        exist = [one for one in plan.placements if one.pod in pods]
        nodes = {one.pod: one.node for one in exist if not pods[one.pod].references}
        self._expected[key] = tuple(nodes)
        self._state.expect(nodes)

    def _chooser(self, key: str, unfinished: Unfinished | None = None, memory: Memory | None = None) -> Choose:
        tries = self._unfinished[key].tries if key in self._unfinished else 0
        budget = STEPS << min(tries, _MOST_DOUBLINGS)
        options = SearchOptions(budget, memory or self._memory, unfinished)
        return lambda gang: choose(gang, self._state.cluster, options)

    def _carry_out(self, key: str, decision: GangDecision, changes: Changes, wishes: Mapping[str, str]) -> None:
        """Carry out each member's decision; set one condition per member, and write one Event per gang."""
        if decision.plan is not None:
            self._taken_back.discard(key)
        told: set[tuple[Reason, str]] = set()
        for name, one in decision.members.items():
            event = True
            if isinstance(one, Wait):
                event = (one.reason, one.message) not in told
                told.add((one.reason, one.message))
            elif isinstance(one, TakeBack) and not one.unschedulable:
                event = key not in self._taken_back
                self._taken_back.add(key)
            pod, wish = self._state.pods[name], wishes.get(name, "")
            self._pods.carry_out_decision(pod, one, changes, event=event, wish=wish)
        for answer in decision.lacking:
            self._waiting.wait_for_node(answer)

    def _try_again(self, key: str, decision: GangDecision) -> None:
        after = decision.after
        if decision.plan is not None:
            self._unfinished.pop(key, None)
        elif not decision.decided:
            unfinished = self._unfinished.setdefault(key, Unfinished())
            unfinished.tries += 1
            pause = delay(unfinished.tries, bound=self._max_wait)
            after = pause if after is None else min(after, pause)
        if after is not None:
            self._queue.soon("gang", [key], after)


def _is_pause(decision: GangDecision) -> bool:
    """Return whether the gang is decided again in a moment, whatever happens."""
    waits = (one for one in decision.members.values() if isinstance(one, Wait))
    return any(one.reason is Reason.EVALUATING for one in waits)
