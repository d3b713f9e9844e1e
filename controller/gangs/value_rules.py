"""What the values of the members' devices have to be, and how many members find such values on nodes and in domains.

One decision takes the rules for granted (``MemberRules``). What is too few by counting needs no search. Nodes with the
same values free are of one class. In a fleet there are few classes, so that many sets of values are counted for
thousands of nodes in one go: a class fits a few of the sets, and only those are added up.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.allocation import CompiledRequest, NodeValues, PodValues
from controller.cluster import Cluster
from controller.gangs.bounds import UnitBounds
from controller.gangs.domains import Figures
from controller.gangs.memory import Memory
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers, UnitShape, natural_sort_key

Values = frozenset[str]
NO_VALUES: Final = Values()
_UNLIMITED: Final = 1 << 20
Class = tuple[NodeValues | None, ...]
"""The values of each attribute that a shape can get on a node; None for one that does not matter to the shape."""


@dataclass(frozen=True, slots=True)
class MemberRules:
    """What the values of the members' devices have to be.

    Attributes:
        exactly: attributes, each with the set of values that every member has to have.
        distinct: attributes of which no two units may have a value, each with values that nobody may have.
        exempt: attributes, each with the key of a pod that asks for no device with it.
    """

    exactly: tuple[tuple[str, Values], ...] = ()
    distinct: tuple[tuple[str, Values], ...] = ()
    exempt: frozenset[tuple[str, str]] = frozenset()

    def for_units(
        self, units: Sequence[CoLocatedMembers], taken: Mapping[str, Values] | None = None
    ) -> tuple[PodValues, ...]:
        """The rules for the claims of these units, in their order.

        Args:
            taken: values of other units, by attribute.
        """
        numbers: dict[str, int] = {}
        for unit in units:
            for claim in unit.claims:
                numbers[claim.uid] = len(numbers)
        found: list[PodValues] = []
        for unit in units:
            for attribute, values in self.exactly:
                for member in unit.members:
                    claims = tuple([numbers[claim.uid] for claim in member.demand.claims])
                    if claims and (attribute, member.demand.key) not in self.exempt:
                        found.append(PodValues(attribute, claims, exactly=values))
            for attribute, values in self.distinct:
                claims = tuple([numbers[claim.uid] for claim in unit.claims])
                if claims and any((attribute, one.demand.key) not in self.exempt for one in unit.members):
                    of_others = (taken or {}).get(attribute, NO_VALUES)
                    found.append(PodValues(attribute, claims, distinct=True, taken=values | of_others))
        return tuple(found)

    def fits(self, attribute: str, values: NodeValues | None) -> int:
        """Most units that get such values of the attribute on a node; no limit if it does not matter to them."""
        most = _UNLIMITED
        if values is None:
            return most
        for name, exactly in self.exactly:
            if name == attribute:
                most = min(most, values.fits(exactly))
        for name, taken in self.distinct:
            if name == attribute:
                most = min(most, sum([value not in taken for value in values.devices]))
        return most

    def lacking(self, attribute: str, values: NodeValues) -> Values:
        """The values of the attribute that a node with these does not have."""
        return dict(self.exactly).get(attribute, NO_VALUES).difference(values.devices)


def listed(values: Values) -> str:
    """The values as text, in their natural order."""
    names = sorted(values, key=natural_sort_key)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


class Unconstrained(NamedTuple):
    """How a gang is decided without its constraints.

    Attributes:
        bounds: of the units on the nodes.
        depth: of the innermost level that keeps the whole gang in one domain, whatever is given up.
        needed: number of members to place.
    """

    domain_nodes: DomainNodes
    bounds: UnitBounds
    depth: int
    needed: int


class DomainCapacity(NamedTuple):
    """Most members in one domain, and in each domain of the next level inside it; nodes in none of these are one."""

    path: Path
    most: int
    sub_domains: Sequence[int]


class _Depth(NamedTuple):
    """The domains of one depth, by number.

    Attributes:
        paths: of each domain; nodes in no domain of the innermost level are together under the path that ends there.
        of_smallest: for each of the smallest domains, the one that it is in.
        outer: for each domain, the one of the level around it.
    """

    paths: Sequence[Path]
    of_smallest: Sequence[int]
    outer: Sequence[int]


class _Domains:
    """The domains of some nodes by number: what is counted for many sets of values looks up no path.

    Attributes:
        of_nodes: the smallest domain of each node.
    """

    def __init__(self, paths: Iterable[Path]):
        self._smallest: dict[Path, int] = {}
        self.of_nodes = [self._smallest.setdefault(path, len(self._smallest)) for path in paths]
        self._depths: dict[int, _Depth] = {}

    def __len__(self) -> int:
        return len(self._smallest)

    def at(self, depth: int) -> _Depth:
        """The domains of ``depth`` levels."""
        found = self._depths.get(depth)
        if found is None:
            numbers: dict[Path, int] = {}
            of_smallest = [numbers.setdefault(path[:depth], len(numbers)) for path in self._smallest]
            around = dict(zip(of_smallest, self.at(depth - 1).of_smallest, strict=True)) if depth else {}
            found = self._depths[depth] = _Depth([*numbers], of_smallest, [*around.values()])
        return found


class Capacities:
    """Most members of one set of rules in domains, as far as counting tells.

    Args:
        of_shapes: for each shape, the units that are wanted, the members of each, and the most units in each of the
            smallest domains.

    Attributes:
        anywhere: number of members to which no rule matters. They are in no domain here.
    """

    def __init__(self, domains: _Domains, of_shapes: Sequence[tuple[int, int, Sequence[int]]], anywhere: int):
        self._domains = domains
        self._of_shapes = of_shapes
        self._at: dict[int, Sequence[int]] = {}
        self.anywhere = anywhere

    def largest(self, depth: int) -> int:
        """Most members in one domain of ``depth`` levels."""
        paths = self._domains.at(depth).paths
        return max([most for path, most in zip(paths, self._most(depth), strict=True) if _is_one(path)], default=0)

    def domains(self, depth: int) -> Sequence[DomainCapacity]:
        """The same for each domain of ``depth`` levels."""
        paths, inner = self._domains.at(depth).paths, self._domains.at(depth + 1)
        sub_domains: list[list[int]] = [[] for _ in paths]
        for outer, most in zip(inner.outer, self._most(depth + 1), strict=True):
            sub_domains[outer].append(most)
        every = map(DomainCapacity, paths, self._most(depth), sub_domains)
        return [domain for domain in every if _is_one(domain.path)]

    def _most(self, depth: int) -> Sequence[int]:
        found = self._at.get(depth)
        if found is None:
            domains = self._domains.at(depth)
            found = [0] * len(domains.paths)
            for wanted, members, units in self._of_shapes:
                in_domain = [0] * len(domains.paths)
                for number, count in zip(domains.of_smallest, units, strict=True):
                    in_domain[number] += count
                # Cut off shape by shape, not at the end: places for eight leaders are one member if there is one leader
                # to place, and make up for no place that a worker lacks.
                found = [most + min(count, wanted) * members for most, count in zip(found, in_domain, strict=True)]
            self._at[depth] = found
        return found

    @property
    def units(self) -> int:
        """Most units in all domains together, beyond those that are wanted."""
        return sum([sum(units) for _, _, units in self._of_shapes])


def _is_one(path: Path) -> bool:
    """Whether it is the path of a domain."""
    return not path or bool(path[-1])


class ValueCounts:
    """The values that the units of one gang can get.

    Args:
        attributes: of the constraints.
    """

    def __init__(
        self,
        units: Sequence[CoLocatedMembers],
        cluster: Cluster,
        memory: Memory,
        without: Unconstrained,
        attributes: Sequence[str],
    ):
        self._units = units
        self._cluster = cluster
        self._memory = memory
        self._without = without
        self._attributes = attributes
        self._of_nodes: dict[Hashable, Sequence[NodeValues]] = {}
        self._has: dict[Hashable, bool] = {}
        self._classes: dict[Hashable, tuple[Sequence[int], Sequence[Class]]] = {}
        self._domains = _Domains(node.path for node in without.domain_nodes)
        self._cells: dict[UnitShape, Mapping[tuple[int, int, int], int]] = {}
        self.figures: dict[tuple[DomainNodes, Path], Figures] = {}
        """Figures of domains without regard to values, as far as they were asked for."""
        self._full: dict[DomainNodes, UnitBounds] = {without.domain_nodes: without.bounds}
        self.exempt = frozenset(
            [
                (attribute, member.demand.key)
                for unit in units
                for member in unit.members
                for attribute in attributes
                if not self._asks_for(unit, member.demand.claims, attribute)
            ]
        )
        """Attributes, each with the key of a pod that asks for no device with it."""

    def _asks_for(self, unit: CoLocatedMembers, claims: Sequence[object], attribute: str) -> bool:
        """Whether the claims of a unit's member select a device with the attribute on any node."""
        request: object = unit.shape.request
        if len(unit.members) > 1:
            request = self._cluster.devices.compile([claim for claim in unit.claims if claim in claims])
        assert isinstance(request, CompiledRequest)
        key = request, attribute
        found = self._has.get(key)
        if found is None:
            every = self.of_nodes(request, attribute, self._without.domain_nodes) if request.demands else ()
            found = self._has[key] = any(values.known for values in every)
        return found

    def concerns(self, shape: UnitShape, attribute: str) -> bool:
        """Whether the attribute matters to units of the shape."""
        return any((attribute, pod.key) not in self.exempt for pod in shape.pods)

    def of_nodes(self, request: CompiledRequest, attribute: str, domain_nodes: DomainNodes) -> Sequence[NodeValues]:
        """The values of the attribute that the request can get on each node."""
        key = request, attribute, domain_nodes
        found = self._of_nodes.get(key)
        if found is None:
            fleet, nodes = self._cluster.devices, self._cluster.nodes
            found = self._of_nodes[key] = list(self._memory.values(request, attribute, domain_nodes, fleet, nodes))
        return found

    def classes(self, shape: UnitShape, domain_nodes: DomainNodes) -> tuple[Sequence[int], Sequence[Class]]:
        """The class of each node for the shape, by number, and the classes."""
        found = self._classes.get((shape, domain_nodes))
        if found is None:
            every = [
                self.of_nodes(shape.request, attribute, domain_nodes) if self.concerns(shape, attribute) else None
                for attribute in self._attributes
            ]
            numbers: dict[Class, int] = {}
            columns = [[None] * len(domain_nodes) if values is None else values for values in every]
            of_nodes = [numbers.setdefault(one, len(numbers)) for one in zip(*columns, strict=True)]
            found = self._classes[shape, domain_nodes] = of_nodes, [*numbers]
        return found

    def cells(self, shape: UnitShape) -> Mapping[tuple[int, int, int], int]:
        """How many nodes there are of each smallest domain, bound and class for the shape; without those that take no
        unit."""
        found = self._cells.get(shape)
        if found is None:
            nodes, bounds = self._without.domain_nodes, self._without.bounds
            of_shape, (of_nodes, _), domains = bounds.by_shape[shape], self.classes(shape, nodes), self._domains
            every = [
                (domains.of_nodes[at], of_shape[at], of_nodes[at]) for at in bounds.nodes_of(shape) if of_shape[at]
            ]
            found = self._cells[shape] = Counter(every)
        return found

    def capacities(self, every: Sequence[MemberRules]) -> Sequence[Capacities]:
        """Most members for each of the rules, as far as counting tells."""
        of_shapes: list[list[tuple[int, int, Sequence[int]]]] = [[] for _ in every]
        anywhere = 0
        for shape, wanted in self._without.bounds.wanted.items():
            if not any(self.concerns(shape, attribute) for attribute in self._attributes):
                anywhere += wanted * len(shape.pods)
                continue
            _, classes = self.classes(shape, self._without.domain_nodes)
            units = [[0] * len(self._domains) for _ in every]
            # By class, so that the innermost loop meets only the rules that fit there: mostly a few of a thousand.
            fits = [
                [(units[number], most) for number, rules in enumerate(every) if (most := self._fits(rules, one))]
                for one in classes
            ]
            for (domain, bound, of_class), count in self.cells(shape).items():
                for in_domains, most in fits[of_class]:
                    # Without ``min``: no other line of a decision runs so often.
                    in_domains[domain] += (most if most < bound else bound) * count
            for number, in_domains in enumerate(units):
                of_shapes[number].append((wanted, len(shape.pods), in_domains))
        return [Capacities(self._domains, one, anywhere) for one in of_shapes]

    def _fits(self, rules: MemberRules, values: Class) -> int:
        """Most units on a node of the class."""
        if len(values) == 1:
            return rules.fits(self._attributes[0], values[0])
        return min([rules.fits(attribute, one) for attribute, one in zip(self._attributes, values, strict=True)])

    # Bounds

    def full(self, domain_nodes: DomainNodes) -> UnitBounds:
        """Bounds without regard to values."""
        found = self._full.get(domain_nodes)
        if found is None:
            fleet, nodes = self._cluster.devices, self._cluster.nodes
            found = self._full[domain_nodes] = UnitBounds(self._units, domain_nodes, fleet, nodes, self._memory)
        return found

    def restricted(self, domain_nodes: DomainNodes, rules: MemberRules) -> UnitBounds:
        """Bounds for units with these values."""
        bounds = self.full(domain_nodes).copy()
        for shape in bounds.wanted:
            if not any(self.concerns(shape, attribute) for attribute in self._attributes):
                continue
            of_nodes, classes = self.classes(shape, domain_nodes)
            most = [self._fits(rules, one) for one in classes]
            limits = [
                ", ".join(
                    f"{attribute} {listed(rules.lacking(attribute, values))}".rstrip()
                    for attribute, values in zip(self._attributes, one, strict=True)
                    if values is not None and rules.fits(attribute, values) == fewest
                )
                for one, fewest in zip(classes, most, strict=True)
            ]
            bounds.restrict(shape, of_nodes, most, limits)
        return bounds

    def most_distinct(self, domain_nodes: DomainNodes, inside: Sequence[int], rules: MemberRules) -> int:
        """Most members on the nodes for which there are values: each value is of one unit."""
        # Values are counted once for all shapes, since shapes compete for them; so the largest unit of all has to stand
        # for each value, and the bound is too high where units differ in size. It may be: it may not be too low.
        most = sum([len(unit.members) for unit in self._units])
        for attribute, taken in rules.distinct:
            free, least, members = set[str](), 0, 0
            for shape, wanted in self._without.bounds.wanted.items():
                if not self.concerns(shape, attribute):
                    least += wanted * len(shape.pods)
                    continue
                members = max(members, len(shape.pods))
                every = self.of_nodes(shape.request, attribute, domain_nodes)
                free.update(value for node in inside for value in every[node].devices)
            most = min(most, least + len(free - taken) * members)
        return most

    def lacking(self, attribute: str, values: Values) -> Mapping[Values, Sequence[str]]:
        """The nodes that could take a member but for some of the values, by these."""
        nodes, bounds = self._without.domain_nodes, self._without.bounds
        found: dict[Values, dict[str, None]] = {}
        for shape in bounds.wanted:
            if not self.concerns(shape, attribute):
                continue
            every = self.of_nodes(shape.request, attribute, nodes)
            for node in bounds.nodes_of(shape):
                lacking = values.difference(every[node].devices)
                if lacking and bounds.by_shape[shape][node]:
                    found.setdefault(lacking, {})[nodes[node].name] = None
        return {some: [*names] for some, names in found.items()}
