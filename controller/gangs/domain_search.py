"""Searches the domains that may take a gang, best first, for a way to place it."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.cluster import Cluster
from controller.gangs.budget import OutOfSteps, StepBudget
from controller.gangs.domain_score import DomainScore, Figures, Scoring, score
from controller.gangs.exact_packing import Packing
from controller.gangs.gang import Gang, Standing
from controller.gangs.levels import GroupNumber, Reach, Tier, levels_of_all
from controller.gangs.memory import Memory
from controller.gangs.search_context import PackingRules, SearchContext
from controller.gangs.staging import Staging
from controller.gangs.topology import Path
from controller.gangs.unfinished import Unfinished, UnfinishedSearch
from controller.gangs.units import CoLocatedMembers, Seat, leader_and_first, merged_unit, seats_of
from controller.gangs.verdicts import NOT_TOGETHER, NOT_WHOLE, Verdicts
from controller.gangs.wholes import Wholes
from controller.placement import Placement

STEPS: Final = 2_000
"""Failed or undone placements after which a search ends without a decision."""
_MOST_EFFORT: Final = 4
"""Most times by which a larger budget prolongs the search for devices on one node."""
_LEADER_STEPS: Final = 200

_Found = tuple[DomainScore, Sequence[Placement], int]
"""Result of a search: the score of the domain, the placements, and the number of sub-domains in use."""


@dataclass(frozen=True, slots=True)
class DomainCandidate:
    """A domain that may take the gang.

    Attributes:
        least: the best score that the domain can have.
        children: number of its domains of the next level.
        fewest: the fewest of these that take the gang.
        reach: places for members without devices; None if these are those of the domain.
    """

    path: Path
    places: Sequence[int]
    least: DomainScore
    figures: Figures
    children: int
    fewest: int
    reach: Reach | None = None

    @property
    def around(self) -> Sequence[int] | None:
        """The places for members without devices; None if these are those of the domain."""
        return self.reach.places if self.reach else None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of a decision.

    Attributes:
        budget: steps of the search. With more steps, a refusal that is not ``decided`` may become a plan. With several
            times ``STEPS``, searches for devices on a node are longer, too.
        memory: results for earlier gangs with the same fleet and nodes; they save time.
        unfinished: searches for this gang that ran out of steps. They continue if nothing has changed.
        scoring: compares domains.
    """

    budget: int = STEPS
    memory: Memory | None = None
    unfinished: Unfinished | None = None
    scoring: Scoring = score

    @property
    def effort(self) -> int:
        """Factor for the length of searches for devices on a node (``Fleet.fit``)."""
        return min(_MOST_EFFORT, max(1, self.budget // STEPS))


DEFAULT_OPTIONS: Final = SearchOptions()


@dataclass(frozen=True, slots=True)
class OpenMembers:
    """The members of a gang that are to be placed.

    Attributes:
        standing: members that have a place, with the path of their domain.
        wholes: chooses sub-groups, and knows the number of members to place.
    """

    gang: Gang
    units: Sequence[CoLocatedMembers]
    standing: Sequence[tuple[Standing, Path]]
    wholes: Wholes


class Searches:
    """All searches of one decision.

    Args:
        score: scores a domain by the number of its sub-domains in use.
    """

    def __init__(
        self,
        members: OpenMembers,
        cluster: Cluster,
        verdicts: Verdicts,
        score: Callable[[Path, int, Figures], DomainScore],
        options: SearchOptions,
    ):
        self._gang = members.gang
        self._units = members.units
        self._standing = members.standing
        self._wholes = members.wholes
        self._needed = members.wholes.needed
        self._seats: Mapping[str, Seat] | None = None
        self._anchored: dict[Tier, Mapping[tuple[int, GroupNumber], Path]] = {}
        self._cluster = cluster
        self._verdicts = verdicts
        self._score = score
        self._budget = StepBudget(options.budget)
        self._effort = options.effort
        self._unfinished = options.unfinished

    def best(
        self, candidates: Sequence[DomainCandidate], context: SearchContext, part: int = 1
    ) -> Sequence[Placement] | None:
        """Placements in the best of the domains; None if there is no way, with a verdict on each domain.

        Args:
            part: uses one in ``part`` of the steps that are left.
        """
        budget = self._budget.part(part)
        try:
            return self._best(candidates, context, budget)
        finally:
            self._budget.left += budget.left

    def _best(
        self, candidates: Sequence[DomainCandidate], context: SearchContext, budget: StepBudget
    ) -> Sequence[Placement] | None:
        best: _Found | None = None
        undecided: list[DomainCandidate] = []
        for number, candidate in enumerate(candidates):
            if best is not None and best[0] < candidate.least:
                break
            share = budget.part(len(candidates) - number)
            try:
                found = self._search(candidate, context, share)
            except OutOfSteps:
                undecided.append(candidate)
                continue
            finally:
                budget.left += share.left
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is not None:
            return best[1]
        for candidate in undecided:
            try:
                found = self._search(candidate, context, budget)
            except OutOfSteps:
                most = context.counts.members(candidate.places, candidate.around)
                self._verdicts.note(candidate.path, most, "not decided", decided=False)
                continue
            if found is not None:
                return found[1]
        return None

    def _search(self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget) -> _Found | None:
        """Placements in a domain with as few sub-domains as possible; None if there is no way.

        Raises:
            OutOfSteps: the budget ran out before any were found.
        """
        least = candidate.fewest
        # With a limit that all sub-domains meet, large ones would come first for nothing.
        found = self._limited(candidate, context, budget, least) if least < candidate.children else None
        if found is None:
            found = self._pack(candidate, context, budget, None)
            if found is None:
                return None
            found = self._fewer(found, candidate, context, budget)
        return self._with_leader(found, candidate, context)

    def _fewer(self, found: _Found, candidate: DomainCandidate, context: SearchContext, budget: StepBudget) -> _Found:
        """Improve on ``found``, but with more sub-domains than ``Candidate.fewest``.

        A way with few sub-domains is also one with more, so the number is found by bisection.
        """
        least, most = candidate.fewest + 1, found[2] - 1
        while least <= most:
            limit = (least + most) // 2
            better = self._limited(candidate, context, budget, limit)
            if better is None:
                least = limit + 1
            else:
                found, most = better, better[2] - 1
        return found

    def _limited(
        self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget, limit: int
    ) -> _Found | None:
        """A way with at most ``limit`` sub-domains; None if half of the steps that are left find none."""
        share = budget.part(2)
        try:
            return self._pack(candidate, context, share, limit)
        except OutOfSteps:
            return None
        finally:
            budget.left += share.left

    def _pack(
        self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget, limit: int | None
    ) -> _Found | None:
        """Place enough units in the domain; without a limit, record a verdict if that is impossible.

        Raises:
            OutOfSteps: the budget ran out.
        """
        key = context.tier, candidate.path, limit, candidate.reach is None
        search = self._taken_up(key, candidate, context)
        if search is True:
            search = self._begin(self._units, candidate, context, limit)
        if isinstance(search, UnfinishedSearch):
            try:
                if found := self._run(search, candidate, budget):
                    return found
            except OutOfSteps:
                self._keep(key, search, candidate, context)
                raise
            if not search.staging.undecided:
                self._keep(key, None, candidate, context)
        if limit is None:
            learnt = context.counts.members(candidate.places, candidate.around)
            limits = context.counts.limits(candidate.places, candidate.around)
            apart = NOT_WHOLE if self._gang.sub_groups else NOT_TOGETHER
            reason = apart if learnt >= self._needed else limits
            decided = not (isinstance(search, UnfinishedSearch) and search.staging.undecided)
            self._verdicts.note(candidate.path, min(self._needed - 1, learnt), reason, decided=decided)
        return None

    def _taken_up(self, key: Hashable, candidate: DomainCandidate, context: SearchContext) -> UnfinishedSearch | bool:
        if self._unfinished is None:
            return True
        return self._unfinished.take(key, context.places, _every_place(candidate), self._cluster)

    def _keep(
        self, key: Hashable, search: UnfinishedSearch | None, candidate: DomainCandidate, context: SearchContext
    ) -> None:
        if self._unfinished is not None:
            self._unfinished.keep(key, search, context.places, _every_place(candidate), self._cluster)

    def _begin(
        self,
        units: Sequence[CoLocatedMembers],
        candidate: DomainCandidate,
        context: SearchContext,
        limit: int | None,
        *,
        leader_first: bool = False,
    ) -> UnfinishedSearch:
        staging = Staging(self._cluster, context.places, self._effort)
        wholes = self._wholes
        if units is not self._units:
            wholes = Wholes(self._gang, units, wholes.needed, wholes.needed_of_tasks)
        rules = PackingRules(
            most_children=limit,
            anchors=self._anchors(context.tier),
            reach=candidate.reach,
            close=leader_and_first(units),
            leader_first=leader_first,
        )
        packing = Packing(units, wholes, context, candidate.places, staging=staging, rules=rules)
        return UnfinishedSearch(staging, packing)

    def _run(self, search: UnfinishedSearch, candidate: DomainCandidate, budget: StepBudget) -> _Found | None:
        with search.staging:
            if search.packing.run(budget):
                children = search.packing.children
                score = self._score(candidate.path, children, candidate.figures)
                return score, [placement for _, placement in search.staging.placements()], children
        return None

    def _with_leader(self, found: _Found, candidate: DomainCandidate, context: SearchContext) -> _Found:
        """The same with leader and rank 0 on one node if possible, else close to each other."""
        pair = leader_and_first(self._units)
        nodes = {placement.pod: placement.node for placement in found[1]}
        if pair is None or len({nodes.get(unit.members[0].demand.key) for unit in pair}) == 1:
            return found
        fleet = self._cluster.devices
        both = merged_unit(*pair, fleet)
        context.counts.count(both.shape, context.places, candidate.places, fleet, self._cluster.nodes)
        for units in ([both, *(unit for unit in self._units if unit not in pair)], self._units):
            search = self._begin(units, candidate, context, found[2], leader_first=units is self._units)
            try:
                better = self._run(search, candidate, StepBudget(_LEADER_STEPS))
            except OutOfSteps:
                continue
            if better is not None:
                return better
        return found

    def _anchors(self, tier: Tier) -> Mapping[tuple[int, GroupNumber], Path]:
        """The domain of each group with members that have a place; that of most members, if there are several.

        A group whose members are in no domain of a required level gets a path that no place has, unless the gang moves.
        """
        if not self._standing or not tier.groups:
            return {}
        known = self._anchored.get(tier)
        if known is None:
            known = self._anchored[tier] = self._find_anchors(tier)
        return known

    def _find_anchors(self, tier: Tier) -> Mapping[tuple[int, GroupNumber], Path]:
        if self._seats is None:
            self._seats = seats_of(self._gang)
        seats, of_all = self._seats, levels_of_all(self._gang.levels)
        found: dict[tuple[int, GroupNumber], Counter[Path]] = {}
        for standing, path in self._standing:
            for group in tier.groups:
                number = group.number(seats[standing.pod])
                if not number or (group.depth > of_all and not standing.has_devices):
                    continue
                paths = found.setdefault((group.depth, number), Counter())
                if path[group.depth - 1]:
                    paths[path[: group.depth]] += 1
                elif self._gang.levels[group.depth - 1].required and not self._gang.moves:
                    paths[("",) * group.depth] += 0
        return {key: min(paths, key=lambda path: (-paths[path], path)) for key, paths in found.items() if paths}


def _every_place(candidate: DomainCandidate) -> Sequence[int]:
    """All places that members may be on."""
    return candidate.places if candidate.reach is None else sorted({*candidate.places, *candidate.reach.places})
