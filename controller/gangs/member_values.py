"""Values of attributes that the members' devices have to have in common, or apart: which come into question.

How it works. What all members have to have is chosen first, and then the gang is decided as if each member asked for
just that. Members with two cards each, all on the same rails (``sameSet``), and the rails of free cards:

    n1  0 1 2 3        n2  0 1 2        n3  1 2 3        three members, each on a node of its own

1. *Without the constraint* the gang is decided first. If it has no place then, it has none with it; and if its members
   get the same rails anyway, as where each takes a whole node, that is the answer.
2. *Values* that too few members can get are left out: 0 is free on two nodes only, and so is 3.
3. *Sets* are those of the other values that a node has: {1, 2}; {1} and {2} are not enough for two cards.
4. *Counting* (``NodeValues.fits``): n1, n2 and n3 take a member with {1, 2} each. Sets that too few fit are left out,
   domain by domain.
5. *Decision* (``decision``), one for each set that is left, until one is as good as the gang without the constraint:
   first sets that fit in the domain that the gang would have without it; of these, the one that fewest fit, so that
   other sets stay whole. Nodes have bounds for the set, and each member's devices are searched with it (``PodValues``).

One value for all (``same``) is a set of one. If a member has a place, its set is the only one. Values that have to be
distinct are not chosen: devices of all members are searched together then (``Staging``), and each value is of one.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Final

from controller.allocation import NodeValues
from controller.cluster import Cluster
from controller.gangs.gang import Gang, ValueConstraint
from controller.gangs.memory import Memory
from controller.gangs.units import CoLocatedMembers, natural_sort_key
from controller.gangs.value_rules import NO_VALUES, Capacities, MemberRules, Unconstrained, ValueCounts, Values, listed
from controller.placement import Placement
from driver.limits import first_of
from driver.model import Allocation

MOST_SETS: Final = 1_024
"""Most sets of values that are counted for one gang."""
_MOST_NAMED: Final = 3


class ValueSpace:
    """The values that come into question for one gang.

    Attributes:
        complete: whether all sets were counted; if not, that none was found proves nothing.
    """

    def __init__(
        self,
        gang: Gang,
        units: Sequence[CoLocatedMembers],
        cluster: Cluster,
        memory: Memory,
        without: Unconstrained,
    ):
        self._gang = gang
        self._units = units
        self._cluster = cluster
        self._depth = without.depth
        self._needed = without.needed
        self._domain_nodes = without.domain_nodes
        self._bounds = without.bounds
        self._attributes = tuple(dict.fromkeys(one.attribute for one in gang.constraints))
        self.counts = ValueCounts(units, cluster, memory, without, self._attributes)
        self.complete = True
        self._known: dict[Hashable, Sequence[tuple[MemberRules, Capacities]]] = {}

    # Members with a place

    def _standing(self, attribute: str) -> list[Values]:
        """The values of each member with a place that has any."""
        found = (self._of_allocations(one.placed.allocations, attribute) for one in self._gang.standing)
        # Of a device that is not published any more nobody knows the value: its member says nothing then.
        return [values - {""} for values in found if values is not None and values - {""}]

    def _of_allocations(self, allocations: Sequence[Allocation], attribute: str) -> Values | None:
        each = [
            self._cluster.devices.texts_of(result.device, attribute)
            for allocation in allocations
            for result in allocation.results
        ]
        known = [values for values in each if values is not None]
        return NO_VALUES.union(*known) if len(known) == len(each) else None

    def met(self, constraint: ValueConstraint, placements: Sequence[Placement]) -> bool:
        """Whether these places meet the constraint, beside the members that have theirs."""
        if self._nobody_has(constraint):
            return False
        attribute, standing = constraint.attribute, self._standing(constraint.attribute)
        placed = {placement.pod: placement for placement in placements}
        of_units: list[Values] = []
        for unit in self._units:
            of_unit = NO_VALUES
            for member in unit.members:
                placement = placed.get(member.demand.key)
                if placement is None or (attribute, member.demand.key) in self.counts.exempt:
                    continue
                values = self._of_allocations(placement.allocations, attribute)
                if not values or "" in values:
                    return False
                if constraint.kind == "sameSet":
                    of_units.append(values)
                of_unit |= values
            if of_unit and constraint.kind != "sameSet":
                of_units.append(of_unit)
        every = [*standing, *of_units]
        if constraint.kind == "sameSet":
            return len(set(every)) <= 1
        union = NO_VALUES.union(*every)
        if constraint.kind == "same":
            return len(union) <= 1
        taken = NO_VALUES.union(*standing)
        return len(taken) + sum(map(len, of_units)) == len(union)

    # Sets

    def rules(self, constraints: Sequence[ValueConstraint]) -> list[tuple[MemberRules, Capacities]]:
        """What meets the constraints as far as counting tells; first that which fewest members fit."""
        if self.nobody_has_any_of(constraints):
            return []
        enough = [
            (rules, capacities)
            for rules, capacities in self._counted(constraints)
            if capacities.largest(self._depth) + capacities.anywhere >= self._needed
        ]
        # Sets that fit everywhere are worth most to later gangs: the rare one that does is taken.
        return sorted(enough, key=lambda one: (one[1].units, _sort_key(one[0])))

    def closest(self, constraints: Sequence[ValueConstraint]) -> MemberRules:
        """Those values of which most members fit in one domain; none at all if there are none."""
        found = self._counted(constraints) or self._counted(constraints, any_number=True)
        return min(found, key=lambda one: (-one[1].largest(self._depth), _sort_key(one[0])))[0]

    def _counted(
        self, constraints: Sequence[ValueConstraint], *, any_number: bool = False
    ) -> Sequence[tuple[MemberRules, Capacities]]:
        key = *constraints, any_number
        found = self._known.get(key)
        if found is None:
            every = self._every(constraints, any_number=any_number)
            found = self._known[key] = [*zip(every, self.counts.capacities(every), strict=True)]
        return found

    def _every(self, constraints: Sequence[ValueConstraint], *, any_number: bool = False) -> list[MemberRules]:
        """All that meets the constraints on some node.

        Args:
            any_number: also with values that too few members can get, or with none if there are none.
        """
        apart = [one.attribute for one in constraints if one.kind == "distinct"]
        distinct = tuple([(attribute, NO_VALUES.union(*self._standing(attribute))) for attribute in apart])
        every = [
            [
                (one.attribute, values)
                for values in self._sets(one, any_number=any_number) or ([NO_VALUES] if any_number else [])
            ]
            for one in constraints
            if one.kind != "distinct"
        ]
        found = [MemberRules(exactly, distinct, self.counts.exempt) for exactly in islice(product(*every), MOST_SETS)]
        self.complete = self.complete and len(found) < MOST_SETS
        return found

    def nobody_has_any_of(self, constraints: Sequence[ValueConstraint]) -> bool:
        """Whether for one of the attributes no device that any member asks for has it."""
        return any(map(self._nobody_has, constraints))

    def _nobody_has(self, constraint: ValueConstraint) -> bool:
        asking = [unit for unit in self._units if unit.shape.has_devices]
        nobody = bool(asking) and not any(self.counts.concerns(unit.shape, constraint.attribute) for unit in asking)
        # A launcher that comes back may ask for other devices than the members that have their place.
        return nobody and not self._standing(constraint.attribute)

    def _sets(self, constraint: ValueConstraint, *, any_number: bool = False) -> Sequence[Values]:
        """The sets that members can have, each of them on some node.

        Args:
            any_number: also sets with values that too few members can get.
        """
        attribute = constraint.attribute
        standing = set(self._standing(attribute))
        exempt = sum([len(unit.members) for unit in self._units if not self.counts.concerns(unit.shape, attribute)])
        # With the minimum met by members that the attribute does not concern, nobody else needs a place.
        none = [NO_VALUES] if self._needed <= exempt else []
        if standing:
            only = NO_VALUES.union(*standing)
            return [only] if len(standing) == 1 and (constraint.kind == "sameSet" or len(only) == 1) else none
        at = self._attributes.index(attribute)
        least = 1 if any_number else max(1, self._needed - exempt)
        members = Counter[str]()
        on_nodes: dict[NodeValues, None] = {}
        for shape, wanted in self._bounds.wanted.items():
            _, classes = self.counts.classes(shape, self._domain_nodes)
            nodes, units = Counter[tuple[int, int]](), Counter[str]()
            for (_, bound, of_class), count in self.counts.cells(shape).items():
                nodes[of_class, bound] += count
            for (of_class, bound), count in nodes.items():
                if (values := classes[of_class][at]) is not None:
                    on_nodes[values] = None
                    for value, devices in values.devices.items():
                        # Two free devices of a rail are at most two units on that rail, whatever else is free.
                        units[value] += min(bound, devices) * count
            for value, most in units.items():
                members[value] += min(most, wanted) * len(shape.pods)
        usable = {value for value, most in members.items() if most >= least and value}
        found: dict[Values, None] = {}
        for values in on_nodes:
            for some in _subsets(values, usable, single=constraint.kind == "same"):
                if len(found) >= MOST_SETS:
                    self.complete = False
                    return [*found]
                found[some] = None
        return [*found] or none

    # Words

    def why(self, constraints: Sequence[ValueConstraint], rules: MemberRules) -> str:
        """Say which constraint cannot be met, with the values that come closest and what is missing of them where."""
        parts = [self._why(one, dict(rules.exactly).get(one.attribute)) for one in constraints]
        return "; ".join(parts)

    def _why(self, constraint: ValueConstraint, values: Values | None) -> str:
        attribute = constraint.attribute
        if self._nobody_has(constraint):
            return f"{constraint}: no device that the members ask for has this attribute"
        standing = set(self._standing(attribute))
        if constraint.kind == "distinct":
            taken = NO_VALUES.union(*standing)
            beside = f" beside {listed(taken)} of members that have their place" if taken else ""
            return f"{constraint}: too few values are free{beside}"
        if standing and (len(standing) > 1 or not values):
            sets = [listed(some) for some in standing]
            return f"{constraint}: members that have their place have {' and '.join(sorted(sets))}"
        if not values:
            return f"{constraint}: no value is free"
        whose = "as members that have their place have" if standing else "which most members can get"
        lacking = [
            f"{listed(some)} on {_nodes_text(names)}"
            for some, names in sorted(self.counts.lacking(attribute, values).items(), key=lambda one: listed(one[0]))
        ]
        missing = f"; not free are {', '.join(lacking)}" if lacking else ""
        return f"{constraint}: {listed(values)}, {whose}{missing}"


def _subsets(values: NodeValues, usable: set[str], *, single: bool) -> Iterator[Values]:
    """The sets of usable values that claims can get on a node, large ones first: a device often brings one each."""
    names = sorted([value for value in values.devices if value in usable], key=natural_sort_key)
    for size in range(1 if single else min(len(names), values.most), 0, -1):
        for some in combinations(names, size):
            if values.fits(found := Values(some)):
                yield found


def _sort_key(rules: MemberRules) -> tuple[object, ...]:
    return tuple([sorted(map(natural_sort_key, values)) for _, values in rules.exactly])


def _nodes_text(names: Sequence[str]) -> str:
    return first_of(sorted(names, key=natural_sort_key), _MOST_NAMED)
