"""Upper bounds for what domains take. A domain with too low a bound needs no search.

A bound may be too high, never too low: a search that would have found a way is never left out. Three kinds of them:

* ``UnitBounds``: for each shape, how many of its units each node takes if nothing else is placed there. The sum over
  the nodes of a domain is mostly exact for a gang of one shape, so that its search hardly ever has to go back.
* ``JointBounds``: for all shapes together. By the bounds of single shapes, a node with 10 cards takes a member with 6
  cards *and* one with 5. Together, members are no more than fit if the smallest requests come first.
* ``RemainingUnits``: the bounds of single shapes less what a search has placed already, to end a branch early.

``test_laws*`` decide with no steps at all, too: what is refused then for certain has no way by trying everything.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import accumulate
from typing import Final, TypeVar

from controller.allocation import Fleet, NodeDeviceCounts
from controller.gangs.memory import DEVICES, NOT_POSSIBLE, Bound, Memory, bounds_inside, bounds_of_named
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers, UnitShape
from controller.placement import Nodes
from driver.quantity import NANO

K = TypeVar("K", Path, int)

_MOST_LIMITS: Final = 3
"""Most reasons that are named for one domain."""
_MOST_SHAPES: Final = 16
"""Most shapes for which the devices of other shapes are counted: each addition of units looks at all of them."""
_UNLIMITED: Final = 1 << 60
_CARDS: Final = "devices"
"""Stands for devices. No resource of nodes has this name: theirs are qualified, or known ones."""
_PODS: Final = "pods"


class UnitBounds:
    """Upper bounds for units on nodes, and what limits each.

    Attributes:
        by_shape: per shape, per node.
        wanted: number of units of each shape.
    """

    def __init__(
        self, units: Sequence[CoLocatedMembers], domain_nodes: DomainNodes, fleet: Fleet, nodes: Nodes, memory: Memory
    ):
        self.wanted: Mapping[UnitShape, int] = Counter(unit.shape for unit in units)
        self.by_shape: dict[UnitShape, list[int]] = {}
        self._limits: dict[UnitShape, list[str]] = {}
        self._named: dict[UnitShape, Mapping[int, Bound]] = {}
        """The only nodes of shapes whose pods name them. With 1,000 members that name a node each, there are 1,000
        shapes: what is asked about all of them must not look at all nodes for each."""
        stamps = domain_nodes.stamps()
        for shape in self.wanted:
            named = bounds_of_named(shape, domain_nodes, fleet, nodes)
            if named is None:
                bounds = memory.bounds(shape, domain_nodes, fleet, nodes, stamps)
                self.by_shape[shape] = [bound for bound, _ in bounds]
                self._limits[shape] = [limit for _, limit in bounds]
            else:
                self._named[shape] = named
                self.by_shape[shape] = [0] * len(domain_nodes)
                for node, (bound, _) in named.items():
                    self.by_shape[shape][node] = bound
        self._spans = [(shape, min(named), max(named)) for shape, named in self._named.items() if named]

    def nodes_of(self, shape: UnitShape) -> Iterable[int]:
        """The nodes that may take units of the shape."""
        return self._named[shape] if shape in self._named else range(len(self.by_shape[shape]))

    def copy(self) -> "UnitBounds":
        """The same bounds, to be lowered without lowering these."""
        other = copy(self)
        other.by_shape = {shape: list(bounds) for shape, bounds in self.by_shape.items()}
        other._limits = {shape: list(limits) for shape, limits in self._limits.items()}
        other._named = dict(self._named)
        return other

    def restrict(self, shape: UnitShape, classes: Sequence[int], most: Sequence[int], limits: Sequence[str]) -> None:
        """Lower the bounds of a shape.

        Args:
            classes: the class of each node.
            most: for each class, the most units on a node.
            limits: for each class, the reason.
        """
        bounds = self.by_shape[shape]
        if (named := self._named.get(shape)) is not None:
            lower = {node: (most[one], limits[one]) for node in named if most[one := classes[node]] < bounds[node]}
            self._named[shape] = {**named, **lower}
            for node, (units, _) in lower.items():
                bounds[node] = units
            return
        self._limits[shape] = [
            limits[one] if most[one] < bound else limit
            for one, bound, limit in zip(classes, bounds, self._limits[shape], strict=True)
        ]
        self.by_shape[shape] = [min(most[one], bound) for one, bound in zip(classes, bounds, strict=True)]

    def add_shape(
        self, shape: UnitShape, domain_nodes: DomainNodes, inside: Sequence[int], fleet: Fleet, nodes: Nodes
    ) -> None:
        """Add the bounds of another shape, for some of the nodes only."""
        bounds = bounds_inside(shape, domain_nodes, inside, fleet, nodes)
        self.by_shape[shape] = [bounds[node][0] if node in bounds else 0 for node in range(len(domain_nodes))]

    def most_units(self, shape: UnitShape, inside: Sequence[int]) -> int:
        """Most units of the shape on these nodes. Their indexes must be in order."""
        bounds = self.by_shape[shape]
        if (named := self._named.get(shape)) is not None:
            first, last = (inside[0], inside[-1]) if inside else (0, -1)
            return sum([bounds[node] for node in named if first <= node <= last and _is_among(node, inside)])
        return sum([bounds[node] for node in inside])

    def most_members(self, inside: Sequence[int], wider: Sequence[int] | None = None) -> int:
        """Most members on these nodes.

        Args:
            wider: the nodes for members without devices; None if these are the same nodes.
        """
        shapes = self._possible(inside) if wider is None else self.wanted.items()
        return sum(
            [
                min(wanted, self.most_units(shape, _nodes_for(shape, inside, wider))) * len(shape.pods)
                for shape, wanted in shapes
            ]
        )

    def _possible(self, inside: Sequence[int]) -> Iterable[tuple[UnitShape, int]]:
        """The shapes that may be on these nodes, with the number of units of each."""
        if not self._named or not inside:
            return self.wanted.items()
        # The span of a shape's own nodes rules out most shapes without a look at each of the nodes.
        first, last = inside[0], inside[-1]
        named = [(shape, self.wanted[shape]) for shape, low, high in self._spans if low <= last and high >= first]
        return [*named, *((shape, wanted) for shape, wanted in self.wanted.items() if shape not in self._named)]

    def most_members_on(self, node: int) -> int:
        """Most members on the node, if different shapes did not compete for it."""
        return sum(min(wanted, self.by_shape[shape][node]) * len(shape.pods) for shape, wanted in self.wanted.items())

    def most_of_task(self, task: str, inside: Sequence[int], wider: Sequence[int] | None = None) -> int:
        """Most members of the task on these nodes. Arguments as of ``most_members``."""
        counted = ((shape, wanted, shape.tasks.count(task)) for shape, wanted in self.wanted.items())
        return sum(
            min(wanted, self.most_units(shape, _nodes_for(shape, inside, wider))) * count
            for shape, wanted, count in counted
            if count
        )

    def lower(self, shape: UnitShape, node: int, most: int, *, for_devices: bool) -> None:
        """Lower the bound of a node: it takes no more units of the shape, even without other units there.

        Args:
            for_devices: whether the pods could run there. Then devices limit the node, and no longer what did before.
        """
        if most >= self.by_shape[shape][node]:
            return
        self.by_shape[shape][node] = most
        if not for_devices:
            return
        if (named := self._named.get(shape)) is not None:
            self._named[shape] = {**named, node: (most, DEVICES)}
        elif shape in self._limits:
            self._limits[shape][node] = DEVICES

    def nowhere(self) -> UnitShape | None:
        """A shape of single pods of which no node takes any, even without other units there; None if there is none."""
        return next((shape for shape in self.wanted if len(shape.pods) == 1 and not self._is_anywhere(shape)), None)

    def _is_anywhere(self, shape: UnitShape) -> bool:
        bounds = self.by_shape[shape]
        return any(bounds) if (named := self._named.get(shape)) is None else any(bounds[node] for node in named)

    def fewest_sub_domains(
        self, wanted: Mapping[UnitShape, int], may_leave_out: int, sub_domains: Mapping[Path, Sequence[int]]
    ) -> int:
        """Fewest domains of the next level that take these units, of which some may be left out."""
        fewest = 1
        for shape, units in wanted.items():
            capacities = [self.most_units(shape, inside) for inside in sub_domains.values()]
            fewest = max(fewest, fewest_needed(capacities, units - may_leave_out))
        return fewest

    def limits(self, inside: Sequence[int], wider: Sequence[int] | None = None) -> str:
        """The reasons why the nodes take no more units, as text; the most frequent reason first."""
        lacking = [
            (shape, for_shape)
            for shape, wanted in self.wanted.items()
            if self.most_units(shape, for_shape := _nodes_for(shape, inside, wider)) < wanted
        ]
        every = [(self._limit(shape, node), node) for shape, for_shape in lacking for node in for_shape]
        # Several shapes of members may lack the same on one node.
        counted = Counter([limit for limit, _ in (set(every) if len(lacking) > 1 else every)])
        ordered = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{limit} on {_nodes_text(count)}" for limit, count in ordered[:_MOST_LIMITS])

    def _limit(self, shape: UnitShape, node: int) -> str:
        if (named := self._named.get(shape)) is not None:
            return named[node][1] if node in named else NOT_POSSIBLE
        return self._limits[shape][node]


def _nodes_for(shape: UnitShape, inside: Sequence[int], wider: Sequence[int] | None) -> Sequence[int]:
    """The nodes for units of the shape; ``wider`` for units without devices, unless it is None."""
    return inside if wider is None or shape.has_devices else wider


def members_in_groups(capacities: Sequence[int], sizes: Sequence[int]) -> int:
    """Most members of groups in domains, if each group stays in one of them.

    Args:
        capacities: most members in each domain.
        sizes: number of members of each group, in any order.
    """
    sizes = sorted(sizes, reverse=True)
    # What the larger groups have more than others is left out once: a few of them say little about the rest.
    return min([_in_groups(capacities, sizes, most) for most in dict.fromkeys(sizes)], default=0)


def _in_groups(capacities: Sequence[int], sizes: Sequence[int], most: int) -> int:
    """Most members of groups of these sizes, the largest first, in domains with these capacities.

    ``n`` groups in one domain are at most as many members as it takes, and as the ``n`` largest groups have. Groups
    go, one after another, where they add the most. Members of a group beyond ``most`` are assumed to fit.
    """
    # Three groups of 4 in domains for 6 and 7: the first group in each adds 4, the second one 2 or 3. The best three
    # gains are 4 + 4 + 3 = 11, although the sum of the domains is 13 and the groups have 12 members.
    cut = [min(size, most) for size in sizes]
    total = list(accumulate(cut, initial=0))
    gains = Counter[int]()
    for capacity in capacities:
        whole = bisect_right(total, capacity) - 1
        gains.update(cut[:whole])
        if whole < len(cut) and capacity > total[whole]:
            gains[capacity - total[whole]] += 1
    members, left = sum(sizes) - total[-1], len(sizes)
    for gain in sorted(gains, reverse=True):
        members += gain * min(left, gains[gain])
        left -= min(left, gains[gain])
    return min(members, sum(sizes))


def _is_among(node: int, inside: Sequence[int]) -> bool:
    at = bisect_left(inside, node)
    return at < len(inside) and inside[at] == node


def _nodes_text(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


class JointBounds:
    """Bounds all members together by the least amounts that any number of them asks for.

    Without this, a search could take very many steps to find that nothing fits (``test_mixed_bounds``).

    Args:
        devices: devices of each node.
    """

    def __init__(
        self,
        units: Sequence[CoLocatedMembers],
        domain_nodes: DomainNodes,
        devices: Sequence[NodeDeviceCounts],
        nodes: Nodes,
    ):
        self._domain_nodes = domain_nodes
        self._devices = devices
        self._nodes = nodes
        pods = [pod for unit in units for pod in unit.shape.pods]
        self._members = len(pods)
        are_counted = any(
            member.demand.bound_to or nodes.node_of(member.demand.key) for unit in units for member in unit.members
        )
        asked: dict[str, list[int]] = {}
        if not are_counted:
            # What a pod takes already counts on its node, but not against itself.
            requests = [needs.requests for unit in units for needs in unit.shape.counted]
            names = sorted({name for amounts in requests for name in amounts})
            asked = {name: [amounts.get(name, 0) for amounts in requests] for name in names}
            asked[_PODS] = [NANO] * len(pods)
        if len(pods) == len(units):
            # Of members that share a claim, none asks for a number of devices of its own.
            asked[_CARDS] = [unit.shape.request.total_devices for unit in units]
        self._sums: Mapping[str, Sequence[int]] = {name: [*accumulate(sorted(each))] for name, each in asked.items()}
        """For each resource, the request of the smallest member, of the smallest two together, and so on."""

    def most_members(self, inside: Sequence[int], capacities: Sequence[int]) -> int:
        """Most members on the nodes.

        Args:
            capacities: most members on each of the nodes, if shapes did not compete.
        """
        members = 0
        free_in_all: dict[str, int | None] = {}
        for node, capacity in zip(inside, capacities, strict=True):
            if not capacity:
                continue
            most = capacity
            for name, sums in self._sums.items():
                free, total = self._free(node, name), free_in_all.get(name, 0)
                free_in_all[name] = None if free is None or total is None else total + free
                if free is not None:
                    # So many of the smallest requests fit, so no more of any others.
                    most = min(most, bisect_right(sums, free))
            members += most
        together = [bisect_right(self._sums[name], free) for name, free in free_in_all.items() if free is not None]
        return min([self._members, members, *together])

    def fewest_sub_domains(self, sub_domains: Mapping[Path, Sequence[int]], members: int) -> int:
        """Fewest domains of the next level that take so many members.

        Args:
            sub_domains: the nodes of each of these domains.
        """
        fewest = 1
        for name, sums in self._sums.items():
            capacities = []
            for inside in sub_domains.values():
                free = [self._free(node, name) for node in inside]
                # No limit on one node is none on the domain, so this resource says nothing about their number.
                if None in free:
                    break
                capacities.append(sum([amount for amount in free if amount is not None]))
            else:
                fewest = max(fewest, fewest_needed(capacities, sums[members - 1]))
        return fewest

    def _free(self, node: int, name: str) -> int | None:
        """Free amount of the resource on the node; None if the resource is no limit."""
        if name == _CARDS:
            devices = self._devices[node]
            return None if devices.shareable else devices.available
        view = self._nodes.view(self._domain_nodes[node].name)
        total = view.facts.allocatable.get(name, 0) if view.facts else 0
        if name == _PODS:
            return max(0, total - view.pods * NANO)
        # Devices can stand for a resource that the node lacks.
        return max(0, total - view.used.get(name, 0)) if total else None


class RemainingUnits:
    """Most further units of each shape on each node, besides the units that a search has added.

    Units of one shape count against their own shape. With several shapes, they also count against others by the number
    of their devices, except on nodes with shareable devices.

    Args:
        devices: devices of each node, if units of several shapes compete for them; else None.
    """

    def __init__(self, bounds: UnitBounds, devices: Sequence[NodeDeviceCounts] | None):
        # Without other shapes that compete, what remains is what is left of the shape's own bound: one list for both.
        self._own = {shape: list(of_nodes) for shape, of_nodes in bounds.by_shape.items()}
        self._remaining = self._own
        self._devices: list[int] = []
        """Devices that are left on each node; empty if they are not counted."""
        if devices is not None and len(self._own) <= _MOST_SHAPES:
            self._remaining = {shape: list(of_nodes) for shape, of_nodes in self._own.items()}
            self._devices = [_UNLIMITED if counts.shareable else counts.available for counts in devices]

    def by_node(self, shape: UnitShape) -> Sequence[int]:
        """Most further units of the shape, by node."""
        return self._remaining[shape]

    def most_units(self, shape: UnitShape, inside: Sequence[int]) -> int:
        """Most further units of the shape on these nodes."""
        remaining = self._remaining[shape]
        return sum([remaining[node] for node in inside])

    def most_from_each(self, shape: UnitShape, order: Sequence[int]) -> Sequence[int]:
        """Most further units of the shape on the nodes from each position of the order on."""
        sums, total = [0] * (len(order) + 1), 0
        remaining = self._remaining[shape]
        for at in range(len(order) - 1, -1, -1):
            total += remaining[order[at]]
            sums[at] = total
        return sums

    def add(self, shape: UnitShape, node: int, units: int) -> None:
        """Count units that were added to the node; a negative number for units that were removed."""
        self._own[shape][node] -= units
        if self._devices:
            self._devices[node] -= units * shape.request.total_devices
            self._renew(node)

    def lower(self, shape: UnitShape, node: int, units: int) -> None:
        """Lower the bound of an empty node."""
        self._own[shape][node] = units
        if self._devices:
            self._renew(node)

    def _renew(self, node: int) -> None:
        for shape, own in self._own.items():
            devices = shape.request.total_devices
            # The order of additions must not matter, so this follows from what is there, not from the last change.
            self._remaining[shape][node] = min(own[node], self._devices[node] // devices) if devices else own[node]


def best_fit(capacities: Mapping[K, int], wanted: int) -> list[K]:
    """Order keys so that few are needed for ``wanted``: the largest first, and the tightest that takes the rest.

    Capacities 2, 8, 5, 3 for ``wanted`` 10: 8, then 2, which is the tightest that takes the 2 that are left; the others
    follow, the largest first. So large ones stay free as a whole for others.
    """
    order = sorted(capacities, key=lambda key: (-capacities[key], key))
    for at, key in enumerate(order):
        if wanted <= 0:
            break
        if capacities[key] >= wanted:
            end = bisect_right(order, -wanted, lo=at, key=lambda other: -capacities[other])
            tightest = bisect_left(order, -capacities[order[end - 1]], lo=at, key=lambda other: -capacities[other])
            order.insert(at, order.pop(tightest))
            break
        wanted -= capacities[key]
    return order


def fewest_needed(capacities: Iterable[int], wanted: int) -> int:
    """Fewest of these that take ``wanted``; all of them if they do not take it together."""
    if wanted <= 0:
        return 0
    sums = [*accumulate(sorted(capacities, reverse=True))]
    return min(bisect_left(sums, wanted) + 1, len(sums))
