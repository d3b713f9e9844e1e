"""Searches the domains that may take a gang, best first, for a way to place it.

How it works. Each domain comes with the best score that it can have: a score of its own figures, for the fewest
sub-domains (domains of the next level) that may be enough. The domains are searched in the order of these. In the
example of the package, with four members needed:

    domain     can have                        search
    cluster b  2 leaves, capacity left 0       finds a way in 2 leaves: as good as hoped, so this is the best so far
    cluster a  2 leaves, capacity left 1       not begun: worse than the best so far, and so is all that comes after it

A search that finds no way with the fewest sub-domains (``DomainCandidate.fewest``) finds one with any number first, and
then fewer by bisection: a way with 3 of them is also one with at most 4. A domain that takes more sub-domains than
hoped has a worse score then, so that the next domain may win.

What bounds it. All searches of a decision share one ``StepBudget``; each domain gets an equal part of what is left, so
that a hard one leaves enough for those after it, which come back to what was not used. Domains that ran out of steps
are searched again with all that is left, if no other one takes the gang. What is still not known then is "not decided",
which is never called impossible; the next decision goes on where these searches ended (``Unfinished``).

Why it is exact. A domain is left out only if the best score that it can have is worse than a score that was found, and
the scores follow from bounds that are never too low. So the answer is the best domain, whatever the order. With enough
steps it is the one that ``exhaustive.best`` finds by trying everything: ``test_laws``, and ``test_unfinished`` for
searches that ended many times.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from controller.allocation import OutOfSteps
from controller.cluster import Cluster
from controller.gangs.domains import NOT_TOGETHER, NOT_WHOLE, DomainRecord, DomainScore, Figures, Scoring, apart, score
from controller.gangs.exact_packing import Packing, PackingRules, SearchContext, StepBudget
from controller.gangs.gang import Gang, Standing
from controller.gangs.levels import EnforcedLevels, GroupKey, WiderDomain, deviceless_depth
from controller.gangs.memory import Memory
from controller.gangs.staging import Staging
from controller.gangs.sub_groups import SubGroupChoices
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers, MemberPosition, leader_and_first, merged_unit, positions_of
from controller.gangs.value_rules import MemberRules
from controller.placement import Placement

STEPS: Final = 2_000
"""Failed or undone placements after which a search ends without a decision."""
_MOST_EFFORT: Final = 4
"""Most times by which a larger budget prolongs the search for devices on one node."""
_LEADER_STEPS: Final = 200
_MOST_KEPT: Final = 16
"""Most searches that are kept for the next decision. Others start anew."""

_Result = tuple[DomainScore, Sequence[Placement], int]
"""Result of a search: the score of the domain, the placements, and the number of sub-domains in use."""


@dataclass(frozen=True, slots=True)
class UnfinishedSearch:
    """A search in one domain, with the units that are on nodes."""

    staging: Staging
    packing: Packing


@dataclass(frozen=True, slots=True)
class _Kept:
    domain_nodes: DomainNodes
    version: Hashable
    search: UnfinishedSearch | None
    """None if the search has found that there is no way."""


class Unfinished:
    """Searches for one gang that ran out of steps. The next decision about the gang continues them.

    They are valid while the gang asks for the same and the domain has not changed.

    Attributes:
        tries: number of decisions that ended undecided.
    """

    def __init__(self) -> None:
        self.tries = 0
        self._asked: object = None
        self._depends_on_members = False
        self._kept: dict[Hashable, _Kept] = {}

    def forget_other_questions(self, gang: Gang, units: Sequence[CoLocatedMembers], cluster: Cluster) -> bool:
        """Forget searches for other questions. Returns False if searches for this question cannot be kept."""
        # What is only assumed is gone after the question, and its versions never come again.
        if cluster.nodes.on_trial:
            return False
        asked = replace(gang, elapsed=0.0), [unit.shape.key for unit in units]
        if asked != self._asked:
            self._kept.clear()
            self._asked = asked
        self._depends_on_members = any(unit.shape.depends_on_members for unit in units)
        return True

    def resume(
        self, key: Hashable, domain_nodes: DomainNodes, inside: Sequence[int], cluster: Cluster
    ) -> UnfinishedSearch | bool:
        """The search ``key`` in a domain, to continue it. If there is none: whether there may be a way."""
        kept = self._kept.pop(key, None)
        if (
            kept is None
            or kept.domain_nodes is not domain_nodes
            or kept.version != self._version(domain_nodes, inside, cluster)
        ):
            return True
        if kept.search is None:
            self._kept[key] = kept
            return False
        return kept.search

    def keep(
        self,
        key: Hashable,
        search: UnfinishedSearch | None,
        domain_nodes: DomainNodes,
        inside: Sequence[int],
        cluster: Cluster,
    ) -> None:
        """Keep a search that ran out of steps; None stands for a search that has found no way."""
        if search is None or sum(kept.search is not None for kept in self._kept.values()) < _MOST_KEPT:
            self._kept[key] = _Kept(domain_nodes, self._version(domain_nodes, inside, cluster), search)

    def _version(self, domain_nodes: DomainNodes, inside: Sequence[int], cluster: Cluster) -> Hashable:
        """A version that changes with everything that can change the result."""
        nodes = cluster.nodes
        # With affinity or spread among members, a pod on any node can matter.
        everywhere = nodes.generation if self._depends_on_members else 0
        stamps = domain_nodes.stamps()
        return nodes.common_version, cluster.devices.shared_usage, everywhere, tuple([stamps[node] for node in inside])


class DomainCandidate(NamedTuple):
    """A domain that may take the gang.

    Attributes:
        inside: the nodes of the domain.
        least: the best score that the domain can have.
        sub_domains: number of its domains of the next level.
        fewest: the fewest of these that take the gang.
        wider: where members without devices may be; None if that is the domain.
    """

    path: Path
    inside: Sequence[int]
    least: DomainScore
    figures: Figures
    sub_domains: int
    fewest: int
    wider: WiderDomain | None = None

    @property
    def inside_wider(self) -> Sequence[int] | None:
        """The nodes for members without devices; None if these are those of the domain."""
        return self.wider.inside if self.wider else None

    @property
    def every_node(self) -> Sequence[int]:
        """All nodes that members may be on."""
        return self.inside if self.wider is None else sorted({*self.inside, *self.wider.inside})


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
        sub_groups: chooses sub-groups, and knows the number of members to place.
    """

    gang: Gang
    units: Sequence[CoLocatedMembers]
    standing: Sequence[tuple[Standing, Path]]
    sub_groups: SubGroupChoices


class Searches:
    """All searches of one decision.

    Args:
        score: scores a domain by the number of its sub-domains in use.
        rules: what the values of the members' devices have to be; None for any.

    Attributes:
        found: the score of the domain with the placements that were found last.
    """

    def __init__(
        self,
        members: OpenMembers,
        cluster: Cluster,
        tried: DomainRecord,
        score: Callable[[Path, int, Figures], DomainScore],
        options: SearchOptions,
        rules: MemberRules | None = None,
    ):
        self.found: DomainScore | None = None
        self._rules = rules
        self._gang = members.gang
        self._units = members.units
        self._standing = members.standing
        self._sub_groups = members.sub_groups
        self._needed = members.sub_groups.needed
        self._positions: Mapping[str, MemberPosition] | None = None
        self._domains_of_groups: dict[EnforcedLevels, Mapping[GroupKey, Path]] = {}
        self._cluster = cluster
        self._tried = tried
        self._score = score
        self._budget = StepBudget(options.budget)
        self._effort = options.effort
        self._unfinished = options.unfinished

    @property
    def steps_left(self) -> int:
        """Steps that are left of the budget."""
        return max(0, self._budget.left)

    def best(
        self, candidates: Sequence[DomainCandidate], context: SearchContext, part: int = 1
    ) -> Sequence[Placement] | None:
        """Placements in the best of the domains; None if there is no way, with a record of how far each fits.

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
        best: _Result | None = None
        undecided: list[DomainCandidate] = []
        for number, candidate in enumerate(candidates):
            # They are in the order of what they can have, so no later one can be better either.
            if best is not None and best[0] < candidate.least:
                break
            share = budget.part(len(candidates) - number)
            try:
                result = self._search(candidate, context, share)
            except OutOfSteps:
                undecided.append(candidate)
                continue
            finally:
                # Less than nothing if the last step overdrew it: the steps of a decision are never more than its own.
                budget.left += share.left
            if result is not None and (best is None or result[0] < best[0]):
                best = result
        # An undecided domain might be better than the best one. A gang that is placed now is worth more than that.
        if best is not None:
            self.found = best[0]
            return best[1]
        for candidate in undecided:
            try:
                result = self._search(candidate, context, budget)
            except OutOfSteps:
                most = context.bounds.most_members(candidate.inside, candidate.inside_wider)
                self._tried.record(candidate.path, most, "not decided", decided=False)
                continue
            if result is not None:
                self.found = result[0]
                return result[1]
        return None

    def _search(self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget) -> _Result | None:
        """Placements in a domain with as few sub-domains as possible; None if there is no way.

        Raises:
            OutOfSteps: the budget ran out before any were found.
        """
        least = candidate.fewest
        # With a limit that all sub-domains meet, large ones would come first for nothing.
        result = self._limited(candidate, context, budget, least) if least < candidate.sub_domains else None
        if result is None:
            result = self._pack(candidate, context, budget, None)
            if result is None:
                return None
            result = self._with_fewer(result, candidate, context, budget)
        return self._with_leader(result, candidate, context)

    def _with_fewer(
        self, result: _Result, candidate: DomainCandidate, context: SearchContext, budget: StepBudget
    ) -> _Result:
        """Improve on ``result``, but with more sub-domains than ``DomainCandidate.fewest``.

        A way with few sub-domains is also one with more, so the number is found by bisection.
        """
        least, most = candidate.fewest + 1, result[2] - 1
        while least <= most:
            limit = (least + most) // 2
            better = self._limited(candidate, context, budget, limit)
            if better is None:
                least = limit + 1
            else:
                result, most = better, better[2] - 1
        return result

    def _limited(
        self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget, limit: int
    ) -> _Result | None:
        """A way with at most ``limit`` sub-domains; None if half of the steps that are left find none."""
        # The other half is kept for the search without a limit: that there is a way at all is worth more than few.
        share = budget.part(2)
        try:
            return self._pack(candidate, context, share, limit)
        except OutOfSteps:
            return None
        finally:
            budget.left += share.left

    def _pack(
        self, candidate: DomainCandidate, context: SearchContext, budget: StepBudget, limit: int | None
    ) -> _Result | None:
        """Place enough units in the domain; without a limit, record what fits if that is impossible.

        Raises:
            OutOfSteps: the budget ran out.
        """
        key = context.levels, candidate.path, limit, candidate.wider is None, self._rules
        search = self._resumed(key, candidate, context)
        if search is True:
            search = self._begun(self._units, candidate, context, limit)
        if isinstance(search, UnfinishedSearch):
            try:
                if result := self._run(search, candidate, budget):
                    return result
            except OutOfSteps:
                self._keep(key, search, candidate, context)
                raise
            # A search for the devices of one node that ran out of steps proves nothing about the domain.
            if not search.staging.undecided:
                self._keep(key, None, candidate, context)
        if limit is None:
            # The search may have lowered bounds, so the record says what is known now.
            most = context.bounds.most_members(candidate.inside, candidate.inside_wider)
            limits = context.bounds.limits(candidate.inside, candidate.inside_wider)
            enough_apart = NOT_WHOLE if self._gang.sub_groups else NOT_TOGETHER
            in_groups = apart(enough_apart, self._gang, context.levels.of_groups)
            reason = in_groups if most >= self._needed else limits
            decided = not (isinstance(search, UnfinishedSearch) and search.staging.undecided)
            self._tried.record(candidate.path, min(self._needed - 1, most), reason, decided=decided)
        return None

    def _resumed(self, key: Hashable, candidate: DomainCandidate, context: SearchContext) -> UnfinishedSearch | bool:
        if self._unfinished is None:
            return True
        return self._unfinished.resume(key, context.domain_nodes, candidate.every_node, self._cluster)

    def _keep(
        self, key: Hashable, search: UnfinishedSearch | None, candidate: DomainCandidate, context: SearchContext
    ) -> None:
        if self._unfinished is not None:
            self._unfinished.keep(key, search, context.domain_nodes, candidate.every_node, self._cluster)

    def _begun(
        self,
        units: Sequence[CoLocatedMembers],
        candidate: DomainCandidate,
        context: SearchContext,
        limit: int | None,
        *,
        leader_first: bool = False,
    ) -> UnfinishedSearch:
        staging = Staging(self._cluster, context.domain_nodes, self._effort, self._rules)
        sub_groups = self._sub_groups
        if units is not self._units:
            sub_groups = SubGroupChoices(self._gang, units, sub_groups.needed, sub_groups.needed_of_tasks)
        rules = PackingRules(
            most_sub_domains=limit,
            group_domains=self._group_domains(context.levels),
            wider=candidate.wider,
            pair=leader_and_first(units),
            leader_first=leader_first,
        )
        packing = Packing(units, sub_groups, context, candidate.inside, staging=staging, rules=rules)
        return UnfinishedSearch(staging, packing)

    def _run(self, search: UnfinishedSearch, candidate: DomainCandidate, budget: StepBudget) -> _Result | None:
        # The end of the block undoes what is on nodes on trial; a search that goes on later makes it again.
        with search.staging:
            if search.packing.run(budget):
                sub_domains = search.packing.sub_domains
                score = self._score(candidate.path, sub_domains, candidate.figures)
                return score, [placement for _, placement in search.staging.placements()], sub_domains
        return None

    def _with_leader(self, result: _Result, candidate: DomainCandidate, context: SearchContext) -> _Result:
        """The same with leader and rank 0 on one node if possible, else close to each other."""
        pair = leader_and_first(self._units)
        nodes = {placement.pod: placement.node for placement in result[1]}
        if pair is None or len({nodes.get(unit.members[0].demand.key) for unit in pair}) == 1:
            return result
        # First as one unit, which needs one node; if that does not fit, with the leader first, so that rank 0 can come
        # close to it. Both are worth few steps: the gang is placed as it is if they find nothing.
        fleet = self._cluster.devices
        both = merged_unit(*pair, fleet)
        context.bounds.add_shape(both.shape, context.domain_nodes, candidate.inside, fleet, self._cluster.nodes)
        for units in ([both, *(unit for unit in self._units if unit not in pair)], self._units):
            search = self._begun(units, candidate, context, result[2], leader_first=units is self._units)
            try:
                better = self._run(search, candidate, StepBudget(_LEADER_STEPS))
            except OutOfSteps:
                continue
            if better is not None:
                return better
        return result

    def _group_domains(self, levels: EnforcedLevels) -> Mapping[GroupKey, Path]:
        """The domain of each group with members that have a place; that of most members, if there are several.

        A group whose members are in no domain of a required level gets a path that no node has, unless the gang moves.
        """
        if not self._standing or not levels.of_groups:
            return {}
        domains = self._domains_of_groups.get(levels)
        if domains is None:
            domains = self._domains_of_groups[levels] = self._find_group_domains(levels)
        return domains

    def _find_group_domains(self, levels: EnforcedLevels) -> Mapping[GroupKey, Path]:
        if self._positions is None:
            self._positions = positions_of(self._gang)
        positions, for_deviceless = self._positions, deviceless_depth(self._gang.levels)
        members_in: dict[GroupKey, Counter[Path]] = {}
        for standing, path in self._standing:
            for level in levels.of_groups:
                number = level.group_of(positions[standing.pod])
                if not number or (level.depth > for_deviceless and not standing.has_devices):
                    continue
                paths = members_in.setdefault((level.depth, number), Counter())
                if path[level.depth - 1]:
                    paths[path[: level.depth]] += 1
                elif self._gang.levels[level.depth - 1].required and not self._gang.moves:
                    # Counts for nothing beside members that are in a domain: with these, the group has one.
                    paths[("",) * level.depth] += 0
        return {key: min(paths, key=lambda path: (-paths[path], path)) for key, paths in members_in.items() if paths}
