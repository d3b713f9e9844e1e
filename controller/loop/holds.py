"""Holds nodes back for pods and gangs that have waited long (``controller.waiting.held`` has the rule)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.gangs import GangPlan
from controller.loop.waiting import WaitingPods
from controller.preemption.worker import Preempting
from controller.reconcile import NodeRestrictions
from controller.reconcile.decisions import GangDecision, PodRefusal
from controller.reconcile.prospects import (
    fits_without_later_pods,
    latest_end_of_new,
    node_to_hold,
    predicted_start,
    start_without,
)
from controller.state import Changes, PodView, State
from controller.waiting import (
    HeldNodes,
    Hold,
    HoldLimits,
    Owner,
    Pauses,
    Rank,
    first_of_its_priority,
    rank_of,
    rank_of_gang,
)
from controller.worker import Shared, Worker
from driver.settings import HoldSettings

Decide = Callable[[NodeRestrictions], GangDecision]
"""Decides about the gang with these nodes held back from it."""


class Holds(Worker):
    """What is held back, and from whom. Looks for a node to hold back for a single pod.

    Attributes:
        limits: how long, how often and how many nodes may be held back.
        held: the nodes that are held back.
        pauses: the nodes and namespaces for which nothing is held back for a while.
        opened: how often a hold has ended, or a node that is held back may have become free for others.
    """

    def __init__(self, shared: Shared, preempting: Preempting, waiting: WaitingPods):
        super().__init__(shared)
        self._preempting = preempting
        self._waiting = waiting
        self.limits = _limits_of(shared.settings.hold)
        self.held = HeldNodes()
        self.pauses = Pauses(self.limits.pause)
        self.opened = 0
        self._unheld: dict[str, None] = {}
        """Pods for which no more nodes could be held back; they are tried again when a hold ends."""

    def note(self, changes: Changes) -> None:
        """Have those tried whose holds the changes concern."""
        pods = [key for kind, key in self.held.on(changes.favoured) if kind == "pod"]
        for pod in pods:
            if not self._serves(pod):
                self._waiting.try_soon(pod)
        # When pods are about to end tells when a gang can start there at the latest.
        gangs = [key for kind, key in self.held.on({**changes.favoured, **changes.ends}) if kind == "gang"]
        self._queue.soon("gang", gangs)
        self.opened += bool(pods or gangs)

    @property
    def count(self) -> int:
        """The number of nodes that are held back."""
        return self.held.count

    @property
    def most(self) -> int:
        """Most nodes that may be held back for gangs at a time, and as many for single pods."""
        with_devices = sum(bool(slot.pools) for slot in self._state.devices.node_slots.values())
        return self.limits.most(with_devices or len(self._state.nodes))

    @property
    def closed(self) -> Collection[str]:
        """The nodes that are held back for anybody."""
        return {node for one in self.held for node in one.nodes}

    # From whom

    def from_pod(self, pod: PodView) -> Mapping[str, str]:
        """Return the nodes that are held back for pods that come before this one, which may be bound already."""
        if not self.count:
            return {}
        if gang := self._state.gangs.gang_of(pod.key):
            return self.from_gang(gang)
        return self._after(rank_of(self._state, pod), [pod])

    def from_gang(self, gang: str) -> Mapping[str, str]:
        """Return the nodes that are held back from the gang."""
        if not self.count:
            return {}
        members = [self._state.pods[key] for key in self._state.gangs.members(gang)]
        return self._after(rank_of_gang(self._state, members), members, gang) if members else {}

    def _after(self, rank: Rank, pods: Collection[PodView], gang: str = "") -> Mapping[str, str]:
        ends = latest_end_of_new(pods, self._clock.monotonic())
        return self.held.from_pod(rank, ends, gang)

    # For single pods

    def hold_node(self, pod: PodView, answer: PodRefusal) -> None:
        """Hold a node back for the pod if it has waited long, or end the hold if the node cannot take the pod.

        A gang has ``GangHolds``, which looks for nodes in another way: a search for a domain takes as long as a
        decision, so it is made once in a while, while one node after the other is quickly asked for a pod. And of pods
        that are alike, only the first has a node, while each gang stands for itself.
        """
        owner: Owner = ("pod", pod.key)
        now, rank = self._clock.monotonic(), rank_of(self._state, pod)
        held = self.held.get(owner)
        if held is not None and now < held.ends and self._serves(pod.key):
            self._queue.add(owner, held.ends)
            return
        self.end(owner)
        if not self.limits.enabled or not self._waiting.is_first(pod.key):
            return
        due, resting = self._waiting.since(pod.key) + self.limits.after, self.pauses.nodes(rank, now)
        if now < due or (due := self.pauses.of_namespace(rank, now) or 0):
            self._queue.add(owner, due)
        elif self.held.is_full(pod.namespace, self.most):
            self._unheld[pod.key] = None
        elif found := node_to_hold(self._state, answer, _later_than(self._state, rank), resting):
            ends = now + self.limits.longest
            self.held.hold(Hold.of_pod(rank, found, ends))
            self._queue.add(owner, ends)
            self._log.info("node held back", pod=pod.key, node=found, seconds=self.limits.longest)
        elif resting:
            self._queue.add(owner, min(resting.values()))

    def _serves(self, key: str) -> bool:
        """Return whether the node held back for the pod would fit once later pods end."""
        held, pod, answer = self.held.get(("pod", key)), self._state.pods.get(key), self._waiting.answer(key)
        if held is None or pod is None or answer is None:
            return False
        later = _later_than(self._state, rank_of(self._state, pod))
        return all(fits_without_later_pods(self._state, answer, node, later) for node in held.nodes)

    def waits_no_more(self, pod: str, *, placed: bool = False) -> None:
        """Hold nothing back for the pod (key).

        Args:
            placed: whether it has a node, so that its hold has served its purpose.
        """
        self._unheld.pop(pod, None)
        self.end(("pod", pod), placed=placed)

    # For all

    def hold_for_gang(self, held: Hold, *, displaces: bool = True) -> bool:
        """Hold nodes back for a gang; return False if too many are held back for gangs that come first.

        Args:
            displaces: whether holds of gangs that come after it may end for it.
        """
        known = self.held.get(held.owner)
        if held == known:
            return True
        displaced = self.held.displaced(held, self.most)
        if displaced is None or (displaced and not displaces):
            return False
        for gang in displaced:
            self.end(("gang", gang), placed=True)
        self.held.hold(held)
        if known is None or known.nodes != held.nodes:
            self._log.info("nodes held back", gang=held.gang, nodes=sorted(held.nodes), seconds=self.limits.longest)
        elif held.starts is not None:
            # Pods that end before may use the nodes.
            self._waiting.wake(held.nodes)
        return True

    def end(self, owner: Owner, *, placed: bool = False) -> None:
        """End the hold of a pod or gang, which may go on waiting; there is a pause unless it was placed."""
        held = self.held.end(owner)
        if held is None:
            return
        if not placed:
            now = self._clock.monotonic()
            self.pauses.ended(held.rank, held.nodes, now, 1 - (held.ends - now) / self.limits.longest)
        self.opened += 1
        if held.gang:
            self._log.info("nodes held back no longer", gang=held.gang, nodes=sorted(held.nodes), placed=placed)
        else:
            self._log.info("node held back no longer", pod=held.rank.pod, node=min(held.nodes), placed=placed)
        # A node that opens is as good as one where something was freed: for those that wait, those for whom something
        # is kept there and who may move, and others with a hold there.
        opened = Changes(favoured=dict.fromkeys(sorted(held.nodes)))
        for worker in (self._preempting, self._waiting, self):
            worker.note(opened)
        if not held.gang:
            unheld, self._unheld = self._unheld, {}
            for other in unheld:
                self._waiting.try_soon(other)


@dataclass(slots=True)
class _WaitingGang:
    """What is known of a gang that waits for a domain, or has started and waits for members. Times are monotonic."""

    since: float | None = None
    """From when on it waits for a domain."""
    again: float | None = None
    """When nodes to hold back are looked for again: a search that finds none costs most."""
    due: float | None = None
    """When a hold or a pause ends, so that the gang is decided again."""
    later: int | None = None
    """Number of the members to come for which nodes are held back; None if they are not."""


class GangHolds:
    """Looks for nodes to hold back for gangs that wait for room."""

    def __init__(self, shared: Shared, holds: Holds):
        self._state = shared.state
        self._queue = shared.queue
        self._clock = shared.clock
        self._limits = holds.limits
        self._holds = holds
        self._waits: dict[str, _WaitingGang] = {}
        """The gangs that wait, by key."""

    def restrictions(self, gang: str) -> NodeRestrictions:
        """Return the nodes that the gang may not use."""
        return NodeRestrictions(self._holds.from_gang(gang))

    def waits(self, gang: str, pods: Sequence[PodView], restrictions: NodeRestrictions, decide: Decide) -> None:
        """Hold nodes back for a gang that has waited long for a domain, or end the hold if it could not start there."""
        if not self._limits.enabled:
            return
        owner: Owner = ("gang", gang)
        now, rank = self._clock.monotonic(), rank_of_gang(self._state, pods)
        wait = self._waits.setdefault(gang, _WaitingGang())
        wait.since = now if wait.since is None else wait.since
        if now < wait.since + self._limits.after:
            self._queue.add(owner, wait.since + self._limits.after)
            return
        held = self._holds.held.get(owner)
        if held and now < held.ends and self._start(rank, restrictions, decide, held.all_nodes):
            self._predict(replace(held, rank=rank), restrictions, decide)
            self._queue.add(owner, held.ends)
            return
        self._holds.end(owner)
        if wait.again is None or now >= wait.again:
            wait.due = None
            self._look_for_nodes(gang, wait, rank, restrictions, decide)
        if wait.due is not None:
            self._queue.add(owner, wait.due)

    def _look_for_nodes(
        self, gang: str, wait: _WaitingGang, rank: Rank, restrictions: NodeRestrictions, decide: Decide
    ) -> None:
        """Hold nodes back, now or when those may be held that may not now."""
        pauses, now = self._holds.pauses, self._clock.monotonic()
        if paused := pauses.of_namespace(rank, now):
            wait.again = wait.due = paused
            return
        resting = pauses.nodes(rank, now)
        found = self._start(
            rank, replace(restrictions, held={**restrictions.held, **dict.fromkeys(resting, "")}), decide
        )
        held = self._hold_of(gang, rank, found, now + self._limits.longest) if found else None
        if held is not None and self._predict(held, restrictions, decide):
            wait.due = held.ends
        ends = [*resting.values(), *(self._ends_of_gangs() if held is not None else ())]
        wait.again = now + self._limits.after
        if ends and self._holds.held.get(("gang", gang)) is None:
            wait.again = wait.due = max(min(ends), now + 1)

    def _ends_of_gangs(self) -> Sequence[float]:
        return [one.ends for one in self._holds.held if one.gang]

    # Room for members that are made later

    def reserves(self, gang: str) -> bool:
        """Return whether nodes are held back for members of the gang that are made later."""
        return gang in self._waits and self._waits[gang].later is not None

    def reserve(self, gang: str, pods: Sequence[PodView], later: int, find: Callable[[], GangPlan | None]) -> None:
        """Hold back nodes for members that are made later, of a gang that has started.

        It comes before all of its priority, as a gang that has lost a member, but no hold of others ends for it.

        Args:
            later: how many members do not exist yet.
            find: finds room for them.
        """
        if not self._limits.enabled:
            return
        owner: Owner = ("gang", gang)
        now, rank = self._clock.monotonic(), first_of_its_priority(rank_of_gang(self._state, pods))
        held = self._holds.held.get(owner)
        if held is not None and (now >= held.ends or not self.reserves(gang)):
            # The hold until its start has served its purpose.
            self.end(gang, placed=not self.reserves(gang))
            held = None
        known = self._waits[gang].later if gang in self._waits else None
        if held is not None and known == later and all(node in self._state.nodes for node in held.nodes):
            self._queue.add(owner, held.ends)
        elif paused := self._holds.pauses.of_namespace(rank, now) if held is None else None:
            self._queue.add(owner, paused)
        else:
            self._reserve(gang, rank, later, find(), held.ends if held else now + self._limits.longest)

    def _reserve(self, gang: str, rank: Rank, later: int, found: GangPlan | None, ends: float) -> None:
        now = self._clock.monotonic()
        resting = self._holds.pauses.nodes(rank, now)
        wanted = self._hold_of(gang, rank, found, ends) if found else None
        nodes = wanted.nodes - resting.keys() if wanted else frozenset()
        if wanted and nodes and self._holds.hold_for_gang(replace(wanted, nodes=nodes), displaces=False):
            self._waits.setdefault(gang, _WaitingGang()).later = later
            self._queue.add(("gang", gang), ends)
            return
        self.end(gang)
        again = [*resting.values(), *self._ends_of_gangs()] if wanted else []
        if again:
            self._queue.add(("gang", gang), max(min(again), now + 1))

    @staticmethod
    def _hold_of(gang: str, rank: Rank, found: GangPlan, ends: float) -> Hold | None:
        """Return the hold for the plan; None if no member needs devices."""
        nodes = frozenset(one.node for one in found.placements if one.allocations)
        if not nodes:
            return None
        return Hold(
            ("gang", gang),
            rank,
            nodes,
            ends,
            outermost=found.domain.path[0][1] if found.domain.path else "",
            nodes_without_devices=frozenset(one.node for one in found.placements) - nodes,
        )

    def end(self, gang: str, *, placed: bool = False) -> None:
        """End the gang's wait for a domain, because it was placed or for another reason."""
        self._waits.pop(gang, None)
        self._holds.end(("gang", gang), placed=placed)

    def _start(
        self, rank: Rank, restrictions: NodeRestrictions, decide: Decide, among: Collection[str] | None = None
    ) -> GangPlan | None:
        """Return the places of the gang if pods ended: those that come after it, or all of no higher priority."""
        restrictions = restrictions if among is None else self._only(among, restrictions)
        for ends in (
            lambda pod: rank_of(self._state, pod) > rank,
            lambda pod: rank_of(self._state, pod).below >= rank.below,
        ):
            if found := start_without(self._state, ends, lambda: decide(restrictions), among):
                return found
        return None

    def _predict(self, held: Hold, restrictions: NodeRestrictions, decide: Decide) -> bool:
        """Hold the nodes back, if that may be, with a prediction of the gang's start."""
        nodes = held.all_nodes
        restrictions = self._only(nodes, restrictions)
        starts = predicted_start(self._state, nodes, lambda: decide(restrictions))
        return self._holds.hold_for_gang(held.predicting(starts, self._clock.monotonic()))

    def _only(self, nodes: Collection[str], restrictions: NodeRestrictions) -> NodeRestrictions:
        """Return the restrictions with all other nodes held back."""
        others = {name: "" for name in self._state.nodes if name not in nodes}
        return replace(restrictions, held={**restrictions.held, **others})


def _limits_of(hold: HoldSettings) -> HoldLimits:
    return HoldLimits(
        enabled=hold.enabled,
        after=hold.after_seconds,
        longest=hold.for_seconds,
        pause=hold.pause_seconds,
        share=hold.share,
    )


def _later_than(state: State, rank: Rank) -> Callable[[PodView], bool]:
    return lambda pod: rank_of(state, pod) > rank
