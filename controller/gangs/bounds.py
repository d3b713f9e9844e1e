"""Upper bounds for the units that domains take, shape by shape. A domain with too low a bound needs no search."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from controller.allocation import Fleet
from controller.gangs.memory import NOT_POSSIBLE, Bound, Memory, bounds_inside, bounds_of_named
from controller.gangs.topology import DomainNodes
from controller.gangs.units import CoLocatedMembers, UnitShape
from controller.placement import Nodes

_MOST_LIMITS: Final = 3


class Counts:
    """Upper bounds for units on places, and what limits each.

    Attributes:
        bounds: per shape, per place.
        wanted: number of units of each shape.
    """

    def __init__(
        self, units: Sequence[CoLocatedMembers], places: DomainNodes, fleet: Fleet, nodes: Nodes, memory: Memory
    ):
        self.wanted: Mapping[UnitShape, int] = Counter(unit.shape for unit in units)
        self.bounds: dict[UnitShape, list[int]] = {}
        self._limits: dict[UnitShape, Sequence[str]] = {}
        self._named: dict[UnitShape, Mapping[int, Bound]] = {}
        """The only places of shapes whose pods name their nodes."""
        stamps = places.stamps()
        for shape in self.wanted:
            named = bounds_of_named(shape, places, fleet, nodes)
            if named is None:
                found = memory.bounds(shape, places, fleet, nodes, stamps)
                self.bounds[shape] = [bound for bound, _ in found]
                self._limits[shape] = [limit for _, limit in found]
            else:
                self._named[shape] = named
                self.bounds[shape] = [0] * len(places)
                for at, (bound, _) in named.items():
                    self.bounds[shape][at] = bound
        self._spans = [(shape, min(named), max(named)) for shape, named in self._named.items() if named]

    def count(self, shape: UnitShape, places: DomainNodes, inside: Sequence[int], fleet: Fleet, nodes: Nodes) -> None:
        """Add the bounds of another shape, for some of the places only."""
        found = bounds_inside(shape, places, inside, fleet, nodes)
        self.bounds[shape] = [found[place][0] if place in found else 0 for place in range(len(places))]

    def room(self, shape: UnitShape, places: Sequence[int]) -> int:
        """Most units of the shape on these places. The places must be in order."""
        bounds = self.bounds[shape]
        if (named := self._named.get(shape)) is not None:
            first, last = (places[0], places[-1]) if places else (0, -1)
            return sum([bounds[place] for place in named if first <= place <= last and _is_among(place, places)])
        return sum([bounds[place] for place in places])

    def members(self, places: Sequence[int], around: Sequence[int] | None = None) -> int:
        """Most members on these places.

        Args:
            around: the places for members without devices; None if these are the same places.
        """
        every = self._possible(places) if around is None else self.wanted.items()
        return sum(
            [min(wanted, self.room(shape, _of(shape, places, around))) * len(shape.pods) for shape, wanted in every]
        )

    def _possible(self, places: Sequence[int]) -> Iterable[tuple[UnitShape, int]]:
        """The shapes that may be on these places, with the number of units of each."""
        if not self._named or not places:
            return self.wanted.items()
        first, last = places[0], places[-1]
        named = [(shape, self.wanted[shape]) for shape, low, high in self._spans if low <= last and high >= first]
        return [*named, *((shape, wanted) for shape, wanted in self.wanted.items() if shape not in self._named)]

    def members_at(self, place: int) -> int:
        """Most members on the place, if different shapes did not compete for it."""
        return sum(min(wanted, self.bounds[shape][place]) * len(shape.pods) for shape, wanted in self.wanted.items())

    def of_task(self, task: str, places: Sequence[int], around: Sequence[int] | None = None) -> int:
        """Most members of the task on these places. Arguments as of ``members``."""
        counted = ((shape, wanted, shape.tasks.count(task)) for shape, wanted in self.wanted.items())
        return sum(
            min(wanted, self.room(shape, _of(shape, places, around))) * count
            for shape, wanted, count in counted
            if count
        )

    def learn(self, shape: UnitShape, place: int, most: int) -> None:
        """Lower the bound of a place: it takes no more units of the shape, even without other units there."""
        self.bounds[shape][place] = min(self.bounds[shape][place], most)

    def limits(self, places: Sequence[int], around: Sequence[int] | None = None) -> str:
        """The reasons why the places take no more units, as text; the most frequent reason first."""
        # Several shapes of members may lack the same at one place.
        limits = set[tuple[str, int]]()
        for shape, wanted in self.wanted.items():
            own = _of(shape, places, around)
            if self.room(shape, own) < wanted:
                limits.update((self._limit(shape, place), place) for place in own)
        found = Counter(limit for limit, _ in limits)
        ordered = sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{limit} on {_nodes(count)}" for limit, count in ordered[:_MOST_LIMITS])

    def _limit(self, shape: UnitShape, place: int) -> str:
        if (named := self._named.get(shape)) is not None:
            return named[place][1] if place in named else NOT_POSSIBLE
        return self._limits[shape][place]


def _of(shape: UnitShape, places: Sequence[int], around: Sequence[int] | None) -> Sequence[int]:
    """The places for units of the shape; ``around`` for units without devices, unless it is None."""
    return places if around is None or shape.has_devices else around


def members_in_groups(rooms: Sequence[int], sizes: Sequence[int]) -> int:
    """Most members of groups in domains, if each group stays in one of them.

    Args:
        rooms: most members in each domain.
        sizes: number of members of each group, in any order.
    """
    sizes = sorted(sizes, reverse=True)
    # What the larger groups have more than others is left out once: a few of them say little about the rest.
    return min([_in_groups(rooms, sizes, most) for most in dict.fromkeys(sizes)], default=0)


def _in_groups(rooms: Sequence[int], sizes: Sequence[int], most: int) -> int:
    """Most members of groups of these sizes, the largest first, in domains with these rooms.

    ``n`` groups in one room are at most as many members as the room takes, and as the ``n`` largest groups have. Groups
    go, one after another, where they add the most. Members of a group beyond ``most`` are assumed to fit.
    """
    cut = [min(size, most) for size in sizes]
    total = list(accumulate(cut, initial=0))
    gains = Counter[int]()
    for room in rooms:
        whole = bisect_right(total, room) - 1
        gains.update(cut[:whole])
        if whole < len(cut) and room > total[whole]:
            gains[room - total[whole]] += 1
    found, left = sum(sizes) - total[-1], len(sizes)
    for gain in sorted(gains, reverse=True):
        found += gain * min(left, gains[gain])
        left -= min(left, gains[gain])
    return min(found, sum(sizes))


def _is_among(place: int, places: Sequence[int]) -> bool:
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
