"""Holds nodes back for gangs that have waited long (``controller.waiting.held`` has the rule)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from controller.gangs import GangPlan
from controller.loop.podwaits import PodWaits
from controller.loop.shared import Shared
from controller.reconcile import GangDecision, NodeRestrictions, predicted_start, start_without
from controller.state import PodView
from controller.waiting import HeldDomain, Rank, first_of_its_priority, rank_of, rank_of_gang

Decide = Callable[[NodeRestrictions], GangDecision]
"""Decides about the gang with these nodes held back from it."""


class GangHolds:
    """Holds nodes back for gangs that wait for room."""

    def __init__(self, shared: Shared, waits: PodWaits):
        self._state = shared.state
        self._queue = shared.queue
        self._clock = shared.clock
        self._limits = waits.limits
        self._waits = waits
        self._since: dict[str, float] = {}
        """Time from which each gang waits for room (monotonic seconds)."""
        self._again: dict[str, float] = {}
        """Time at which nodes to hold back are looked for again (monotonic seconds): a search that finds none costs
        most."""
        self._due: dict[str, float] = {}
        """Time at which a hold or a pause ends and the gang is decided again (monotonic seconds)."""
        self._later: dict[str, int] = {}
        """Gangs that have started and hold nodes back for members to come, each with their number."""

    def waits(self, gang: str, pods: Sequence[PodView], restrictions: NodeRestrictions, decide: Decide) -> None:
        """Hold nodes back for a gang that has waited long for room, or end the hold if it could not start there."""
        if not self._limits.enabled:
            return
        now, rank = self._clock.monotonic(), rank_of_gang(self._state, pods)
        due = self._since.setdefault(gang, now) + self._limits.after
        if now < due:
            self._queue.add(("gang", gang), due)
            return
        held = self._waits.domains.of(gang)
        if held and now < held.ends and self._start(rank, restrictions, decide, held.all_nodes):
            self._predict(replace(held, rank=rank), restrictions, decide)
            self._queue.add(("gang", gang), held.ends)
            return
        self._waits.end_domain(gang)
        if now >= self._again.get(gang, now):
            self._due.pop(gang, None)
            self._look(gang, rank, restrictions, decide, now)
        if gang in self._due:
            self._queue.add(("gang", gang), self._due[gang])

    def _look(self, gang: str, rank: Rank, restrictions: NodeRestrictions, decide: Decide, now: float) -> None:
        """Look for nodes to hold back, now or when those may be held that may not now."""
        pauses = self._waits.pauses
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
        ends = [*resting.values(), *([one.ends for one in self._waits.domains.held] if held is not None else [])]
        self._again[gang] = now + self._limits.after
        if ends and self._waits.domains.of(gang) is None:
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
        held = self._waits.domains.of(gang)
        if held is not None and (now >= held.ends or gang not in self._later):
            # The hold until its start has served its purpose.
            self.end(gang, placed=gang not in self._later)
            held = None
        if held is not None and self._later[gang] == later and all(node in self._state.nodes for node in held.nodes):
            self._queue.add(("gang", gang), held.ends)
        elif paused := self._waits.pauses.of_namespace(rank, now) if held is None else None:
            self._queue.add(("gang", gang), paused)
        else:
            self._reserve(gang, rank, later, find(), held.ends if held else now + self._limits.longest)

    def _reserve(self, gang: str, rank: Rank, later: int, found: GangPlan | None, ends: float) -> None:
        now = self._clock.monotonic()
        resting = self._waits.pauses.nodes(rank, now)
        wanted = self._domain(gang, rank, found, ends) if found else None
        nodes = wanted.nodes - resting.keys() if wanted else frozenset()
        if wanted and nodes and self._waits.hold_domain(replace(wanted, nodes=nodes), displaces=False):
            self._later[gang] = later
            self._queue.add(("gang", gang), ends)
            return
        self.end(gang)
        again = [*resting.values(), *(one.ends for one in self._waits.domains.held)] if wanted else []
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
        self._waits.end_domain(gang, placed=placed)

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
        return self._waits.hold_domain(held.predicting(starts, self._clock.monotonic()))

    def _only(self, nodes: Collection[str], restrictions: NodeRestrictions) -> NodeRestrictions:
        """Return the restrictions with all other nodes held back."""
        others = {name: "" for name in self._state.nodes if name not in nodes}
        return replace(restrictions, held={**restrictions.held, **others})
