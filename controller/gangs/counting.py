"""How many units of each kind domains take at most. What counting rules out needs no search."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from controller.allocation import Fleet
from controller.gangs.memory import Memory, bounds_inside
from controller.gangs.topology import Places
from controller.gangs.units import Kind, Unit
from controller.placement import Nodes

_MOST_LIMITS: Final = 3


class Counts:
    """Upper bounds for units on places, with what limits them.

    Attributes:
        bounds: per kind, per place.
        wanted: how many units there are of each kind.
    """

    def __init__(self, units: Sequence[Unit], places: Places, fleet: Fleet, nodes: Nodes, memory: Memory):
        self.wanted: Mapping[Kind, int] = Counter(unit.kind for unit in units)
        self.bounds: dict[Kind, list[int]] = {}
        self._limits: dict[Kind, list[str]] = {}
        for kind in self.wanted:
            found = memory.bounds(kind, places, fleet, nodes)
            self.bounds[kind] = [bound for bound, _ in found]
            self._limits[kind] = [limit for _, limit in found]

    def count(self, kind: Kind, places: Places, inside: Sequence[int], fleet: Fleet, nodes: Nodes) -> None:
        """Count another kind on some of the places only."""
        found = bounds_inside(kind, places, inside, fleet, nodes)
        self.bounds[kind] = [found[place][0] if place in found else 0 for place in range(len(places))]

    def room(self, kind: Kind, places: Sequence[int]) -> int:
        """How many units of the kind these places take at most."""
        bounds = self.bounds[kind]
        return sum([bounds[place] for place in places])

    def members(self, places: Sequence[int]) -> int:
        """How many members these places take at most."""
        return sum(min(wanted, self.room(kind, places)) * len(kind.pods) for kind, wanted in self.wanted.items())

    def members_at(self, place: int) -> int:
        """How many members the place takes at most, as if different kinds did not compete for it."""
        return sum(min(wanted, self.bounds[kind][place]) * len(kind.pods) for kind, wanted in self.wanted.items())

    def of_task(self, task: str, places: Sequence[int]) -> int:
        """How many members of the task these places take at most."""
        counted = ((kind, wanted, kind.tasks.count(task)) for kind, wanted in self.wanted.items())
        return sum(min(wanted, self.room(kind, places)) * count for kind, wanted, count in counted if count)

    def learn(self, kind: Kind, place: int, most: int) -> None:
        """The place does not take more units of the kind, even if there are no others."""
        self.bounds[kind][place] = min(self.bounds[kind][place], most)

    def members_in_groups(self, domains: Sequence[Sequence[int]], size: int) -> int:
        """How many members these domains take at most, if each group of ``size`` stays in one of them.

        A domain takes whole groups as long as there is room, and then a part of one.
        """
        rooms = [self.members(places) for places in domains]
        members = sum(wanted * len(kind.pods) for kind, wanted in self.wanted.items())
        left = -(-members // size) - sum(room // size for room in rooms)
        if left <= 0:
            return members
        parts = sorted((room % size for room in rooms), reverse=True)
        return min(members, sum(room - room % size for room in rooms) + sum(parts[:left]))

    def limits(self, places: Sequence[int]) -> str:
        """What limits how many units the places take, the most frequent first."""
        found: Counter[str] = Counter()
        for kind, wanted in self.wanted.items():
            if self.room(kind, places) < wanted:
                found.update(self._limits[kind][place] for place in places)
        ordered = sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{limit} on {_nodes(count)}" for limit, count in ordered[:_MOST_LIMITS])


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
