"""Makes room for pods of higher priority: asks whom to evict next, and keeps what is freed for them."""

from collections.abc import Collection, Hashable
from dataclasses import replace
from functools import partial
from typing import Final

from controller.loop.turns import Turns
from controller.reconcile import (
    NO_HISTORY,
    DecisionContext,
    MakeRoom,
    NodeRestrictions,
    NoRoom,
    PlacementHistory,
    Unallocatable,
    is_recorded,
    make_room,
    overdue_at,
)
from controller.state import Changes, PodView, State
from controller.waiting import rank_of
from driver.bounded import BoundedCache
from driver.clock import Clock
from driver.observe import Logger
from driver.settings import PreemptionSettings

_REFUSED_SECONDS: Final = 30.0
"""How long a pod is no victim after the API server refused its eviction."""
_REFUSED: Final = "are kept by a PodDisruptionBudget, as the API server says"
_MOST_IN_VAIN: Final = 1024


class Preempting:
    """The pods for which others are evicted.

    Nothing of it outlives a term but the rooms that are recorded on pods: a room is a node that a pod is nominated for
    with our condition ``Preempting``.
    """

    def __init__(self, state: State, queue: Turns, clock: Clock, log: Logger, settings: PreemptionSettings):
        self._state = state
        self._queue = queue
        self._clock = clock
        self._log = log
        self._settings = settings
        self._spared: dict[str, float] = {}
        """When pods (UIDs) may be victims again whose eviction was refused (monotonic seconds)."""
        self._paused_until = 0.0
        self._in_vain: BoundedCache[Hashable, tuple[int, int]] = BoundedCache(_MOST_IN_VAIN)
        """The shapes and priorities for which nobody is evicted, as of a generation of nodes and budgets."""

    def context_of(self, pod: str, context: DecisionContext) -> DecisionContext:
        """Return the context of a decision about a pod (key), which leaves its room for no other place."""
        room = self._state.rooms.of(pod)
        if room is None:
            return context
        # A hold that began later does not undo an eviction.
        held = {node: holder for node, holder in context.restrictions.held.items() if node != room.node}
        return replace(context, restrictions=replace(context.restrictions, held=held, only=frozenset({room.node})))

    def room_for(
        self, pod: PodView, answer: Unallocatable, history: PlacementHistory, context: DecisionContext
    ) -> MakeRoom | Unallocatable:
        """Return the next step to make room for a pod that no node takes, or the answer. Its rooms are open."""
        now = self._clock.monotonic()
        shape, as_of = (answer.shape, pod.priority), (self._state.nodes.generation, self._state.budgets.changes)
        if not self._may_preempt(pod):
            return answer
        if now < self._paused_until:
            self._queue.add(("pod", pod.key), self._paused_until)
            return answer
        if not answer.own and self._in_vain.get(shape) == as_of:
            return answer
        spared = self._spared_at(now)
        found = make_room(self._state, key=pod.key, now=now, history=history, context=context, spared=spared)
        if isinstance(found, NoRoom):
            if spared:
                self._queue.add(("pod", pod.key), min(self._spared.values()))
            elif not answer.own:
                self._in_vain[shape] = as_of
            return answer
        begun = self._state.rooms.of(pod.key) is not None
        if found.victim is None and not (begun and found.awaited):
            # Others are ending anyway: they leave room for whoever comes first.
            return answer
        return found

    def _may_preempt(self, pod: PodView) -> bool:
        chosen = self._settings.priority_classes
        return (
            self._settings.enabled
            and self._state.budgets.readable
            and pod.needs.preempts
            and (not chosen or pod.priority_class in chosen)
        )

    def _spared_at(self, now: float) -> dict[str, str]:
        self._spared = {uid: until for uid, until in self._spared.items() if until > now}
        return dict.fromkeys(self._spared, _REFUSED)

    # Rooms

    def restore(self) -> None:
        """Keep the rooms again that pods have recorded, at the start of a term. Nobody is evicted by that."""
        if not self._settings.enabled:
            return
        now = self._clock.monotonic()
        recorded = [pod for pod in self._state.pods.values() if pod.nominated and is_recorded(self._state, pod)]
        for pod in sorted(recorded, key=partial(rank_of, self._state)):
            context = DecisionContext(NodeRestrictions(only=frozenset({pod.nominated})))
            with self._state.rooms.open_to(pod.key, pod.priority):
                found = make_room(self._state, key=pod.key, now=now, history=NO_HISTORY, context=context, spared={})
            if isinstance(found, MakeRoom):
                self._state.keep_room(pod.priority, found.room)

    def keep(self, pod: PodView, decision: MakeRoom, changes: Changes) -> None:
        """Keep the room of the decision for the pod, and look again when somebody outlasts its grace."""
        if self._state.rooms.of(pod.key) != decision.room:
            changes.add(self._state.keep_room(pod.priority, decision.room))
        awaited = map(self._state.pods.get, decision.awaited)
        due = [overdue_at(self._state, one) for one in awaited if one is not None and one.deleting]
        if due:
            self._queue.add(("pod", pod.key), min(due))

    def end(self, pod: str, changes: Changes) -> bool:
        """Give back what is kept for a pod (key); return whether there was anything."""
        room = self._state.rooms.of(pod)
        if room is None:
            return False
        changes.add(self._state.end_room(pod))
        self._log.info("room kept no longer", preemptor=pod, node=room.node)
        return True

    def look_again(self, nodes: Collection[str], but: str = "") -> None:
        """Have those pods decided again for which room is kept on one of these nodes, except for one."""
        for pod in self._state.rooms.on(nodes):
            if pod != but:
                self._queue.add(("pod", pod), self._clock.monotonic())

    # Refusals

    def refused_by_budget(self, victim: str) -> None:
        """Take in that a budget does not let the pod (UID) go. It is no victim for a while."""
        self._spared[victim] = self._clock.monotonic() + _REFUSED_SECONDS

    def pause(self, seconds: float) -> None:
        """Evict nobody for a while, because an eviction was refused for another reason."""
        self._paused_until = self._clock.monotonic() + seconds
