"""Decides where the members of a gang go: bounds all domains, searches those that may do, and takes the best."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from controller.allocation import NodeDeviceCounts
from controller.cluster import Cluster, WhatIf
from controller.gangs.bounds import JointBounds, UnitBounds, fewest_needed, members_in_groups
from controller.gangs.domain_score import DomainScore, Figures
from controller.gangs.domain_search import DEFAULT_OPTIONS, DomainCandidate, OpenMembers, Searches, SearchOptions
from controller.gangs.exact_packing import SearchContext
from controller.gangs.gang import Domain, Gang, GangPlan, Member, Standing, TriedDomains
from controller.gangs.levels import EnforcedLevels, GroupLevel, WiderDomain, deviceless_depth, is_awaited, levels_to_try
from controller.gangs.memory import Memory
from controller.gangs.shared_claims import first_plan, lacking_claims, shared_claims
from controller.gangs.sub_groups import FurtherAttempts, SubGroupChoices
from controller.gangs.topology import DomainNodes, Path, by_path, common_path
from controller.gangs.tried import NOT_TOGETHER, DomainRecord, apart
from controller.gangs.units import CoLocatedMembers, in_order, units_of
from controller.placement import Placement
from controller.refusal import Refusal
from driver.errors import Fault
from driver.model import Allocation

_NOT_COMPARED: Final = Figures(0, (), 0, 0, 0)
_NO_NODES: Final = "the cluster has no nodes"


def choose(gang: Gang, cluster: Cluster, options: SearchOptions = DEFAULT_OPTIONS) -> GangPlan | Refusal[TriedDomains]:
    """Decide where the members of the gang go, or why there is no place for its minimum.

    A refusal with ``after`` may change then, because the gang gives up a preferred level.

    The answer depends on the gang and the cluster only, not on the order in which they were built.
    """
    if options.memory is None:
        options = replace(options, memory=Memory())
    if (insisting := gang.insisting()) is not None:
        # Without ``unfinished``: it is another question. What is preferred is worth no member.
        found = _choose_reach(insisting, cluster, replace(options, unfinished=None))
        if isinstance(found, GangPlan) and len(found.placements) == len(gang.members):
            return found
    answer = _choose_reach(gang, cluster, options)
    if isinstance(answer, GangPlan) or answer.faults:
        return answer
    lacking = lacking_claims(gang.members, cluster)
    return replace(answer, why=replace(answer.why, lacking=lacking)) if lacking else answer


def _choose_reach(gang: Gang, cluster: Cluster, options: SearchOptions) -> GangPlan | Refusal[TriedDomains]:
    """Decide as ``choose`` does; what the claims only prefer does not count."""
    refusal = None
    if shared := shared_claims(gang.members, cluster):
        # Without ``unfinished``: these are other questions.
        trial = replace(options, unfinished=None)
        found = first_plan(shared, cluster, gang, lambda asked: _choose(asked, cluster, trial))
        if isinstance(found, GangPlan):
            return found
        refusal = found
    answer = _choose(gang, cluster, options)
    # On one node each for those that share: a device that many nodes reach says more about what is missing.
    return answer if refusal is None or isinstance(answer, GangPlan) else refusal


def _choose(gang: Gang, cluster: Cluster, options: SearchOptions) -> GangPlan | Refusal[TriedDomains]:
    """Decide as ``choose`` does; those that share a claim come to one node."""
    # In one order, so that the same gang gets the same answer however its members came.
    gang = replace(gang, members=tuple(in_order(gang.members)))
    units = units_of(gang, cluster.devices, cluster.nodes)
    if isinstance(units, tuple):
        return Refusal(gang.key, TriedDomains(), faults=units)
    if options.unfinished is not None and not options.unfinished.forget_other_questions(gang, units, cluster):
        options = replace(options, unfinished=None)
    decision = _Decision(gang, units, cluster, options)
    needed = decision.run()
    if isinstance(needed, Refusal):
        return needed
    # Without ``unfinished``: these are other questions, and what is not needed is worth no second search.
    placements = [*needed, *_further(gang, needed, cluster, SearchOptions(options.budget, options.memory))]
    order = {member.demand.key: number for number, member in enumerate(gang.members)}
    placements.sort(key=lambda placement: order[placement.pod])
    return GangPlan(decision.domain_of(placements), tuple(placements))


def _further(gang: Gang, placed: Sequence[Placement], cluster: Cluster, options: SearchOptions) -> Iterator[Placement]:
    """Places members beyond the minimum, as many as fit.

    Complete sub-groups come first, then members of no sub-group, and of sub-groups with members that have their place.
    """
    # Each attempt is a decision of its own on the cluster in which those before are placed. So the members that are
    # needed are where they would be if these were all, and none of them stays out for one that is not needed.
    attempts = FurtherAttempts()
    units: Sequence[CoLocatedMembers] | tuple[Fault, ...] = []
    members: Sequence[Member] = ()
    with cluster.what_if() as trial:
        while len(placed) < len(gang.members) and (placed or attempts.continues):
            if placed:
                _place(trial, gang, placed)
                gang = _without(gang, placed)
            asked = attempts.next_gang(gang)
            if asked.members is not members:
                members, units = asked.members, units_of(asked, cluster.devices, cluster.nodes)
            assert not isinstance(units, tuple)
            answer = _Decision(asked, units, cluster, options).run() if units else ()
            placed = () if isinstance(answer, Refusal) else answer
            attempts.record(placed=bool(placed))
            yield from placed


def _place(trial: WhatIf, gang: Gang, placements: Sequence[Placement]) -> None:
    """Count the members at these places. What members share counts once."""
    demands = {member.demand.key: member.demand for member in gang.members}
    given: dict[str, Allocation] = {}
    for placement in placements:
        demand = demands[placement.pod]
        trial.add_pod(demand.key, demand.needs, placement.node)
        for claim, allocation in demand.given(placement):
            given.setdefault(claim.uid, allocation)
    for uid, allocation in given.items():
        trial.use(uid, allocation)


def _without(gang: Gang, placements: Sequence[Placement]) -> Gang:
    """The gang after these placements."""
    placed = {placement.pod: placement for placement in placements}
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
        sub_groups=tuple([replace(kind, minimum=0) for kind in gang.sub_groups]),
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
        self._standing = [(standing, self._topology.path_of(standing)) for standing in gang.standing]
        of_tasks = Counter(standing.task for standing in gang.standing)
        self._needed_of_tasks = {
            task: least - of_tasks[task] for task, least in gang.task_minimums if least > of_tasks[task]
        }
        # At least one, even if those that stand are enough: a plan that places nobody is none.
        needed = max(1, gang.minimum - len(gang.standing))
        self._sub_groups = SubGroupChoices(gang, units, needed, self._needed_of_tasks)
        self._needed = self._sub_groups.needed
        counted = Counter(unit.shape for unit in units)
        self._main = min(counted, key=lambda shape: (-counted[shape], shape.number), default=None)
        """The shape of most units. Capacity is counted in members of this shape."""
        self._members = sum([unit.shape is self._main for unit in units])
        self._deviceless_depth = deviceless_depth(gang.levels)
        self._with_devices = any(unit.shape.has_devices for unit in units)
        self._some_without = any(not unit.shape.has_devices for unit in units)
        self._outer_capacities: dict[Path, int] = {}
        """Capacities of the domains around others, by path."""
        self._bounds: dict[DomainNodes, UnitBounds] = {}
        self._sizes: dict[tuple[GroupLevel, bool], tuple[int, Sequence[int]]] = {}
        self._devices: dict[DomainNodes, Sequence[NodeDeviceCounts]] = {}
        self._joint_bounds: dict[DomainNodes, JointBounds] = {}
        self._too_few: dict[Path, tuple[int, Sequence[int], WiderDomain | None, SearchContext]] = {}
        """Domains that were ruled out without a search."""
        self._tried = DomainRecord(self._topology, len(gang.standing), self._needed)
        members = OpenMembers(gang, units, self._standing, self._sub_groups)
        self._searches = Searches(members, cluster, self._tried, self._score, options)

    def run(self) -> Sequence[Placement] | Refusal[TriedDomains]:
        """Place at least the needed members, and more if the domain has capacity; or say why there is no place."""
        gang = self._gang
        if not gang.members:
            return ()
        present = Counter(member.task for member in gang.members)
        missing = [task for task, needed in self._needed_of_tasks.items() if present[task] < needed]
        if len(gang.members) < self._needed:
            self._tried.record((), len(gang.members), f"only {len(gang.members)} members are there to be placed")
        elif self._sub_groups.impossible:
            self._tried.record((), self._needed - 1, self._sub_groups.impossible)
        elif missing:
            few = f"too few members of task {', '.join(missing)} are there to be placed"
            self._tried.record((), self._needed - 1, few)
        else:
            for levels in levels_to_try(gang):
                placements = self._with_all_inside(levels) or self._with_some_outside(levels)
                if placements is not None:
                    return placements
        for path, (bound, inside, wider, context) in self._too_few.items():
            limits = context.bounds.limits(inside, wider.inside if wider else None)
            self._tried.record(path, bound, limits or apart(NOT_TOGETHER, gang, context.levels.of_groups))
        waits = [level.wait_seconds - gang.elapsed for level in gang.levels if is_awaited(level, gang)]
        tried = TriedDomains(self._tried.in_order(), self._outside(), self._nowhere())
        return Refusal(gang.key, tried, after=min(waits, default=None))

    def _nowhere(self) -> str:
        """A member that no node takes, as far as counting and the searches found out; "" if there is none."""
        found = [bounds.nowhere() for bounds in self._bounds.values()]
        shapes = [shape for shape in found if shape is not None]
        # Another tier has other nodes: only what no tier takes is taken nowhere.
        return shapes[0].pods[0].key if shapes and len(shapes) == len(found) and len({*shapes}) == 1 else ""

    def _outside(self) -> tuple[int, str]:
        """Number of nodes in no domain of the widest level that was tried, and the key of the level."""
        depth = min((levels.depth for levels in levels_to_try(self._gang)), default=0)
        return (self._topology.outside(depth), self._gang.levels[depth - 1].key) if depth else (0, "")

    def domain_of(self, placements: Sequence[Placement]) -> Domain:
        """The smallest domain with all members that have a place. Members without devices may be outside."""
        paths = [(standing.has_devices, path) for standing, path in self._standing]
        paths += [(bool(placement.allocations), self._topology.path_of_new(placement)) for placement in placements]
        # A launcher without devices may be anywhere; only if nobody has devices is the domain that of all.
        deciding = [path for has_devices, path in paths if has_devices]
        return self._topology.domain(common_path(deciding or [path for _, path in paths]))

    # Attempts: one for each set of levels that has to hold.

    def _with_all_inside(self, levels: EnforcedLevels) -> Sequence[Placement] | None:
        """Placements of all members, also those without devices, in the best domain."""
        # Half of the steps are kept for the second try, which may be the only one that can succeed.
        return self._attempt(levels, part=2 if self._may_be_outside(levels) else 1)

    def _with_some_outside(self, levels: EnforcedLevels) -> Sequence[Placement] | None:
        """The same, if attribute levels need not hold for members without devices."""
        if not self._may_be_outside(levels):
            return None
        for_all = levels.down_to(self._deviceless_depth)
        return self._attempt(levels, wider_depth=for_all.depth) if self._with_devices else self._attempt(for_all)

    def _may_be_outside(self, levels: EnforcedLevels) -> bool:
        return self._some_without and levels.deepest > self._deviceless_depth

    def _attempt(
        self, levels: EnforcedLevels, wider_depth: int | None = None, part: int = 1
    ) -> Sequence[Placement] | None:
        """Placements of members in the best domain.

        Args:
            wider_depth: depth of the innermost level that also holds for members without devices; None if all levels
                do.
            part: uses one in ``part`` of the steps that are left.
        """
        domain_nodes = self._topology.domain_nodes(levels.deepest)
        bounds = self._bounds.get(domain_nodes)
        if bounds is None:
            bounds = UnitBounds(self._units, domain_nodes, self._fleet, self._nodes, self._memory)
            self._bounds[domain_nodes] = bounds
        devices = self._devices_of(domain_nodes) if len(bounds.wanted) > 1 else None
        context = SearchContext(levels, domain_nodes, bounds, devices)
        domains = self._domains(levels, domain_nodes)
        placements = self._in_best_of(context, domains, wider_depth, part)
        if placements is None and wider_depth is not None:
            # Where members with devices have no domain, others may be enough.
            tried = {path[:wider_depth] for path in domains}
            wider_domains = self._domains(levels.down_to(self._deviceless_depth), domain_nodes)
            others = [path for path in wider_domains if path[:wider_depth] not in tried]
            placements = self._in_best_of(context, dict.fromkeys(others, ()), wider_depth, part)
        return placements

    def _in_best_of(
        self, context: SearchContext, domains: Mapping[Path, Sequence[int]], wider_depth: int | None, part: int
    ) -> Sequence[Placement] | None:
        """Placements in the best of these domains. Those without nodes take members without devices only."""
        domain_nodes = context.domain_nodes
        possible = []
        for path, inside in domains.items():
            wider = None
            if wider_depth is not None:
                wider = WiderDomain(self._deviceless_depth, domain_nodes.domains(wider_depth)[path[:wider_depth]])
            bound = self._bound(context, inside, wider.inside if wider else None)
            # A domain that was ruled out with more levels may do with fewer; then its search says what fits.
            if bound >= self._needed:
                self._too_few.pop(path, None)
                possible.append((path, inside, wider))
            elif inside:
                self._too_few[path] = bound, inside, wider, context
        compared = len(possible) > 1 and all(inside for _, inside, _ in possible)
        candidates = [
            self._candidate(context, path, inside, wider, compared=compared) for path, inside, wider in possible
        ]
        candidates.sort(key=lambda candidate: candidate.least)
        return self._searches.best(candidates, context, part)

    def _bound(self, context: SearchContext, inside: Sequence[int], wider: Sequence[int] | None) -> int:
        """Most members on the nodes, with those without devices on the nodes ``wider``."""
        levels, domain_nodes, bounds = context.levels, context.domain_nodes, context.bounds
        most = bounds.most_members(inside, wider)
        outside = 0 if wider is None else bounds.most_members((), wider)
        # From the cheapest bound to the dearest: most domains are ruled out by the first one.
        if most >= self._needed and len(bounds.wanted) > 1:
            most = min(most, outside + self._most_together(inside, domain_nodes, bounds))
        for level in levels.of_groups if most >= self._needed else ():
            domains = by_path([domain_nodes[node] for node in inside], level.depth).values()
            capacities = [bounds.most_members(nodes, None if wider is None else ()) for nodes in domains]
            # Counted in sub-groups, too: two racks that take 3 members each take no sub-group of 4, though 6 fit.
            of_sub_groups = wider is None and level.is_of_sub_groups
            if of_sub_groups and self._sub_groups.most_complete(capacities) < self._sub_groups.required:
                most = min(most, self._needed - 1)
            in_no_group, sizes = self._sizes_of(level, every=wider is None)
            most = min(most, in_no_group + outside + members_in_groups(capacities, sizes))
        if any(bounds.most_of_task(task, inside, wider) < needed for task, needed in self._needed_of_tasks.items()):
            most = min(most, self._needed - 1)
        return most

    def _sizes_of(self, level: GroupLevel, *, every: bool) -> tuple[int, Sequence[int]]:
        """Number of members to place in no group of the level, and in each group.

        Args:
            every: whether members without devices count.
        """
        sizes = self._sizes.get((level, every))
        if sizes is None:
            units = [unit for unit in self._units if every or unit.shape.has_devices]
            groups = Counter(level.group_of(position) for unit in units for position in unit.positions)
            sizes = self._sizes[level, every] = groups.pop((), 0), [*groups.values()]
        return sizes

    def _most_together(self, inside: Sequence[int], domain_nodes: DomainNodes, bounds: UnitBounds) -> int:
        """Most members of all shapes together on the nodes."""
        capacities = [bounds.most_members_on(node) for node in inside]
        return self._joint_bounds_on(domain_nodes).most_members(inside, capacities)

    def _joint_bounds_on(self, domain_nodes: DomainNodes) -> JointBounds:
        bounds = self._joint_bounds.get(domain_nodes)
        if bounds is None:
            bounds = JointBounds(self._units, domain_nodes, self._devices_of(domain_nodes), self._nodes)
            self._joint_bounds[domain_nodes] = bounds
        return bounds

    def _domains(self, levels: EnforcedLevels, domain_nodes: DomainNodes) -> Mapping[Path, Sequence[int]]:
        """The domains that the gang may use: those of its members with a place, if it has any."""
        domains = domain_nodes.domains(levels.depth)
        if not domains:
            depth = levels.depth
            where = f"no node is in a domain of {self._gang.levels[depth - 1].key}" if depth else _NO_NODES
            self._tried.record((), 0, where)
        # From the innermost level outwards: the first one that a member with a place has a domain of decides.
        for depth in range(levels.depth, 0, -1):
            level = self._gang.levels[depth - 1]
            standing = [path for one, path in self._standing if depth <= self._deviceless_depth or one.has_devices]
            in_use = {path[:depth] for path in standing if path[depth - 1]}
            if in_use:
                return {path: inside for path, inside in domains.items() if path[:depth] in in_use}
            if standing and level.required and not self._gang.moves:
                self._tried.record((), 0, f"the members that stand are in no domain of {level.key}")
                return {}
        return domains

    def _candidate(
        self,
        context: SearchContext,
        path: Path,
        inside: Sequence[int],
        wider: WiderDomain | None,
        *,
        compared: bool,
    ) -> DomainCandidate:
        """Describe a domain. Its figures are found only if it is compared with others."""
        levels, domain_nodes, bounds = context.levels, context.domain_nodes, context.bounds
        sub_domain_depth = levels.depth + 1
        sub_domains: dict[Path, list[int]] = {}
        for node in inside:
            sub_domains.setdefault(domain_nodes[node].below[:sub_domain_depth], []).append(node)
        # Members without devices that may be outside use no sub-domain.
        wanted = {shape: units for shape, units in bounds.wanted.items() if wider is None or shape.has_devices}
        fewest = bounds.fewest_sub_domains(wanted, len(self._gang.members) - self._needed, sub_domains)
        if wider is None and len(bounds.wanted) > 1:
            fewest = max(fewest, self._joint_bounds_on(domain_nodes).fewest_sub_domains(sub_domains, self._needed))
        for level in levels.of_groups if wider is None else ():
            if level.is_of_sub_groups:
                fewest = max(fewest, self._fewest_for_sub_groups(level, sub_domains, domain_nodes, bounds))
        figures = self._figures(context, path, inside) if compared else _NOT_COMPARED
        return DomainCandidate(
            path,
            inside,
            least=self._score(path, fewest, figures),
            figures=figures,
            sub_domains=len(sub_domains),
            fewest=fewest,
            wider=wider,
        )

    def _fewest_for_sub_groups(
        self,
        level: GroupLevel,
        sub_domains: Mapping[Path, Sequence[int]],
        domain_nodes: DomainNodes,
        bounds: UnitBounds,
    ) -> int:
        """Fewest domains of the next level, if each sub-group stays in one domain of the level."""
        capacities = {}
        for path, inside in sub_domains.items():
            domains = by_path([domain_nodes[node] for node in inside], level.depth).values()
            capacities[path] = self._sub_groups.most_complete([bounds.most_members(nodes) for nodes in domains])
        return fewest_needed(capacities, self._sub_groups.required)

    def _figures(self, context: SearchContext, path: Path, inside: Sequence[int]) -> Figures:
        assert self._main is not None
        domain_nodes, bounds = context.domain_nodes, context.bounds
        depths = [depth for depth in range(context.levels.depth) if not depth or path[depth - 1]]
        outer = [self._outer_capacity(path[:depth], domain_nodes, bounds) for depth in depths]
        devices = self._devices_of(domain_nodes)
        counts = [devices[node] for node in inside]
        return Figures(
            bounds.most_units(self._main, inside),
            tuple(outer),
            sum([of_node.total for of_node in counts]),
            sum([of_node.available for of_node in counts]),
            sum([of_node.tainted for of_node in counts]),
        )

    def _devices_of(self, domain_nodes: DomainNodes) -> Sequence[NodeDeviceCounts]:
        counts = self._devices.get(domain_nodes)
        if counts is None:
            counts = self._memory.devices(self._topology, domain_nodes, self._fleet, self._nodes)
            self._devices[domain_nodes] = counts
        return counts

    def _outer_capacity(self, path: Path, domain_nodes: DomainNodes, bounds: UnitBounds) -> int:
        assert self._main is not None
        capacity = self._outer_capacities.get(path)
        if capacity is None:
            capacity = bounds.most_units(self._main, domain_nodes.domains(len(path))[path])
            self._outer_capacities[path] = capacity
        return capacity

    def _score(self, path: Path, sub_domains: int, figures: Figures) -> DomainScore:
        members = min(self._needed, self._members)
        return self._scoring(path, sub_domains, members, figures, self._gang)
