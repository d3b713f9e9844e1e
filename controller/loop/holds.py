"""Holds nodes back for pods and gangs that have waited long (``controller.waiting.held`` has the rule)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from controller.gangs import GangPlan
from controller.loop.preempting import Preempting
from controller.loop.waiting import WaitingPods
from controller.reconcile import NodeRestrictions
from controller.reconcile.decisions import GangDecision, Unallocatable
from controller.reconcile.prospects import (
    fits_without_later_pods,
    latest_end_of_new,
    node_to_hold,
    predicted_start,
    start_without,
)
from controller.state import Changes, PodView, State
from controller.waiting import (
    HeldDomain,
    HeldDomains,
    HeldNode,
    HeldNodes,
    HoldLimits,
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
        nodes: the holds for single pods.
        domains: the holds for gangs.
        pauses: the nodes and namespaces for which nothing is held back for a while.
        opened: how often a hold has ended, or a node that is held back may have become free for others.
    """

    def __init__(self, shared: Shared, preempting: Preempting, waiting: WaitingPods):
        super().__init__(shared)
        self._preempting = preempting
        self._waiting = waiting
        self.limits = _limits_of(shared.settings.hold)
        self.nodes = HeldNodes()
        self.domains = HeldDomains()
        self.pauses = Pauses(self.limits.pause)
        self.opened = 0
        self._unheld: dict[str, None] = {}
        """Pods for which no more nodes could be held back; they are tried again when a hold ends."""

    def note(self, changes: Changes) -> None:
        """Have those tried whose holds the changes concern."""
        holders = [pod for node in changes.favoured for pod in self.nodes.holders(node)]
        for pod in holders:
            if not self._serves(pod):
                self._waiting.try_soon(pod)
        gangs = self.domains.on({**changes.favoured, **changes.ends})
        self._queue.soon("gang", gangs)
        self.opened += bool(holders or gangs)

    @property
    def count(self) -> int:
        """The number of nodes that are held back."""
        return len(self.nodes) + self.domains.count

    @property
    def most(self) -> int:
        """Most nodes that may be held back for gangs at a time, and as many for single pods."""
        with_devices = sum(bool(slot.pools) for slot in self._state.devices.node_slots.values())
        return self.limits.most(with_devices or len(self._state.nodes))

    @property
    def closed(self) -> Collection[str]:
        """The nodes that are held back for anybody."""
        return {one.node for one in self.nodes.held} | {node for one in self.domains.held for node in one.nodes}

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
        return {**self.domains.from_pod(rank, ends, gang), **self.nodes.from_pod(rank)}

    # For single pods

    def hold_node(self, pod: PodView, answer: Unallocatable) -> None:
        """Hold a node back for the pod if it has waited long, or end the hold if the node cannot take the pod."""
        now, rank, held = self._clock.monotonic(), rank_of(self._state, pod), self.nodes.of(pod.key)
        if held is not None and now < held.ends and self._serves(pod.key):
            self._queue.add(("pod", pod.key), held.ends)
            return
        self.end_node(pod.key)
        if not self.limits.enabled or not self._waiting.is_first(pod.key):
            return
        due, resting = self._waiting.since(pod.key) + self.limits.after, self.pauses.nodes(rank, now)
        if now < due or (due := self.pauses.of_namespace(rank, now) or 0):
            self._queue.add(("pod", pod.key), due)
        elif self.nodes.is_full(pod.namespace, self.most):
            self._unheld[pod.key] = None
        elif found := node_to_hold(self._state, answer, _later_than(self._state, rank), resting):
            ends = now + self.limits.longest
            self.nodes.hold(HeldNode(rank, found, ends))
            self._queue.add(("pod", pod.key), ends)
            self._log.info("node held back", pod=pod.key, node=found, seconds=self.limits.longest)
        elif resting:
            self._queue.add(("pod", pod.key), min(resting.values()))

    def _serves(self, key: str) -> bool:
        """Return whether the node held back for the pod would fit once later pods end."""
        held, pod, answer = self.nodes.of(key), self._state.pods.get(key), self._waiting.answer(key)
        if held is None or pod is None or answer is None:
            return False
        later = _later_than(self._state, rank_of(self._state, pod))
        return fits_without_later_pods(self._state, answer, held.node, later)

    def end(self, pod: str, *, placed: bool = False) -> None:
        """Hold nothing back for the pod (key), which waits no longer.

        Args:
            placed: whether it has a node, so that its hold has served its purpose.
        """
        self._unheld.pop(pod, None)
        self.end_node(pod, placed=placed)

    def end_node(self, pod: str, *, placed: bool = False) -> None:
        """End the hold of the pod (key), which may go on waiting; there is a pause unless it was placed."""
        held = self.nodes.of(pod)
        if held is None:
            return
        self.nodes.end(pod)
        if not placed:
            self._pause(held.rank, [held.node], held.ends)
        self.opened += 1
        self._log.info("node held back no longer", pod=pod, node=held.node, placed=placed)
        opened = Changes(favoured={held.node: None})
        for worker in (self._preempting, self._waiting, self):
            worker.note(opened)
        unheld, self._unheld = self._unheld, {}
        for other in unheld:
            self._waiting.try_soon(other)

    # For gangs

    def hold_domain(self, held: HeldDomain, *, displaces: bool = True) -> bool:
        """Hold nodes back for a gang; return False if too many are held back for gangs that come first.

        Args:
            displaces: whether holds of gangs that come after it may end for it.
        """
        known = self.domains.of(held.gang)
        if held == known:
            return True
        displaced = self.domains.displaced(held, self.most)
        if displaced is None or (displaced and not displaces):
            return False
        for gang in displaced:
            self.end_domain(gang, placed=True)
        self.domains.hold(held)
        if known is None or known.nodes != held.nodes:
            self._log.info("nodes held back", gang=held.gang, nodes=sorted(held.nodes), seconds=self.limits.longest)
        elif held.starts is not None:
            # Pods that end before may use the nodes.
            self._waiting.wake(held.nodes)
        return True

    def end_domain(self, gang: str, *, placed: bool = False) -> None:
        """End the hold of the gang; there is a pause unless the gang was placed."""
        held = self.domains.of(gang)
        if held is None:
            return
        self.domains.end(gang)
        if not placed:
            self._pause(held.rank, held.nodes, held.ends)
        self.opened += 1
        self._log.info("nodes held back no longer", gang=gang, nodes=sorted(held.nodes), placed=placed)
        self._waiting.wake(held.nodes)

    def _pause(self, rank: Rank, nodes: Collection[str], ends: float) -> None:
        now = self._clock.monotonic()
        self.pauses.ended(rank, nodes, now, 1 - (ends - now) / self.limits.longest)


class GangHolds:
    """Looks for nodes to hold back for gangs that wait for room."""

    def __init__(self, shared: Shared, holds: Holds):
        self._state = shared.state
        self._queue = shared.queue
        self._clock = shared.clock
        self._limits = holds.limits
        self._holds = holds
        self._since: dict[str, float] = {}
        """Time from which each gang waits for room (monotonic seconds)."""
        self._again: dict[str, float] = {}
        """Time at which nodes to hold back are looked for again (monotonic seconds): a search that finds none costs
        most."""
        self._due: dict[str, float] = {}
        """Time at which a hold or a pause ends and the gang is decided again (monotonic seconds)."""
        self._later: dict[str, int] = {}
        """Gangs that have started and hold nodes back for members to come, each with their number."""

    def restrictions(self, gang: str) -> NodeRestrictions:
        """Return the nodes that the gang may not use."""
        return NodeRestrictions(self._holds.from_gang(gang))

    def waits(self, gang: str, pods: Sequence[PodView], restrictions: NodeRestrictions, decide: Decide) -> None:
        """Hold nodes back for a gang that has waited long for room, or end the hold if it could not start there."""
        if not self._limits.enabled:
            return
        now, rank = self._clock.monotonic(), rank_of_gang(self._state, pods)
        due = self._since.setdefault(gang, now) + self._limits.after
        if now < due:
            self._queue.add(("gang", gang), due)
            return
        held = self._holds.domains.of(gang)
        if held and now < held.ends and self._start(rank, restrictions, decide, held.all_nodes):
            self._predict(replace(held, rank=rank), restrictions, decide)
            self._queue.add(("gang", gang), held.ends)
            return
        self._holds.end_domain(gang)
        if now >= self._again.get(gang, now):
            self._due.pop(gang, None)
            self._look(gang, rank, restrictions, decide, now)
        if gang in self._due:
            self._queue.add(("gang", gang), self._due[gang])

    def _look(self, gang: str, rank: Rank, restrictions: NodeRestrictions, decide: Decide, now: float) -> None:
        """Look for nodes to hold back, now or when those may be held that may not now."""
        pauses = self._holds.pauses
        if paused := pauses.of_namespace(rank, now):
            self._look_again(gang, paused)
            return
        resting = pauses.nodes(rank, now)
        found = self._start(
            rank, replace(restrictions, held={**restrictions.held, **dict.fromkeys(resting, "")}), decide
        )
        held = self._domain(gang, rank, found, now + self._limits.longest) if found else None
        if held is not None and self._predict(held, restrictions, decide):
            self._due[gang] = held.ends
        ends = [*resting.values(), *([one.ends for one in self._holds.domains.held] if held is not None else [])]
        self._again[gang] = now + self._limits.after
        if ends and self._holds.domains.of(gang) is None:
            self._look_again(gang, max(min(ends), now + 1))

    def _look_again(self, gang: str, due: float) -> None:
        self._again[gang] = self._due[gang] = due

    # Room for members that are made later

    def reserves(self, gang: str) -> bool:
        """Return whether nodes are held back for members of the gang that are made later."""
        return gang in self._later

    def reserve(self, gang: str, pods: Sequence[PodView], later: int, find: Callable[[], GangPlan | None]) -> None:
        """Hold back nodes for members that are made later, of a gang that has started.

        It comes before all of its priority, as a gang that has lost a member, but no hold of others ends for it.

        Args:
            later: how many members do not exist yet.
            find: finds room for them.
        """
        if not self._limits.enabled:
            return
        now, rank = self._clock.monotonic(), first_of_its_priority(rank_of_gang(self._state, pods))
        held = self._holds.domains.of(gang)
        if held is not None and (now >= held.ends or gang not in self._later):
            # The hold until its start has served its purpose.
            self.end(gang, placed=gang not in self._later)
            held = None
        if held is not None and self._later[gang] == later and all(node in self._state.nodes for node in held.nodes):
            self._queue.add(("gang", gang), held.ends)
        elif paused := self._holds.pauses.of_namespace(rank, now) if held is None else None:
            self._queue.add(("gang", gang), paused)
        else:
            self._reserve(gang, rank, later, find(), held.ends if held else now + self._limits.longest)

    def _reserve(self, gang: str, rank: Rank, later: int, found: GangPlan | None, ends: float) -> None:
        now = self._clock.monotonic()
        resting = self._holds.pauses.nodes(rank, now)
        wanted = self._domain(gang, rank, found, ends) if found else None
        nodes = wanted.nodes - resting.keys() if wanted else frozenset()
        if wanted and nodes and self._holds.hold_domain(replace(wanted, nodes=nodes), displaces=False):
            self._later[gang] = later
            self._queue.add(("gang", gang), ends)
            return
        self.end(gang)
        again = [*resting.values(), *(one.ends for one in self._holds.domains.held)] if wanted else []
        if again:
            self._queue.add(("gang", gang), max(min(again), now + 1))

    @staticmethod
    def _domain(gang: str, rank: Rank, found: GangPlan, ends: float) -> HeldDomain | None:
        """Return the hold for the plan; None if no member needs devices."""
        nodes = frozenset(one.node for one in found.placements if one.allocations)
        others = frozenset(one.node for one in found.placements) - nodes
        outermost = found.domain.path[0][1] if found.domain.path else ""
        return HeldDomain(gang, rank, outermost, nodes, ends, nodes_without_devices=others) if nodes else None

    def end(self, gang: str, *, placed: bool = False) -> None:
        """End the gang's wait for room, because it was placed or for another reason."""
        self._since.pop(gang, None)
        self._again.pop(gang, None)
        self._due.pop(gang, None)
        self._later.pop(gang, None)
        self._holds.end_domain(gang, placed=placed)

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

    def _predict(self, held: HeldDomain, restrictions: NodeRestrictions, decide: Decide) -> bool:
        """Hold the nodes back, if that may be, with a prediction of the gang's start."""
        nodes = held.all_nodes
        restrictions = self._only(nodes, restrictions)
        starts = predicted_start(self._state, nodes, lambda: decide(restrictions))
        return self._holds.hold_domain(held.predicting(starts, self._clock.monotonic()))

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
