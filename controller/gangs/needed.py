"""Places the members that are needed: bounds all domains, searches those that may do, and takes the best."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation import NodeDeviceCounts
from controller.cluster import Cluster
from controller.gangs.bounds import JointBounds, UnitBounds, fewest_needed, members_in_groups
from controller.gangs.domain_search import DomainCandidate, OpenMembers, Searches, SearchOptions
from controller.gangs.domains import NOT_TOGETHER, DomainRecord, DomainScore, Figures, apart
from controller.gangs.exact_packing import SearchContext
from controller.gangs.gang import Domain, Gang, TriedDomains
from controller.gangs.levels import EnforcedLevels, GroupLevel, WiderDomain, deviceless_depth, is_awaited, levels_to_try
from controller.gangs.sub_groups import SubGroupChoices
from controller.gangs.topology import DomainNodes, Path, by_path, common_path
from controller.gangs.units import CoLocatedMembers
from controller.gangs.value_rules import Capacities, MemberRules, Unconstrained, ValueCounts
from controller.placement import Placement
from controller.refusal import Refusal

_NOT_COMPARED: Final = Figures(0, (), 0, 0, 0)
_NO_NODES: Final = "the cluster has no nodes"


@dataclass(frozen=True, slots=True)
class FoundPlaces:
    """Places for the members that are needed.

    Attributes:
        attempt: number of the attempt that found them: with all levels first.
        score: of the domain; None if nobody is to be placed.
    """

    decision: "Decision"
    placements: Sequence[Placement]
    attempt: int = 0
    score: DomainScore | None = None

    @property
    def rank(self) -> tuple[int, DomainScore]:
        """The smallest is best."""
        assert self.score is not None
        return self.attempt, self.score

    def costs_no_more_than(self, other: "FoundPlaces") -> bool:
        """Whether it gives up no level that the other keeps, and uses no more sub-domains and no more nodes."""
        pairs = [(one.attempt, one.rank[1][0], len({place.node for place in one.placements})) for one in (self, other)]
        return all(mine <= others for mine, others in zip(*pairs, strict=True))


class Decision:
    """One decision: places at least the members that are needed.

    Args:
        rules: what the values of the members' devices have to be; None for any.
        counts: counts values; None if these do not matter.
    """

    def __init__(
        self,
        gang: Gang,
        units: Sequence[CoLocatedMembers],
        cluster: Cluster,
        options: SearchOptions,
        rules: MemberRules | None = None,
        counts: ValueCounts | None = None,
    ):
        assert options.memory is not None
        self._rules = rules
        self._counts = counts
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
        self._least_scores: dict[tuple[Path, int], DomainScore] = {}
        """Scores of domains without regard to values, by the number of their sub-domains in use."""
        self._bounds: dict[DomainNodes, UnitBounds] = {}
        self._sizes: dict[tuple[GroupLevel, bool], tuple[int, Sequence[int]]] = {}
        self._devices: dict[DomainNodes, Sequence[NodeDeviceCounts]] = {}
        self._joint_bounds: dict[DomainNodes, JointBounds] = {}
        self._too_few: dict[Path, tuple[int, Sequence[int], WiderDomain | None, SearchContext]] = {}
        """Domains that were ruled out without a search."""
        self._tried = DomainRecord(self._topology, len(gang.standing), self._needed)
        members = OpenMembers(gang, units, self._standing, self._sub_groups)
        self._searches = Searches(members, cluster, self._tried, self._score, options=options, rules=rules)

    @property
    def steps_left(self) -> int:
        """Steps that are left of the budget."""
        return self._searches.steps_left

    def unconstrained(self) -> Unconstrained:
        """How the gang is decided without constraints, once it has been."""
        *_, levels = levels_to_try(self._gang)
        domain_nodes = self._topology.domain_nodes(levels.deepest)
        bounds = UnitBounds(self._units, domain_nodes, self._fleet, self._nodes, self._memory)
        return Unconstrained(domain_nodes, bounds, levels.depth, self._needed)

    def least_rank(self, capacities: Capacities, counts: ValueCounts) -> tuple[int, DomainScore] | None:
        """The best rank of places with these capacities, as far as counting tells; None if it tells nothing."""
        if self._topology.divided:
            return None
        needed = max(1, self._needed - capacities.anywhere)
        for number, levels in enumerate(levels_to_try(self._gang)):
            if capacities.largest(levels.depth) < needed:
                continue
            scores: list[DomainScore] = []
            for domain in capacities.domains(levels.depth):
                if domain.most >= needed:
                    fewest = max(1, fewest_needed(domain.sub_domains, needed))
                    scores.append(self._least_score(levels, domain.path, fewest, counts))
            return number, min(scores)
        return None

    def _least_score(self, levels: EnforcedLevels, path: Path, sub_domains: int, counts: ValueCounts) -> DomainScore:
        # The same for many sets of values, which differ in the number of sub-domains at most.
        score = self._least_scores.get((path, sub_domains))
        if score is None:
            score = self._score(path, sub_domains, self._full_figures(levels, path, counts))
            self._least_scores[path, sub_domains] = score
        return score

    def _full_figures(self, levels: EnforcedLevels, path: Path, counts: ValueCounts) -> Figures:
        """The figures of a domain without regard to values."""
        domain_nodes = self._topology.domain_nodes(levels.deepest)
        figures = counts.figures.get((domain_nodes, path))
        if figures is None:
            context = SearchContext(levels, domain_nodes, counts.full(domain_nodes))
            figures = self._figures(context, path, domain_nodes.domains(levels.depth)[path])
            counts.figures[domain_nodes, path] = figures
        return figures

    def run(self) -> FoundPlaces | Refusal[TriedDomains]:
        """Place at least the needed members, and more if the domain has capacity; or say why there is no place."""
        gang = self._gang
        if not gang.members:
            return FoundPlaces(self, ())
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
            for number, levels in enumerate(levels_to_try(gang)):
                placements = self._with_all_inside(levels) or self._with_some_outside(levels)
                if placements is not None:
                    return FoundPlaces(self, placements, number, self._searches.found)
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
            if self._rules and self._counts:
                bounds = self._counts.restricted(domain_nodes, self._rules)
            else:
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
        # Places under several sets of values are compared, too, each the only one for its set.
        several = len(possible) > 1 or bool(self._gang.constraints)
        compared = several and all(inside for _, inside, _ in possible)
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
        if self._rules and self._rules.distinct and self._counts:
            most = min(most, self._counts.most_distinct(domain_nodes, inside, self._rules))
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
        sub_domains = domain_nodes.sub_domains(levels.depth)[path] if inside else {}
        # Members without devices that may be outside use no sub-domain.
        wanted = {shape: units for shape, units in bounds.wanted.items() if wider is None or shape.has_devices}
        fewest = bounds.fewest_sub_domains(wanted, len(self._gang.members) - self._needed, sub_domains)
        if wider is None and len(bounds.wanted) > 1:
            fewest = max(fewest, self._joint_bounds_on(domain_nodes).fewest_sub_domains(sub_domains, self._needed))
        for level in levels.of_groups if wider is None else ():
            if level.is_of_sub_groups:
                fewest = max(fewest, self._fewest_for_sub_groups(level, sub_domains, domain_nodes, bounds))
        figures = _NOT_COMPARED
        if compared:
            # What a domain has left is the same, whichever values the gang gets.
            counts = self._counts
            figures = self._full_figures(levels, path, counts) if counts else self._figures(context, path, inside)
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
        capacities = []
        for inside in sub_domains.values():
            domains = by_path([domain_nodes[node] for node in inside], level.depth).values()
            capacities.append(self._sub_groups.most_complete([bounds.most_members(nodes) for nodes in domains]))
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
