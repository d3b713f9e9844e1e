"""Results about nodes from earlier decisions. They save time and change no answer (``test_memory``).

A node here is a part of one (``DomainNode``). A result is valid as long as the stamp of its node and what all nodes
share are the same. A question on trial has stamps of its own, which never come again.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from controller.allocation import CompiledRequest, Fleet, NodeDeviceCounts, NodeValues
from controller.gangs.gang import Level
from controller.gangs.topology import DomainNode, DomainNodes, Stamp, Topology
from controller.gangs.units import UnitShape
from controller.placement import Nodes, PodCapacity
from driver.bounded import BoundedCache

V = TypeVar("V")

DEVICES: Final = "devices"
_OTHER_DEVICES: Final = "devices of other drivers"
APART: Final = "anti-affinity among the members"
NOT_POSSIBLE: Final = "not one of the nodes that the pod may use"
_FEW: Final = 64
"""Most nodes that a pod names for which results are not worth remembering."""
_MOST: Final = 1_000
"""Greatest bound for the units of a shape on one node."""
_TOPOLOGIES: Final = 8
_KINDS: Final = 32

Bound = tuple[int, str]
"""Most units on a node, and the reason why there are no more."""


class Memory:
    """Topologies, and bounds of nodes by shape. Results are renewed where nodes, pods or devices have changed.

    A memory belongs to one fleet and its nodes.
    """

    def __init__(self) -> None:
        self._topologies: BoundedCache[Hashable, tuple[Hashable, Topology]] = BoundedCache(_TOPOLOGIES)
        self._bounds: BoundedCache[Hashable, _PerNode[Bound]] = BoundedCache(_KINDS)
        self._values: BoundedCache[Hashable, _PerNode[NodeValues]] = BoundedCache(_KINDS)
        self._devices: BoundedCache[Hashable, _PerNode[NodeDeviceCounts]] = BoundedCache(_TOPOLOGIES)

    def topology(
        self, levels: Sequence[Level], fleet: Fleet, nodes: Nodes, requests: Sequence[CompiledRequest]
    ) -> Topology:
        """The domains of the levels."""
        filters = tuple(dict.fromkeys(wanted for request in requests for wanted in request.filters))
        key = tuple((level.key, level.kind) for level in levels), filters
        version = nodes.topology, fleet.published
        remembered = self._topologies.get(key)
        if remembered is None:
            topology = Topology(levels, fleet, nodes, requests)
        elif remembered[0] == version and not remembered[1].divided:
            return remembered[1]
        else:
            # Parts of divided nodes do not follow what is used of their nodes (``Topology.update``).
            topology = remembered[1]
            topology.update()
        self._topologies[key] = version, topology
        return topology

    def bounds(
        self, shape: UnitShape, domain_nodes: DomainNodes, fleet: Fleet, nodes: Nodes, stamps: Sequence[Stamp]
    ) -> Sequence[Bound]:
        """Most units of the shape on each node.

        Args:
            stamps: stamps of the nodes (``DomainNodes.stamps``).
        """
        capacities = _pod_capacities(shape, nodes)
        bound = _bound_finder(shape, fleet, nodes, capacities)
        versions = tuple(capacity.version for capacity in capacities)
        # Affinity, spread and volumes depend on pods of all nodes. On trial their versions are new each time, so there
        # is nothing to find, and what would be remembered would push out what is used again.
        if nodes.on_trial and any(any(version) for version in versions):
            return [bound(node) for node in domain_nodes]
        # The key of a shape is that of like shapes in other gangs: the second gang of a kind finds all bounds here.
        key = domain_nodes, shape.key, versions
        remembered = self._bounds.get(key)
        if remembered is None:
            remembered = self._bounds[key] = _PerNode()
        return list(remembered.renewed(domain_nodes, fleet, nodes, bound, stamps))

    def values(
        self, request: CompiledRequest, attribute: str, domain_nodes: DomainNodes, fleet: Fleet, nodes: Nodes
    ) -> Sequence[NodeValues]:
        """The values of the attribute that the request can get on each node."""
        key = domain_nodes, request, attribute
        remembered = self._values.get(key)
        if remembered is None:
            remembered = self._values[key] = _PerNode()
        return remembered.renewed(
            domain_nodes,
            fleet,
            nodes,
            lambda node: fleet.node_values(node.slot, request, attribute),
            domain_nodes.stamps(),
        )

    def devices(
        self, topology: Topology, domain_nodes: DomainNodes, fleet: Fleet, nodes: Nodes
    ) -> Sequence[NodeDeviceCounts]:
        """The devices of each node that the requests of the topology select."""
        key = topology, domain_nodes
        remembered = self._devices.get(key)
        if remembered is None:
            remembered = self._devices[key] = _PerNode()
        return remembered.renewed(domain_nodes, fleet, nodes, topology.devices, domain_nodes.stamps())


class _PerNode(Generic[V]):
    """A value for each node, renewed where something has changed."""

    def __init__(self) -> None:
        self._common: Hashable = None
        self._stamps: Sequence[Stamp] = ()
        self._values: list[V] = []

    def renewed(
        self,
        domain_nodes: DomainNodes,
        fleet: Fleet,
        nodes: Nodes,
        find: Callable[[DomainNode], V],
        stamps: Sequence[Stamp],
    ) -> list[V]:
        common = nodes.common_version, fleet.shared_usage
        if self._common != common:
            self._values = [find(node) for node in domain_nodes]
        else:
            for index, (before, after) in enumerate(zip(self._stamps, stamps, strict=True)):
                if before != after:
                    self._values[index] = find(domain_nodes[index])
        self._common, self._stamps = common, stamps
        return self._values


def bounds_of_named(
    shape: UnitShape, domain_nodes: DomainNodes, fleet: Fleet, nodes: Nodes
) -> Mapping[int, Bound] | None:
    """The same for a shape whose pods name a few nodes; None for other shapes."""
    named = shape.named(nodes)
    if named is None or len(named) > _FEW:
        return None
    return bounds_inside(
        shape, domain_nodes, sorted(index for name in named for index in domain_nodes.named(name)), fleet, nodes
    )


def bounds_inside(
    shape: UnitShape, domain_nodes: DomainNodes, inside: Sequence[int], fleet: Fleet, nodes: Nodes
) -> Mapping[int, Bound]:
    """Most units of the shape on some of the nodes. Nothing is remembered."""
    bound = _bound_finder(shape, fleet, nodes, _pod_capacities(shape, nodes))
    return {index: bound(domain_nodes[index]) for index in inside}


def _pod_capacities(shape: UnitShape, nodes: Nodes) -> Sequence[PodCapacity]:
    capacities = [PodCapacity(pod.key, needs, nodes) for pod, needs in zip(shape.pods, shape.counted, strict=True)]
    # Each pod alone, for what the node has to be like, and all together, for the amounts that they need.
    if len(shape.pods) > 1:
        capacities.append(PodCapacity(shape.pods[0].key, shape.needs_together, nodes))
    return capacities


def _bound_finder(
    shape: UnitShape, fleet: Fleet, nodes: Nodes, capacities: Sequence[PodCapacity]
) -> Callable[[DomainNode], Bound]:
    """Prepare a function that finds the most units of the shape on a node."""
    named = (shape.request, DEVICES), (shape.other_drivers_request, _OTHER_DEVICES)
    requests = [(request, what) for request, what in named if request.demands]
    confined = shape.is_confined
    # A pod that is bound to its node counts there already, so it always fits, and must not be counted twice.
    capacities = [] if shape.bound_to else capacities

    def bound(node: DomainNode) -> Bound:
        if confined and not shape.may_use(node.name):
            return 0, NOT_POSSIBLE
        # A few different tests one after another, each for itself: the least of them is no less than what fits at once.
        most, limit = _MOST, DEVICES
        for request, what in requests:
            if (units := fleet.most_fits(node.slot, request, _MOST)) < most:
                most, limit = units, what
        for capacity in capacities if most else ():
            pods, what = capacity.on(node.name)
            if pods < most:
                most, limit = pods, what
        if most > 1 and shape.depends_on_members and shape.keeps_apart(nodes.labels_of(node.name), nodes):
            return 1, APART
        return most, limit

    return bound
