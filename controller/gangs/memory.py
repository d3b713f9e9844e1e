"""Results about places from earlier decisions. They save time and change no answer."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from controller.allocation import CompiledRequest, Fleet, NodeDeviceCounts
from controller.gangs.gang import Level
from controller.gangs.topology import DomainNode, DomainNodes, Stamp, Topology
from controller.gangs.units import UnitShape
from controller.placement import Nodes, PodCapacity
from driver.bounded import BoundedCache

V = TypeVar("V")

DEVICES: Final = "devices"
APART: Final = "anti-affinity among the members"
NOT_POSSIBLE: Final = "not one of the nodes that the pod may use"
_FEW: Final = 64
"""Most nodes that a pod names for which results are not worth remembering."""
_MOST: Final = 1_000
"""Greatest bound for the units of a shape on one place."""
_TOPOLOGIES: Final = 8
_KINDS: Final = 32

Bound = tuple[int, str]
"""Most units on a place, and the reason why there are no more."""


class Memory:
    """Topologies, and bounds of places by shape. Results are renewed where nodes, pods or devices have changed.

    A memory belongs to one fleet and its nodes.
    """

    def __init__(self) -> None:
        self._topologies: BoundedCache[Hashable, tuple[Hashable, Topology]] = BoundedCache(_TOPOLOGIES)
        self._bounds: BoundedCache[Hashable, _PerPlace[Bound]] = BoundedCache(_KINDS)
        self._devices: BoundedCache[Hashable, _PerPlace[NodeDeviceCounts]] = BoundedCache(_TOPOLOGIES)

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

    def bounds(
        self, shape: UnitShape, places: DomainNodes, fleet: Fleet, nodes: Nodes, stamps: Sequence[Stamp]
    ) -> Sequence[Bound]:
        """Most units of the shape on each place.

        Args:
            stamps: stamps of the places (``DomainNodes.stamps``).
        """
        rooms = _rooms(shape, nodes)
        bound = _bounding(shape, fleet, nodes, rooms)
        versions = tuple(room.version for room in rooms)
        if nodes.on_trial and any(any(version) for version in versions):
            return [bound(place) for place in places]
        key = places, shape.key, versions
        remembered = self._bounds.get(key)
        if remembered is None:
            remembered = self._bounds[key] = _PerPlace()
        return list(remembered.of(places, fleet, nodes, bound, stamps))

    def devices(
        self, topology: Topology, places: DomainNodes, fleet: Fleet, nodes: Nodes
    ) -> Sequence[NodeDeviceCounts]:
        """The devices of each place that the requests of the topology select."""
        key = topology, places
        known = self._devices.get(key)
        if known is None:
            known = self._devices[key] = _PerPlace()
        return known.of(places, fleet, nodes, topology.devices, places.stamps())


class _PerPlace(Generic[V]):
    """A value for each place, renewed where something has changed."""

    def __init__(self) -> None:
        self._common: Hashable = None
        self._stamps: Sequence[Stamp] = ()
        self._values: list[V] = []

    def of(
        self, places: DomainNodes, fleet: Fleet, nodes: Nodes, find: Callable[[DomainNode], V], stamps: Sequence[Stamp]
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


def bounds_of_named(shape: UnitShape, places: DomainNodes, fleet: Fleet, nodes: Nodes) -> Mapping[int, Bound] | None:
    """The same for a shape whose pods name a few nodes; None for other shapes."""
    named = shape.named(nodes)
    if named is None or len(named) > _FEW:
        return None
    return bounds_inside(shape, places, sorted(at for name in named for at in places.on(name)), fleet, nodes)


def bounds_inside(
    shape: UnitShape, places: DomainNodes, inside: Sequence[int], fleet: Fleet, nodes: Nodes
) -> Mapping[int, Bound]:
    """Most units of the shape on some of the places. Nothing is remembered."""
    bound = _bounding(shape, fleet, nodes, _rooms(shape, nodes))
    return {at: bound(places[at]) for at in inside}


def _rooms(shape: UnitShape, nodes: Nodes) -> Sequence[PodCapacity]:
    rooms = [PodCapacity(pod.key, needs, nodes) for pod, needs in zip(shape.pods, shape.counted, strict=True)]
    if len(shape.pods) > 1:
        rooms.append(PodCapacity(shape.pods[0].key, shape.needs_together, nodes))
    return rooms


def _bounding(
    shape: UnitShape, fleet: Fleet, nodes: Nodes, rooms: Sequence[PodCapacity]
) -> Callable[[DomainNode], Bound]:
    """Prepare a function that finds the most units of the shape on a place."""
    requests = [request for request in (shape.request, shape.other_drivers_request) if request.demands]
    confined = shape.is_confined
    rooms = [] if shape.bound_to else rooms

    def bound(place: DomainNode) -> Bound:
        if confined and not shape.may_use(place.node):
            return 0, NOT_POSSIBLE
        found, limit = _MOST, DEVICES
        for request in requests:
            found = min(found, fleet.most_fits(place.slot, request, _MOST))
        for room in rooms if found else ():
            pods, what = room.on(place.node)
            if pods < found:
                found, limit = pods, what
        if found > 1 and shape.depends_on_members and shape.keeps_apart(nodes.labels_of(place.node), nodes):
            return 1, APART
        return found, limit

    return bound
