"""What was found about places for earlier gangs. It saves time and changes no answer."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from controller.allocation import CompiledRequest, Fleet, NodeDevices
from controller.gangs.gang import Level
from controller.gangs.topology import Place, Places, Topology
from controller.gangs.units import Kind
from controller.placement import Nodes, PodRoom
from driver.bounded import BoundedCache

V = TypeVar("V")

DEVICES: Final = "devices"
APART: Final = "anti-affinity among the members"
NOT_POSSIBLE: Final = "not one of the nodes that the pod may use"
_FEW: Final = 64
"""Nodes that a pod names; if there are as few, what is found about each is not worth remembering."""
_MOST: Final = 1_000
"""Units of a kind that one place is said to take at most."""
_TOPOLOGIES: Final = 8
_KINDS: Final = 32

Bound = tuple[int, str]
"""How many units a place takes at most, and what limits it."""


class Memory:
    """Topologies, and bounds of places by kind; what nodes, pods or devices have changed is found again.

    One for each fleet and its nodes.
    """

    def __init__(self) -> None:
        self._topologies: BoundedCache[Hashable, tuple[Hashable, Topology]] = BoundedCache(_TOPOLOGIES)
        self._bounds: BoundedCache[Hashable, _PerPlace[Bound]] = BoundedCache(_KINDS)
        self._devices: BoundedCache[Hashable, _PerPlace[NodeDevices]] = BoundedCache(_TOPOLOGIES)

    def topology(
        self, levels: Sequence[Level], fleet: Fleet, nodes: Nodes, requests: Sequence[CompiledRequest]
    ) -> Topology:
        """The domains of the levels."""
        filters = tuple(dict.fromkeys(wanted for request in requests for wanted in request.filters))
        key = tuple((level.key, level.kind) for level in levels), filters
        version = nodes.topology, fleet.published
        known = self._topologies.get(key)
        if known is None:
            found = Topology(levels, fleet, nodes, requests)
        elif known[0] == version and not known[1].divided:
            return known[1]
        else:
            found = known[1]
            found.update()
        self._topologies[key] = version, found
        return found

    def bounds(self, kind: Kind, places: Places, fleet: Fleet, nodes: Nodes, stamps: Sequence[int]) -> Sequence[Bound]:
        """How many units of the kind each place takes at most.

        Args:
            stamps: of the places.
        """
        rooms = _rooms(kind, nodes)
        bound = _bounding(kind, fleet, nodes, rooms)
        versions = tuple(room.version for room in rooms)
        trial = nodes.on_trial
        if trial and any(any(version) for version in versions):
            return [bound(place) for place in places]
        key = places, kind.key, versions
        remembered = self._bounds.get(key)
        if remembered is None:
            remembered = self._bounds[key] = _PerPlace()
        found = list(remembered.of(places, fleet, nodes, bound, stamps))
        for place in places if trial else ():
            if place.node in trial:
                found[place.index] = bound(place)
        return found

    def devices(self, topology: Topology, places: Places, fleet: Fleet, nodes: Nodes) -> Sequence[NodeDevices]:
        """What each place of the topology has of the devices that its requests select."""
        key = topology, places
        known = self._devices.get(key)
        if known is None:
            known = self._devices[key] = _PerPlace()
        return known.of(places, fleet, nodes, topology.devices, places.stamps())


class _PerPlace(Generic[V]):
    """A value for each place, found again where something has changed."""

    def __init__(self) -> None:
        self._common: Hashable = None
        self._stamps: Sequence[int] = ()
        self._values: list[V] = []

    def of(
        self, places: Places, fleet: Fleet, nodes: Nodes, find: Callable[[Place], V], stamps: Sequence[int]
    ) -> list[V]:
        common = nodes.common_version, fleet.shared_usage
        if self._common != common:
            self._values = [find(place) for place in places]
        else:
            for at, (before, after) in enumerate(zip(self._stamps, stamps, strict=True)):
                if before != after:
                    self._values[at] = find(places[at])
        self._common, self._stamps = common, stamps
        return self._values


def bounds_of_named(kind: Kind, places: Places, fleet: Fleet, nodes: Nodes) -> Mapping[int, Bound] | None:
    """The same for a kind that can be on a few places only, because its pods name their nodes; None for others."""
    named = kind.named(nodes)
    if named is None or len(named) > _FEW:
        return None
    return bounds_inside(kind, places, sorted(at for name in named for at in places.on(name)), fleet, nodes)


def bounds_inside(kind: Kind, places: Places, inside: Sequence[int], fleet: Fleet, nodes: Nodes) -> Mapping[int, Bound]:
    """How many units of the kind some of the places take at most; nothing is remembered."""
    bound = _bounding(kind, fleet, nodes, _rooms(kind, nodes))
    return {at: bound(places[at]) for at in inside}


def _rooms(kind: Kind, nodes: Nodes) -> Sequence[PodRoom]:
    rooms = [PodRoom(pod.key, needs, nodes) for pod, needs in zip(kind.pods, kind.counted, strict=True)]
    if len(kind.pods) > 1:
        rooms.append(PodRoom(kind.pods[0].key, kind.needs_together, nodes))
    return rooms


def _bounding(kind: Kind, fleet: Fleet, nodes: Nodes, rooms: Sequence[PodRoom]) -> Callable[[Place], Bound]:
    """What says how many units of the kind a place takes at most; what is the same for every place is found here."""
    requests = [request for request in (kind.request, kind.other_drivers_request) if request.demands]
    confined = kind.is_confined
    rooms = [] if kind.bound_to else rooms

    def bound(place: Place) -> Bound:
        if confined and not kind.may_use(place.node):
            return 0, NOT_POSSIBLE
        found, limit = _MOST, DEVICES
        for request in requests:
            found = min(found, fleet.most_fits(place.slot, request, _MOST))
        for room in rooms if found else ():
            pods, what = room.on(place.node)
            if pods < found:
                found, limit = pods, what
        if found > 1 and kind.social and kind.keeps_apart(nodes.labels_of(place.node), nodes):
            return 1, APART
        return found, limit

    return bound
