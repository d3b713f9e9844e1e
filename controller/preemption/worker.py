"""Makes room for pods of higher priority: asks whom to evict next, and keeps what is freed for them."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from controller.gangs import Gang, choose
from controller.placement import PodDemand
from controller.preemption.evictions import make_room, waiting_pod
from controller.preemption.occupancy import Occupancy, Occupants, VictimLimits, overdue_at
from controller.preemption.values import Unevicted
from controller.reconcile import DecisionContext, NodeRestrictions, PlacementHistory, decide_gang, known_gang
from controller.reconcile.decisions import Decision, GangDecision, MakeRoom, PlacePod, PodRefusal, Wait, is_recorded
from controller.reconcile.prospects import fits_without_later_pods
from controller.refusal import AskedInVain, Refusal
from controller.state import Changes, PodView
from controller.state.kept_places import KeptPlace
from controller.waiting import rank_of
from controller.worker import Shared, Worker
from controller.writing import NotEvicted, Obstacle
from driver.backoff import delay

_MOST_IN_VAIN: Final = 1024
_MOST_PAUSE_SECONDS: Final = 1.0
"""Longest pause before another pod is evicted in place of one whose eviction was refused."""
SPARED_SECONDS: Final = 30.0
"""How long a pod is no victim after a refusal, at first."""
LONGEST_SECONDS: Final = 3600.0
"""How long after many, one after the other, that were not a budget's."""
_BUDGET: Final = "are kept by a PodDisruptionBudget, as the API server says"
_REFUSED: Final = "are kept by a webhook or policy, as the API server says"


class Preempting(Worker):
    """The pods and gangs for which others are evicted.

    Nothing of it outlives a term but the kept places that are recorded on pods: each is a node that a pod is nominated
    for with our condition ``Preempting``.
    """

    def __init__(self, shared: Shared, occupants: Occupants):
        super().__init__(shared)
        self._settings = shared.settings.preemption
        self._occupants = occupants
        self._spared = SparedVictims()
        self._paused_until = 0.0
        self._asked: dict[str, frozenset[str]] = {}
        """The pods (UIDs) of which the API server has said that they may go, by the pod or gang that they are for."""
        self._unbound: dict[str, None] = {}
        """Pods that wait until pods of lower priority are bound, which may be victims then."""
        self._unpublished: dict[str, int] = {}
        """Pods that wait until others publish devices, as of a version of what is published."""
        self._behind: dict[str, None] = {}
        """Pods for which nobody is evicted while places are kept for others, which may end."""
        self._bindings = 0
        self._in_vain = AskedInVain(_MOST_IN_VAIN)
        """The shapes and priorities, and the gangs, for which nobody is evicted while these nodes are closed to them,
        as of a version of nodes, budgets, bindings and refusals."""

    def restrict(self, restrictions: NodeRestrictions, pods: Collection[str]) -> NodeRestrictions:
        """Return the restrictions of a decision about these pods (keys), which leave no place for which others were
        evicted."""
        kept = {pod: place for pod in pods if (place := self._state.kept_places.for_pod(pod)) is not None}
        nodes = {pod: place.node for pod, place in kept.items() if place.evicts}
        return replace(restrictions, kept_places=nodes) if nodes else restrictions

    def party_of(self, pod: PodView) -> tuple[Collection[str], int]:
        """Return the pods that get their places together, a pod or all members of its gang, and the least priority."""
        gang = self._state.gangs.gang_of(pod.key) if self._state.kept_places else ""
        members = self._state.gangs.members(gang) if gang else ()
        return members or (pod.key,), min((self._state.pods[key].priority for key in members), default=pod.priority)

    def eviction_for(
        self, pod: PodView, answer: PodRefusal, history: PlacementHistory, context: DecisionContext
    ) -> MakeRoom | PodRefusal | Wait:
        """Return the next step to make room for a pod that no node takes, or the answer. Its kept places are open."""
        now, state = self._clock.monotonic(), self._state
        # For whom fewer nodes are held back, there may be somebody to evict.
        question = answer.why
        shape = None if question.own else (question.shape, pod.priority, frozenset(context.restrictions.held))
        found = self._next_steps([pod], shape, lambda: waiting_pod(state, pod.key, now, history, context))
        if not isinstance(found, Refusal):
            return found[pod.key]
        if found.why.over_quota is not None:
            return replace(found.why.over_quota, group=(question.group, pod.priority))
        return replace(answer, why=replace(question, own=pod.key)) if found.why.unpublished else answer

    def evictions_for_gang(self, decision: GangDecision) -> GangDecision:
        """Return the decision about a gang with the next step to make room, if no domain takes it. Its kept places are
        open."""
        asked, refusal = decision.asked, decision.refusal
        if asked is None or refusal is None or refusal.after is not None:
            return decision
        keys = tuple(member.demand.key for member in asked.members)
        pods = [pod for key in keys if (pod := self._state.pods.get(key)) is not None]
        if not pods or not (decision.decided or any(map(self._state.kept_places.for_pod, keys))):
            return decision
        own = any(answer.why.refused for answer in decision.lacking)
        avoided = frozenset[str]().union(*(member.demand.avoid for member in asked.members))
        found = self._next_steps(pods, None if own else (asked.key, keys, asked.minimum, avoided), lambda: asked)
        if not isinstance(found, Refusal):
            # What members hold that have devices already stays: the others get theirs beside it.
            standing = {one.pod for one in asked.standing}
            others = {key: one for key, one in decision.members.items() if key not in standing}
            return replace(decision, members={**others, **found}, lacking=(), decided=True)
        if found.why.over_quota is not None:
            waits = dict.fromkeys(keys, found.why.over_quota)
            return replace(decision, members={**decision.members, **waits}, lacking=())
        return decision

    def _next_steps(
        self, pods: Sequence[PodView], shape: Hashable, wanted: Callable[[], PodDemand | Gang | None]
    ) -> Mapping[str, MakeRoom] | Refusal[Unevicted]:
        """Return the next step for each of the pods, which get their places together; or why nobody is evicted.

        Args:
            shape: equal for those for whom nobody is evicted for the same reasons; None if that is not known.
            wanted: says what they ask for. It is called if others may be evicted for them.
        """
        now = self._clock.monotonic()
        if not self._may_look(pods, shape, now):
            return Refusal(pods[0].key, Unevicted())
        asked = wanted()
        found = make_room(self._state, asked, self._occupancy(now)) if asked else Refusal(pods[0].key, Unevicted())
        if isinstance(found, Refusal):
            if found.why.over_quota is None:
                self._found_none(pods[0], found.why, None if found.why.unpublished else shape)
            return found
        if not any(one.victims or one.awaited for one in found.values()):
            # Nobody has to end: so this place is there for others of higher rank, too, and each gets it in its turn.
            return Refusal(pods[0].key, Unevicted())
        return {key: self._not_asked_twice(one) for key, one in found.items()}

    def _not_asked_twice(self, found: MakeRoom) -> MakeRoom:
        """Return the step without the question whether all may be evicted, if the API server has answered it."""
        asked = self._asked.get(self._party(found.place.pod), frozenset())
        return replace(found, party=()) if asked.issuperset(one.uid for one in found.party) else found

    def _party(self, pod: str) -> str:
        """Return by what name those are known that get their places together: the gang of the pod, or the pod."""
        return self._state.gangs.gang_of(pod) or pod

    def could_make_room(self, answer: PodRefusal, node: str, priority: int) -> bool:
        """Return whether the node might take the pod if pods below this priority were evicted there. Its kept places
        are open."""
        pod = self._state.pods.get(answer.subject)
        if pod is None or not self._may_preempt(pod):
            return False
        return fits_without_later_pods(self._state, answer, node, lambda other: other.priority < priority)

    def _may_look(self, pods: Collection[PodView], shape: Hashable, now: float) -> bool:
        """Return whether others may be evicted for all of these pods now, as far as that is known without looking."""
        if not all(map(self._may_preempt, pods)):
            return False
        # Without the right to evict, every eviction would be refused, and each refusal looks like news.
        if now < self._paused_until:
            self._queue.add(("pod", next(iter(pods)).key), self._paused_until)
            return False
        self._spared.at(now)
        if shape is None or not self._in_vain.holds(shape, self._version):
            return True
        self._await_spared(next(iter(pods)), now)
        return False

    def _found_none(self, pod: PodView, why: Unevicted, shape: Hashable) -> None:
        """Take in that nobody is evicted for a pod, nor for others of its shape; or that this may change soon."""
        if why.unbound:
            self._unbound[pod.key] = None
        if why.unpublished:
            self._unpublished[pod.key] = self._state.devices.published
        if self._state.kept_places:
            self._behind[pod.key] = None
        self._await_spared(pod, self._clock.monotonic())
        if shape is not None:
            self._in_vain.remember(shape, self._version)

    def _await_spared(self, pod: PodView, now: float) -> None:
        """Have the pod decided again when the next victim is spared no longer."""
        lapse = self._spared.next_change(now)
        if lapse is not None:
            self._queue.add(("pod", pod.key), lapse)

    @property
    def _version(self) -> tuple[int, ...]:
        # Of a shape for which nobody is evicted there may be thousands. The next is looked at when one of these has
        # changed: nodes and what is used there, budgets, pods that may be victims since they are bound, and refusals.
        return self._state.nodes.generation, self._state.budgets.changes, self._bindings, self._spared.changes

    def _may_preempt(self, pod: PodView) -> bool:
        chosen = self._settings.priority_classes
        return (
            self._settings.enabled
            and self._state.budgets.readable
            and pod.needs.preempts
            and (not chosen or pod.priority_class in chosen)
        )

    def _occupancy(self, now: float) -> Occupancy:
        return self._occupants.at(now, VictimLimits(self._settings.longest_grace_seconds, self._spared.at(now)))

    # Kept places

    def restore(self) -> None:
        """Keep the places again that pods have recorded, at the start of a term. Nobody is evicted by that."""
        if not self._settings.enabled:
            return
        now = self._clock.monotonic()
        pods = [pod for pod in self._state.pods.values() if pod.nominated]
        recorded = {pod.key: pod.nominated for pod in pods if is_recorded(self._state, pod, pod.nominated)}
        begun: dict[str, None] = {}
        # In the order of ranks, as they were made: what is kept for the first is not there for the next
        # (test_a_restart_in_the_middle_of_a_burst_changes_nothing).
        for pod in sorted((self._state.pods[key] for key in recorded), key=partial(rank_of, self._state)):
            if (party := self._party(pod.key)) not in begun:
                begun[party] = None
                for place in self._recorded_places(pod, recorded, now):
                    self._state.keep_place(place)

    def _recorded_places(self, pod: PodView, recorded: Mapping[str, str], now: float) -> Collection[KeptPlace]:
        """Return what is kept for a pod that has recorded that others are evicted for it, or for its whole gang."""
        context, state = DecisionContext(NodeRestrictions(kept_places=recorded)), self._state
        gang = known_gang(state, key) if (key := state.gangs.gang_of(pod.key)) else None
        members = [member.pod for member in gang.members] if gang else [pod.key]
        with state.kept_places.open_to(members, min(state.pods[member].priority for member in members)):
            wanted = (
                decide_gang(state, gang, now, lambda asked: choose(asked, state.cluster), context=context).asked
                if gang
                else waiting_pod(state, pod.key, now, context=context)
            )
            found = make_room(state, wanted, self._occupancy(now)) if wanted else {}
        return () if isinstance(found, Refusal) else [one.place for one in found.values()]

    def keep(self, pod: PodView, decision: MakeRoom, changes: Changes) -> None:
        """Keep the place of the decision for the pod, and look again when somebody outlasts its grace."""
        # While a victim held the whole card, a share that is kept of it counted as the whole card, too. When it has
        # ended, others may have the rest
        # (test_when_the_victim_of_a_whole_card_has_ended_others_get_what_remains_of_that_card).
        if self._state.kept_places.counts_too_much(pod.key):
            changes.add(self._state.end_place(pod.key))
        before = self._state.kept_places.for_pod(pod.key)
        if before != decision.place:
            changes.add(self._state.keep_place(decision.place))
        if before is not None and before.node != decision.place.node:
            self._try_those_behind()
        awaited = map(self._state.pods.get, decision.awaited)
        due = [overdue_at(self._state, one) for one in awaited if one is not None and one.deleting]
        if due:
            self._queue.add(("pod", pod.key), min(due))

    def evicted(self, decision: MakeRoom) -> None:
        """Take in that the first pod of the decision was evicted, and that the others may be."""
        if decision.party:
            self._asked[self._party(decision.place.pod)] = frozenset(one.uid for one in decision.party)

    def end(self, pod: str, changes: Changes, decision: Decision | None = None) -> bool:
        """Give back what is kept for a pod (key); return whether there was anything.

        Args:
            decision: about the pod, which may get what was kept; None if the pod is gone.
        """
        place = self._state.kept_places.for_pod(pod)
        if place is None:
            return False
        self._asked.pop(self._party(pod), None)
        changes.add(self._state.end_place(pod))
        if not (isinstance(decision, PlacePod) and decision.node == place.node):
            self._try_those_behind()
        self._log.info("place kept no longer", preemptor=pod, node=place.node)
        return True

    def _try_those_behind(self) -> None:
        """Have those decided again for which others may be evicted now that a kept place is given back."""
        behind, self._behind = self._behind, {}
        self._queue.soon("pod", behind)

    def recheck(self, nodes: Collection[str], but: str = "") -> None:
        """Have those pods decided again for which a place is kept on one of these nodes, except for one."""
        self._queue.soon("pod", [pod for pod in self._state.kept_places.on(nodes) if pod != but])

    def note(self, changes: Changes) -> None:
        """Have those decided again whose kept place has changed, and those for which a pod may go that was bound."""
        self.recheck(changes.favoured)
        if changes.favoured and (movable := self._state.kept_places.movable()):
            # One for each node is enough: if it leaves its place, that is a change, too.
            known = [one for key in movable if (one := self._state.pods.get(key)) is not None]
            first = sorted(known, key=partial(rank_of, self._state))[: len(changes.favoured)]
            self._queue.soon("pod", [owner.key for owner in first])
        if changes.favoured and self._unpublished:
            self._try_unpublished()
        if not changes.bound:
            return
        self._bindings += 1
        waiting, self._unbound = self._unbound, {}
        self._queue.soon("pod", waiting)

    def _try_unpublished(self) -> None:
        """Have those decided again that wait for devices of others, if anything was published since."""
        version = self._state.devices.published
        waiting = {pod: known for pod, known in self._unpublished.items() if pod in self._state.pods}
        self._unpublished = {pod: known for pod, known in waiting.items() if known == version}
        self._queue.soon("pod", [pod for pod in waiting if pod not in self._unpublished])

    # Refusals

    def refused(self, error: NotEvicted, pause: float) -> float:
        """Take in that a pod was not evicted; return after how many seconds its preemptor is decided again.

        The pod is no victim for a while, and nobody else is concerned. Without the right to evict, nobody is evicted.

        Args:
            pause: seconds for which nobody is evicted then.
        """
        now = self._clock.monotonic()
        match error.why:
            case Obstacle.BUDGET:
                self._spared.by_budget(error.victim.uid, now)
                return 0
            case Obstacle.RIGHTS:
                self._paused_until = now + pause
                return pause
            case Obstacle.OTHER:
                self._spared.refused(error.victim.uid, now)
                return min(pause, _MOST_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Refused:
    until: float
    reason: str
    times: int = 0


class SparedVictims:
    """The pods whose eviction was refused. Times are monotonic seconds.

    Attributes:
        changes: grows with each pod that is spared, and each that is spared no longer.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._refused: dict[str, _Refused] = {}
        self._spared: dict[str, str] = {}

    def by_budget(self, pod: str, now: float) -> None:
        """Spare a pod (UID) that a budget does not let go. Whoever wrote the budget may change it at any time."""
        self._put(pod, _Refused(now + SPARED_SECONDS, _BUDGET))

    def refused(self, pod: str, now: float) -> None:
        """Spare a pod (UID) whose eviction was refused for another reason: each time for longer."""
        before = self._refused.get(pod)
        times = 1 if before is None else before.times + 1
        seconds = delay(times, base=SPARED_SECONDS, bound=LONGEST_SECONDS)
        self._put(pod, _Refused(now + seconds, _REFUSED, times))

    def at(self, now: float) -> Mapping[str, str]:
        """Return the pods (UIDs) that are spared, each with the reason, as a clause about pods."""
        # A refusal that is long past counts no more: the next one is the first again.
        self._refused = {uid: one for uid, one in self._refused.items() if one.until + LONGEST_SECONDS > now}
        spared = {uid: one.reason for uid, one in self._refused.items() if one.until > now}
        if spared.keys() != self._spared.keys():
            self.changes += 1
        self._spared = spared
        return spared

    def next_change(self, now: float) -> float | None:
        """Return when the next pod is spared no longer; None if none is."""
        return min((one.until for one in self._refused.values() if one.until > now), default=None)

    def _put(self, pod: str, refused: _Refused) -> None:
        self._refused[pod] = refused
        self._spared[pod] = refused.reason
        self.changes += 1
