"""Domains as paths of values, and the devices of nodes in each of them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation import CompiledRequest, Fleet, NodeDeviceCounts, NodeSlot
from controller.gangs.gang import Domain, Level, Standing
from controller.placement import NodeFacts, Nodes, Placement
from driver.bounded import BoundedCache

Stamp = tuple[int, int]
"""The version of a place's devices, and that of its node."""
Path = tuple[str, ...]
"""Values of the levels, outermost first; "" from the first level without a value on."""
_NO_VALUES: Final = frozenset[tuple[str, ...]]()
_COMBINED: Final = 4_096
"""Most remembered paths, each for the values of devices and their node: about one for each domain."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainNode:
    """A place: the devices of a node in one domain, which are mostly all of the node.

    Attributes:
        path: path of the domain, at least as deep as was asked for.
        below: the same with the next level; the first domain of that level if there are several.
    """

    index: int
    node: str
    slot: NodeSlot
    path: Path
    below: Path


class DomainNodes:
    """Places by index and by domain. Equal only to itself.

    Attributes:
        divided_nodes: nodes with several places.
    """

    def __init__(self, places: Sequence[DomainNode], nodes: Nodes):
        self._places = places
        self._views = [nodes.view(place.node) for place in places]
        counted = Counter(place.node for place in places)
        self.divided_nodes = frozenset(node for node, count in counted.items() if count > 1)
        self._by_path: dict[int, Mapping[Path, Sequence[int]]] = {}
        self._by_node: dict[str, list[int]] = {}

    def __getitem__(self, index: int) -> DomainNode:
        return self._places[index]

    def __iter__(self) -> Iterator[DomainNode]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def stamps(self) -> list[Stamp]:
        """The versions of each place: of its devices, and of its node with the pods there.

        If a change on trial is undone, they are as before (``NodeSlot.clock``).
        """
        return [(place.slot.clock, view.version) for place, view in zip(self._places, self._views, strict=True)]

    def on(self, node: str) -> Sequence[int]:
        """The places on the node."""
        if not self._by_node:
            for place in self._places:
                self._by_node.setdefault(place.node, []).append(place.index)
        return self._by_node.get(node, ())

    def domains(self, depth: int) -> Mapping[Path, Sequence[int]]:
        """The places in each domain of ``depth`` levels, by path. Places in no domain are left out."""
        found = self._by_path.get(depth)
        if found is None:
            found = self._by_path[depth] = by_path(self._places, depth)
        return found


def by_path(places: Iterable[DomainNode], depth: int) -> dict[Path, list[int]]:
    """Group places by their domain of ``depth`` levels. Places in no domain are left out."""
    found: dict[Path, list[int]] = {}
    for place in places:
        path = place.path[:depth]
        if not depth or path[-1]:
            found.setdefault(path, []).append(place.index)
    return found


@dataclass(frozen=True, slots=True)
class DomainConflict:
    """A node in several domains of an outer level, and therefore in none of the level ``key``."""

    node: str
    key: str
    outer: str


class Topology:
    """The domains of some levels. Call ``update`` when nodes or devices were added, removed or changed.

    Args:
        requests: requests of the members. Only devices that they select put a node into a domain.

    Attributes:
        divided: whether a node has devices in several domains.
    """

    def __init__(self, levels: Sequence[Level], fleet: Fleet, nodes: Nodes, requests: Sequence[CompiledRequest]):
        self.levels = tuple(levels)
        self._fleet = fleet
        self._nodes = nodes
        self._filters = tuple(dict.fromkeys(wanted for request in requests for wanted in request.filters))
        self._attributes = tuple(level.key for level in levels if level.kind == "attribute")
        self._labels = tuple(level.key for level in levels if level.kind == "nodeLabel")
        self._combined: BoundedCache[Hashable, tuple[Path, ...]] = BoundedCache(_COMBINED)
        self._conflicts: dict[str, DomainConflict] = {}
        self._slots: dict[str, NodeSlot] = {}
        self._seen: dict[str, tuple[NodeSlot, int, NodeFacts | None]] = {}
        """The inputs for the paths of each node."""
        self._devices: dict[str, NodeDeviceCounts] = {}
        """The devices of nodes, as of the last update."""
        self._paths: dict[str, tuple[Path, ...]] = {}
        self._places: dict[int, DomainNodes] = {}
        self.divided = False
        self.update()

    @property
    def conflicts(self) -> Sequence[DomainConflict]:
        """Nodes that cannot be used for a level."""
        return [self._conflicts[name] for name in self._slots if name in self._conflicts]

    def update(self) -> None:
        """Renew the paths of nodes that have changed. Places stay valid if no domain has changed."""
        paths, slots, before = self._paths, self._slots, self._seen
        # Whether these reach a node is not seen at the node.
        everything = self._fleet.shares_devices
        self._paths, self._slots, self._seen = {}, {}, {}
        known = {} if everything else self._fleet.node_slots
        for name in self._nodes:
            facts = self._nodes[name].facts
            assert facts is not None
            slot = known.get(name) or self._fleet.slot(name, facts.labels)
            self._slots[name], self._seen[name] = slot, (slot, slot.clock, facts)
            if not everything and before.get(name) == self._seen[name]:
                self._paths[name] = paths[name]
            else:
                self._conflicts.pop(name, None)
                self._paths[name] = self._paths_of(name, slot, facts.labels)
        for name in before.keys() - self._seen.keys():
            self._devices.pop(name, None)
        self.divided = any(len(found) > 1 for found in self._paths.values())
        # Parts of nodes do not follow what is used of the nodes.
        if everything or self.divided or (self._paths, self._slots) != (paths, slots):
            self._places.clear()

    def devices(self, place: DomainNode) -> NodeDeviceCounts:
        """The devices of the place that the requests select."""
        found = self._devices.get(place.node)
        if found is None or self._seen[place.node][:2] != (place.slot, place.slot.clock):
            return self._fleet.node_devices(place.slot, self._filters)
        return found

    def places(self, depth: int) -> DomainNodes:
        """The places of all nodes in domains of ``depth`` levels, in the order of nodes."""
        # A node in one domain of every level is one place, at whatever depth.
        depth = depth if self.divided else 0
        found = self._places.get(depth)
        if found is None:
            found = self._places[depth] = DomainNodes(
                self._divided(depth) if self.divided else self._whole(), self._nodes
            )
        return found

    def _whole(self) -> list[DomainNode]:
        paths = [paths[0] for paths in self._paths.values()]
        return [
            DomainNode(index, name, slot, path, path)
            for index, ((name, slot), path) in enumerate(zip(self._slots.items(), paths, strict=True))
        ]

    def _divided(self, depth: int) -> list[DomainNode]:
        found: list[DomainNode] = []
        for name, paths in self._paths.items():
            parts: dict[Path, Path] = {}
            for path in paths:
                parts.setdefault(path[:depth], path[: depth + 1])
            labels = self._nodes.labels_of(name)
            for path, below in parts.items():
                slot = self._fleet.slot(name, labels, self._within(path)) if len(parts) > 1 else self._slots[name]
                found.append(DomainNode(len(found), name, slot, path, below))
        return found

    def outside(self, depth: int) -> int:
        """Number of nodes in no domain of ``depth`` levels."""
        return sum(not any(path[depth - 1] for path in paths) for paths in self._paths.values())

    def domain(self, path: Path) -> Domain:
        """The domain of a path, as answers name it. Its path ends at the first level without a value."""
        values = path[: path.index("")] if "" in path else path
        return Domain(tuple((level.key, value) for level, value in zip(self.levels, values, strict=False)))

    def path_of_new(self, placement: Placement) -> Path:
        """The path of a placement."""
        if self.divided:
            return self.path_of(Standing(placement.pod, placement))
        return self._paths[placement.node][0]

    def path_of(self, standing: Standing) -> Path:
        """The path of a member with a place; "" from the first level on with no domain, or with several."""
        devices = [result.device for allocation in standing.placed.allocations for result in allocation.results]
        labels = self._nodes.labels_of(standing.placed.node)
        own = self._paths.get(standing.placed.node, ())
        found: list[str] = []
        for number, level in enumerate(self.levels):
            if level.kind == "nodeLabel":
                values = {labels.get(level.key, "")}
            elif devices:
                each = [self._fleet.values_of(device, level.key) or frozenset() for device in devices]
                values = set(frozenset.intersection(*each))
            else:
                values = {path[number] for path in own if path[:number] == tuple(found)}
            if len(values) != 1 or values == {""}:
                break
            found += values
        return (*found, *[""] * (len(self.levels) - len(found)))

    def _within(self, path: Path) -> tuple[tuple[str, str], ...]:
        pairs = zip(self.levels, path, strict=False)
        # Below a level without a value all devices are in the same place.
        end = path.index("") + 1 if "" in path else len(path)
        return tuple((level.key, value) for level, value in [*pairs][:end] if level.kind == "attribute")

    def _paths_of(self, name: str, slot: NodeSlot, labels: Mapping[str, str]) -> tuple[Path, ...]:
        of_devices = _NO_VALUES
        if self._attributes:
            devices = self._devices[name] = self._fleet.node_devices(slot, self._filters, self._attributes)
            of_devices = devices.values
        of_node = tuple([labels.get(label, "") for label in self._labels])
        found = self._combined.get((of_devices, of_node))
        if found is None:
            found = self._combined[of_devices, of_node] = self._combine(of_devices, of_node)
        return found if len(found) == 1 else self._without_conflicts(name, set(found))

    def _combine(self, of_devices: frozenset[tuple[str, ...]], of_node: tuple[str, ...]) -> tuple[Path, ...]:
        """Paths of devices with these attribute values on a node with these label values."""
        found = set()
        for values in of_devices or {("",) * len(self._attributes)}:
            attributes, labels = iter(values), iter(of_node)
            found.add(_cut([next(attributes if level.kind == "attribute" else labels) for level in self.levels]))
        return tuple(sorted(found))

    def _without_conflicts(self, name: str, paths: set[Path]) -> tuple[Path, ...]:
        """Cut paths at a node label that is in several domains of an outer level, and record the conflict."""
        for number, level in enumerate(self.levels):
            outer = {path[:number] for path in paths if path[number]}
            if level.kind == "nodeLabel" and len(outer) > 1:
                self._conflicts[name] = DomainConflict(name, level.key, self.levels[number - 1].key)
                paths = {(*path[:number], *[""] * (len(self.levels) - number)) for path in paths}
                break
        return tuple(sorted(paths))


def _cut(values: list[str]) -> Path:
    """Cut the path at the first empty value."""
    if "" not in values:
        return tuple(values)
    end = values.index("")
    return (*values[:end], *[""] * (len(values) - end))


def common(paths: Sequence[Path]) -> Path:
    """Path of the smallest domain with all of these."""
    if not paths:
        return ()
    first = paths[0]
    same = [all(path[: end + 1] == first[: end + 1] for path in paths) for end in range(len(first))]
    return first[: sum(same)]
