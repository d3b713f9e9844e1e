"""How many units of each kind each place takes at most. What counting rules out needs no search."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.allocation import Fleet
from controller.gangs.topology import Path, Place
from controller.gangs.units import Kind, Unit
from controller.placement import Nodes, PodRoom

DEVICES: Final = "devices"
_NOT_POSSIBLE: Final = "not one of the nodes that the pod may use"
_MOST: Final = 1_000
"""Units of a kind that one place is said to take at most."""
_MOST_LIMITS: Final = 3


class Counts:
    """Upper bounds for units on places, with what limits them.

    Attributes:
        bounds: per kind, per place.
        wanted: how many units there are of each kind.
    """

    def __init__(self, units: Sequence[Unit], places: Sequence[Place], fleet: Fleet, nodes: Nodes):
        self.wanted = Counter(unit.kind for unit in units)
        self._sizes = {unit.kind: len(unit.members) for unit in units}
        self._places = places
        self.bounds: dict[Kind, list[int]] = {}
        self._limits: dict[Kind, list[str]] = {}
        for kind in self.wanted:
            found = [self._bound(kind, place, fleet, rooms) for rooms in [_Rooms(kind, nodes)] for place in places]
            self.bounds[kind] = [count for count, _ in found]
            self._limits[kind] = [limit for _, limit in found]

    def room(self, kind: Kind, places: Iterable[int]) -> int:
        """How many units of the kind these places take at most."""
        bounds = self.bounds[kind]
        return sum([bounds[place] for place in places])

    def members(self, places: Sequence[int]) -> int:
        """How many members these places take at most."""
        return sum(min(wanted, self.room(kind, places)) * self._sizes[kind] for kind, wanted in self.wanted.items())

    def limits(self, places: Sequence[int]) -> str:
        """What limits how many units the places take, the most frequent first."""
        found: Counter[str] = Counter()
        for kind, wanted in self.wanted.items():
            if self.room(kind, places) < wanted:
                found.update(self._limits[kind][place] for place in places)
        ordered = sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{limit} on {_nodes(count)}" for limit, count in ordered[:_MOST_LIMITS])

    def _bound(self, kind: Kind, place: Place, fleet: Fleet, rooms: "_Rooms") -> tuple[int, str]:
        if not kind.may_use(place.node):
            return 0, _NOT_POSSIBLE
        bound = _MOST
        limit = DEVICES
        for request in (kind.request, kind.beside):
            if request.demands:
                bound = min(bound, fleet.most_fits(place.slot, request, _MOST))
        if bound and not kind.bound_to:
            room, what = rooms.on(place.node)
            if room < bound:
                bound, limit = room, what
        return bound, limit


class _Rooms:
    """How many units of a kind nodes take, as far as anything but devices is concerned."""

    def __init__(self, kind: Kind, nodes: Nodes):
        self._rooms = [PodRoom(pod.key, pod.needs, nodes) for pod in kind.pods]

    def on(self, node: str) -> tuple[int, str]:
        rooms = [room.on(node) for room in self._rooms]
        if len(rooms) == 1:
            return rooms[0].pods, rooms[0].limit
        # Each pod alone; together they may not fit so often, which the search finds out.
        least = min(rooms, key=lambda room: room.pods)
        return least.pods, least.limit


def by_path(places: Sequence[Place], depth: int) -> Mapping[Path, list[int]]:
    """The places by the domain of ``depth`` levels that they are in; those in none are left out."""
    found: dict[Path, list[int]] = {}
    for place in places:
        path = place.path[:depth]
        if not depth or path[-1]:
            found.setdefault(path, []).append(place.index)
    return found


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
