"""Decides where the members of a gang go: bounds all domains, searches those that may do, and takes the best."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from controller.allocation import ClaimFault, NodeDeviceCounts
from controller.cluster import Cluster, WhatIf
from controller.gangs.bounds import Counts, members_in_groups
from controller.gangs.domain_score import DomainScore, Figures, least_children
from controller.gangs.domain_search import DEFAULT_OPTIONS, DomainCandidate, OpenMembers, Searches, SearchOptions
from controller.gangs.fitting import fewest
from controller.gangs.gang import Domain, Gang, GangPlan, GangRefusal, Member, Standing
from controller.gangs.levels import GroupLevel, Reach, Tier, is_awaited, levels_of_all, tiers_of
from controller.gangs.memory import Memory
from controller.gangs.mixed_bounds import Competition
from controller.gangs.search_context import SearchContext
from controller.gangs.topology import DomainNodes, Path, by_path, common
from controller.gangs.units import CoLocatedMembers, in_order, units_of
from controller.gangs.verdicts import NOT_TOGETHER, Verdicts
from controller.gangs.wholes import Growth, Wholes
from controller.placement import Placement
from driver.model import Allocation

_NOT_COMPARED: Final = Figures(0, (), 0, 0, 0)
_NO_NODES: Final = "the cluster has no nodes"


def choose(gang: Gang, cluster: Cluster, options: SearchOptions = DEFAULT_OPTIONS) -> GangPlan | GangRefusal:
    """Decide where the members of the gang go, or why there is no place for its minimum.

    The answer depends on the gang and the cluster only, not on the order in which they were built.
    """
    if options.memory is None:
        options = replace(options, memory=Memory())
    gang = replace(gang, members=tuple(in_order(gang.members)))
    units = units_of(gang, cluster.devices, cluster.nodes)
    if isinstance(units, tuple):
        return GangRefusal(faults=units)
    if options.unfinished is not None and not options.unfinished.ask(gang, units, cluster):
        options = replace(options, unfinished=None)
    decision = _Decision(gang, units, cluster, options)
    found = decision.run()
    if isinstance(found, GangRefusal):
        return found
    placements = [*found, *_further(gang, found, cluster, SearchOptions(options.budget, options.memory))]
    order = {member.demand.key: number for number, member in enumerate(gang.members)}
    placements.sort(key=lambda placement: order[placement.pod])
    return GangPlan(decision.domain_of(placements), tuple(placements))


def _further(gang: Gang, found: Sequence[Placement], cluster: Cluster, options: SearchOptions) -> Iterator[Placement]:
    """Places members beyond the minimum, as many as there is room for.

    Whole sub-groups come first, then members of no sub-group, and of sub-groups with members that have their place.
    """
    growth = Growth()
    units: Sequence[CoLocatedMembers] | tuple[ClaimFault, ...] = []
    members: Sequence[Member] = ()
    with cluster.what_if() as trial:
        while len(found) < len(gang.members) and (found or growth.goes_on):
            if found:
                _place(trial, gang, found)
                gang = _without(gang, found)
            asked = growth.next_of(gang)
            if asked.members is not members:
                members, units = asked.members, units_of(asked, cluster.devices, cluster.nodes)
            assert not isinstance(units, tuple)
            answer = _Decision(asked, units, cluster, options).run() if units else ()
            found = () if isinstance(answer, GangRefusal) else answer
            growth.note(found=bool(found))
            yield from found


def _place(trial: WhatIf, gang: Gang, found: Sequence[Placement]) -> None:
    """Count the members at these places. What members share counts once."""
    demands = {member.demand.key: member.demand for member in gang.members}
    given: dict[str, Allocation] = {}
    for placement in found:
        demand = demands[placement.pod]
        trial.add_pod(demand.key, demand.needs, placement.node)
        for claim, allocation in demand.given(placement):
            given.setdefault(claim.uid, allocation)
    for uid, allocation in given.items():
        trial.use(uid, allocation)


def _without(gang: Gang, found: Sequence[Placement]) -> Gang:
    """The gang after these placements."""
    placed = {placement.pod: placement for placement in found}
    every = [(member, placed.get(member.demand.key)) for member in gang.members]
    standing = tuple(
        Standing(
            member.demand.key,
            placement,
            rank=member.rank,
            leader=member.leader,
            task=member.task,
            sub_group=member.sub_group,
        )
        for member, placement in every
        if placement
    )
    left = tuple(member for member, placement in every if not placement)
    return replace(
        gang,
        members=left,
        standing=(*gang.standing, *standing),
        minimum=1,
        task_minimums=(),
        sub_groups=tuple([replace(one, minimum=0) for one in gang.sub_groups]),
        starts=False,
    )


class _Decision:
    """One decision: places at least the members that are needed."""

    def __init__(self, gang: Gang, units: Sequence[CoLocatedMembers], cluster: Cluster, options: SearchOptions):
        assert options.memory is not None
        self._gang = gang
        self._units = units
        self._fleet = cluster.devices
        self._nodes = cluster.nodes
        self._requests = tuple(dict.fromkeys(unit.shape.request for unit in units if unit.claims))
        self._memory = options.memory
        self._scoring = options.scoring
        self._topology = self._memory.topology(gang.levels, cluster.devices, cluster.nodes, self._requests)
        self._standing = [(one, self._topology.path_of(one)) for one in gang.standing]
        stand = Counter(one.task for one in gang.standing)
        self._needed_of_tasks = {task: least - stand[task] for task, least in gang.task_minimums if least > stand[task]}
        self._wholes = Wholes(gang, units, max(1, gang.minimum - len(gang.standing)), self._needed_of_tasks)
        self._needed = self._wholes.needed
        counted = Counter(unit.shape for unit in units)
        self._main = min(counted, key=lambda shape: (-counted[shape], shape.number), default=None)
        """The shape of most units. Room is counted in members of this shape."""
        self._members = sum([unit.shape is self._main for unit in units])
        self._of_all = levels_of_all(gang.levels)
        self._with_devices = any(unit.shape.has_devices for unit in units)
        self._some_without = any(not unit.shape.has_devices for unit in units)
        self._rooms: dict[Path, int] = {}
        """Room of the domains around others, by path."""
        self._counts: dict[DomainNodes, Counts] = {}
        self._sizes: dict[tuple[GroupLevel, bool], tuple[int, Sequence[int]]] = {}
        self._devices: dict[DomainNodes, Sequence[NodeDeviceCounts]] = {}
        self._competition: dict[DomainNodes, Competition] = {}
        self._too_few: dict[Path, tuple[int, Sequence[int], Reach | None, Counts]] = {}
        self._verdicts = Verdicts(self._topology, len(gang.standing), self._needed)
        members = OpenMembers(gang, units, self._standing, self._wholes)
        self._searches = Searches(members, cluster, self._verdicts, self._score, options)

    def run(self) -> Sequence[Placement] | GangRefusal:
        """Place at least the needed members, and more if the domain has room; or say why there is no place."""
        gang = self._gang
        if not gang.members:
            return ()
        there = Counter(member.task for member in gang.members)
        missing = [task for task, needed in self._needed_of_tasks.items() if there[task] < needed]
        if len(gang.members) < self._needed:
            self._verdicts.note((), len(gang.members), f"only {len(gang.members)} members are there to be placed")
        elif self._wholes.missing:
            self._verdicts.note((), self._needed - 1, self._wholes.missing)
        elif missing:
            few = f"too few members of task {', '.join(missing)} are there to be placed"
            self._verdicts.note((), self._needed - 1, few)
        else:
            for tier in tiers_of(gang):
                found = self._with_all_inside(tier) or self._with_some_outside(tier)
                if found is not None:
                    return found
        for path, (bound, inside, around, counts) in self._too_few.items():
            limits = counts.limits(inside, around.places if around else None)
            self._verdicts.note(path, bound, limits or NOT_TOGETHER)
        waits = [level.wait_seconds - gang.elapsed for level in gang.levels if is_awaited(level, gang)]
        return GangRefusal(self._verdicts.in_order(), wait=min(waits, default=None), outside=self._outside())

    def _outside(self) -> tuple[int, str]:
        """Number of nodes in no domain of the widest level that was tried, and the key of the level."""
        depth = min((tier.depth for tier in tiers_of(self._gang)), default=0)
        return (self._topology.outside(depth), self._gang.levels[depth - 1].key) if depth else (0, "")

    def domain_of(self, placements: Sequence[Placement]) -> Domain:
        """The smallest domain with all members that have a place. Members without devices may be outside."""
        paths = [(one.has_devices, path) for one, path in self._standing]
        paths += [(bool(one.allocations), self._topology.path_of_new(one)) for one in placements]
        deciding = [path for has_devices, path in paths if has_devices]
        return self._topology.domain(common(deciding or [path for _, path in paths]))

    # Tiers

    def _with_all_inside(self, tier: Tier) -> Sequence[Placement] | None:
        """Places for all members, also those without devices, in the best domain."""
        return self._in_tier(tier, part=2 if self._may_be_outside(tier) else 1)

    def _with_some_outside(self, tier: Tier) -> Sequence[Placement] | None:
        """The same, if attribute levels need not hold for members without devices."""
        if not self._may_be_outside(tier):
            return None
        of_all = tier.down_to(self._of_all)
        return self._in_tier(tier, reach=of_all.depth) if self._with_devices else self._in_tier(of_all)

    def _may_be_outside(self, tier: Tier) -> bool:
        return self._some_without and tier.deepest > self._of_all

    def _in_tier(self, tier: Tier, reach: int | None = None, part: int = 1) -> Sequence[Placement] | None:
        """Places for members in the best domain.

        Args:
            reach: depth of the innermost level that also holds for members without devices; None if all levels do.
            part: uses one in ``part`` of the steps that are left.
        """
        places = self._topology.places(tier.deepest)
        counts = self._counts.get(places)
        if counts is None:
            counts = self._counts[places] = Counts(self._units, places, self._fleet, self._nodes, self._memory)
        devices = self._devices_of(places) if len(counts.wanted) > 1 else None
        context = SearchContext(tier, places, counts, devices)
        domains = self._domains(tier, places)
        found = self._among(context, domains, reach, part)
        if found is None and reach is not None:
            # Where members with devices have no domain, others may be enough.
            served = {path[:reach] for path in domains}
            outer = [path for path in self._domains(tier.down_to(self._of_all), places) if path[:reach] not in served]
            found = self._among(context, dict.fromkeys(outer, ()), reach, part)
        return found

    def _among(
        self, context: SearchContext, domains: Mapping[Path, Sequence[int]], reach: int | None, part: int
    ) -> Sequence[Placement] | None:
        """Places in the best of these domains. Those without places have room for members without devices only."""
        places, counts = context.places, context.counts
        surviving = []
        for path, inside in domains.items():
            around = None if reach is None else Reach(self._of_all, places.domains(reach)[path[:reach]])
            bound = self._bound(context, inside, around.places if around else None)
            if bound >= self._needed:
                self._too_few.pop(path, None)
                surviving.append((path, inside, around))
            elif inside:
                self._too_few[path] = bound, inside, around, counts
        compared = len(surviving) > 1 and all(inside for _, inside, _ in surviving)
        candidates = [
            self._candidate(context, path, inside, around, compared=compared) for path, inside, around in surviving
        ]
        candidates.sort(key=lambda candidate: candidate.least)
        return self._searches.best(candidates, context, part)

    def _bound(self, context: SearchContext, inside: Sequence[int], around: Sequence[int] | None) -> int:
        """Most members on the places, with those without devices on the places ``around``."""
        tier, places, counts = context.tier, context.places, context.counts
        found = counts.members(inside, around)
        outside = 0 if around is None else counts.members((), around)
        if found >= self._needed and len(counts.wanted) > 1:
            found = min(found, outside + self._together(inside, places, counts))
        for group in tier.groups if found >= self._needed else ():
            domains = by_path([places[at] for at in inside], group.depth).values()
            rooms = [counts.members(some, None if around is None else ()) for some in domains]
            if around is None and group.is_of_sub_groups and self._wholes.most_in(rooms) < self._wholes.lacking:
                found = min(found, self._needed - 1)
            alone, sizes = self._sizes_of(group, every=around is None)
            found = min(found, alone + outside + members_in_groups(rooms, sizes))
        if any(counts.of_task(task, inside, around) < needed for task, needed in self._needed_of_tasks.items()):
            found = min(found, self._needed - 1)
        return found

    def _sizes_of(self, level: GroupLevel, *, every: bool) -> tuple[int, Sequence[int]]:
        """Number of members to place in no group of the level, and in each group.

        Args:
            every: whether members without devices count.
        """
        found = self._sizes.get((level, every))
        if found is None:
            units = [unit for unit in self._units if every or unit.shape.has_devices]
            groups = Counter(level.number(seat) for unit in units for seat in unit.seats)
            found = self._sizes[level, every] = groups.pop((), 0), [*groups.values()]
        return found

    def _together(self, inside: Sequence[int], places: DomainNodes, counts: Counts) -> int:
        """Most members of all shapes together on the places."""
        return self._competition_on(places).members(inside, [counts.members_at(at) for at in inside])

    def _competition_on(self, places: DomainNodes) -> Competition:
        competition = self._competition.get(places)
        if competition is None:
            competition = Competition(self._units, places, self._devices_of(places), self._nodes)
            self._competition[places] = competition
        return competition

    def _domains(self, tier: Tier, places: DomainNodes) -> Mapping[Path, Sequence[int]]:
        """The domains that the gang may use: those of its members with a place, if it has any."""
        domains = places.domains(tier.depth)
        if not domains:
            where = f"no node is in a domain of {self._gang.levels[tier.depth - 1].key}" if tier.depth else _NO_NODES
            self._verdicts.note((), 0, where)
        for depth in range(tier.depth, 0, -1):
            level = self._gang.levels[depth - 1]
            standing = [path for one, path in self._standing if depth <= self._of_all or one.has_devices]
            stood = {path[:depth] for path in standing if path[depth - 1]}
            if stood:
                return {path: inside for path, inside in domains.items() if path[:depth] in stood}
            if standing and level.required and not self._gang.moves:
                self._verdicts.note((), 0, f"the members that stand are in no domain of {level.key}")
                return {}
        return domains

    def _candidate(
        self,
        context: SearchContext,
        path: Path,
        inside: Sequence[int],
        reach: Reach | None,
        *,
        compared: bool,
    ) -> DomainCandidate:
        """Describe a domain. Its figures are found only if it is compared with others."""
        tier, places, counts = context.tier, context.places, context.counts
        child_depth = tier.depth + 1
        children: dict[Path, list[int]] = {}
        for at in inside:
            children.setdefault(places[at].below[:child_depth], []).append(at)
        wanted = {shape: units for shape, units in counts.wanted.items() if reach is None or shape.has_devices}
        least = least_children(wanted, len(self._gang.members) - self._needed, counts, children)
        if reach is None and len(counts.wanted) > 1:
            least = max(least, self._competition_on(places).fewest_children(children, self._needed))
        for group in tier.groups if reach is None else ():
            if group.is_of_sub_groups:
                least = max(least, self._least_children_of_wholes(group, children, places, counts))
        figures = self._figures(context, path, inside) if compared else _NOT_COMPARED
        return DomainCandidate(
            path,
            inside,
            least=self._score(path, least, figures),
            figures=figures,
            children=len(children),
            fewest=least,
            reach=reach,
        )

    def _least_children_of_wholes(
        self, group: GroupLevel, children: Mapping[Path, Sequence[int]], places: DomainNodes, counts: Counts
    ) -> int:
        """Fewest domains of the next level, if each sub-group stays in one domain of the level."""
        rooms = {}
        for path, inside in children.items():
            domains = by_path([places[at] for at in inside], group.depth).values()
            rooms[path] = self._wholes.most_in([counts.members(some) for some in domains])
        return fewest(rooms, self._wholes.lacking)

    def _figures(self, context: SearchContext, path: Path, inside: Sequence[int]) -> Figures:
        assert self._main is not None
        places, counts = context.places, context.counts
        depths = [depth for depth in range(context.tier.depth) if not depth or path[depth - 1]]
        around = [self._room_around(path[:depth], places, counts) for depth in depths]
        devices = self._devices_of(places)
        found = [devices[at] for at in inside]
        return Figures(
            counts.room(self._main, inside),
            tuple(around),
            sum([one.total for one in found]),
            sum([one.available for one in found]),
            sum([one.tainted for one in found]),
        )

    def _devices_of(self, places: DomainNodes) -> Sequence[NodeDeviceCounts]:
        found = self._devices.get(places)
        if found is None:
            found = self._memory.devices(self._topology, places, self._fleet, self._nodes)
            self._devices[places] = found
        return found

    def _room_around(self, path: Path, places: DomainNodes, counts: Counts) -> int:
        assert self._main is not None
        found = self._rooms.get(path)
        if found is None:
            found = self._rooms[path] = counts.room(self._main, places.domains(len(path))[path])
        return found

    def _score(self, path: Path, children: int, figures: Figures) -> DomainScore:
        members = min(self._needed, self._members)
        return self._scoring(path, children, members, figures, self._gang)
