"""Counts how many members find values of attributes on nodes and in domains: what is too few needs no search.

Nodes with the same values free are of one class. In a fleet there are few classes, so that many sets of values are
counted for thousands of nodes in one go: a class fits a few of the sets, and only those are added up.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

from controller.allocation import CompiledRequest, NodeValues
from controller.cluster import Cluster
from controller.gangs.bounds import UnitBounds
from controller.gangs.domain_score import Figures
from controller.gangs.member_rules import MemberRules, Values, listed
from controller.gangs.memory import Memory
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers, UnitShape

NO_VALUES: Final = Values()
Class = tuple[NodeValues | None, ...]
"""The values of each attribute that a shape can get on a node; None for one that does not matter to the shape."""


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


class Capacities:
    """Most members of one set of rules in the smallest domains, as far as counting tells.

    Attributes:
        anywhere: number of members to which no rule matters. They are in no domain here.
    """

    def __init__(self, of_shapes: Sequence[tuple[int, int, Mapping[Path, int]]], anywhere: int):
        self._of_shapes = of_shapes
        self._at: dict[tuple[int, bool], Mapping[Path, int]] = {}
        self.anywhere = anywhere

    def at(self, depth: int, *, everywhere: bool = False) -> Mapping[Path, int]:
        """The same for the domains of ``depth`` levels.

        Args:
            everywhere: counts nodes in no domain of the innermost level, too, as one.
        """
        found = self._at.get((depth, everywhere))
        if found is None:
            found = self._at[depth, everywhere] = self._find_at(depth, everywhere=everywhere)
        return found

    def _find_at(self, depth: int, *, everywhere: bool) -> Mapping[Path, int]:
        found: dict[Path, int] = {}
        for wanted, members, units in self._of_shapes:
            in_domain: dict[Path, int] = {}
            for path, count in units.items():
                if everywhere or not depth or path[depth - 1]:
                    domain = path[:depth]
                    in_domain[domain] = in_domain.get(domain, 0) + count
            for path, count in in_domain.items():
                found[path] = found.get(path, 0) + min(count, wanted) * members
        return found

    @property
    def units(self) -> int:
        """Most units in all domains together, beyond those that are wanted."""
        return sum([sum(units.values()) for _, _, units in self._of_shapes])


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

    def cells(self, shape: UnitShape) -> Mapping[tuple[Path, int, int], int]:
        """How many nodes there are of each path, bound and class for the shape; without those that take no unit."""
        nodes, bounds = self._without.domain_nodes, self._without.bounds
        of_shape, (of_nodes, _) = bounds.by_shape[shape], self.classes(shape, nodes)
        return Counter([(nodes[at].path, of_shape[at], of_nodes[at]) for at in bounds.nodes_of(shape) if of_shape[at]])

    def capacities(self, every: Sequence[MemberRules]) -> Sequence[Capacities]:
        """Most members for each of the rules, as far as counting tells."""
        of_shapes: list[list[tuple[int, int, Mapping[Path, int]]]] = [[] for _ in every]
        anywhere = 0
        for shape, wanted in self._without.bounds.wanted.items():
            if not any(self.concerns(shape, attribute) for attribute in self._attributes):
                anywhere += wanted * len(shape.pods)
                continue
            _, classes = self.classes(shape, self._without.domain_nodes)
            fits = [
                [(number, most) for number, rules in enumerate(every) if (most := self._fits(rules, one))]
                for one in classes
            ]
            units: list[dict[Path, int]] = [{} for _ in every]
            for (path, bound, of_class), count in self.cells(shape).items():
                for number, most in fits[of_class]:
                    in_domains = units[number]
                    in_domains[path] = in_domains.get(path, 0) + (most if most < bound else bound) * count
            for number, in_domains in enumerate(units):
                of_shapes[number].append((wanted, len(shape.pods), in_domains))
        return [Capacities(one, anywhere) for one in of_shapes]

    def _fits(self, rules: MemberRules, values: Class) -> int:
        """Most units on a node of the class."""
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
