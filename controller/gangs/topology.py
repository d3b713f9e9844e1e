"""Which devices are in which domain: the tree of domains as paths of values, and the places on nodes inside them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.allocation import CompiledRequest, Fleet, NodeDevices, NodeSlot
from controller.gangs.gang import Domain, Level, Standing
from controller.placement import NodeFacts, Nodes, Placement

Path = tuple[str, ...]
"""The values of the levels, outermost first; "" from the first level on of which there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The devices of a node that are in one domain: all of the node, mostly.

    Attributes:
        path: the domain, at least as deep as was asked for.
        below: the domain with the next level, too; the first one if the place is in several.
    """

    index: int
    node: str
    slot: NodeSlot
    path: Path
    below: Path


class Places:
    """Places by their index, and by the domains that they are in. Equal only to itself.

    Attributes:
        divided_nodes: nodes that are several places.
    """

    def __init__(self, places: Sequence[Place], nodes: Nodes):
        self._places = places
        self._views = [nodes.view(place.node) for place in places]
        counted = Counter(place.node for place in places)
        self.divided_nodes = frozenset(node for node, count in counted.items() if count > 1)
        self._by_path: dict[int, Mapping[Path, Sequence[int]]] = {}

    def __getitem__(self, index: int) -> Place:
        return self._places[index]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def stamps(self) -> list[int]:
        """A number per place that grows with every change there to devices, pods or the node."""
        return [place.slot.clock + view.version for place, view in zip(self._places, self._views, strict=True)]

    def domains(self, depth: int) -> Mapping[Path, Sequence[int]]:
        """The places in each domain of ``depth`` levels, by its path; those in none are left out."""
        found = self._by_path.get(depth)
        if found is None:
            found = self._by_path[depth] = by_path(self._places, depth)
        return found


def by_path(places: Iterable[Place], depth: int) -> dict[Path, list[int]]:
    """The places by the domain of ``depth`` levels that they are in; those in none are left out."""
    found: dict[Path, list[int]] = {}
    for place in places:
        path = place.path[:depth]
        if not depth or path[-1]:
            found.setdefault(path, []).append(place.index)
    return found


@dataclass(frozen=True, slots=True)
class Conflict:
    """A node that is in several domains of an outer level, so in none of ``key``."""

    node: str
    key: str
    outer: str


class Topology:
    """The domains of some levels. It has to be updated when a node or a device was added, removed or changed.

    Args:
        requests: what the members ask for; only devices that they select tell in which domains a node is.

    Attributes:
        divided: whether a node has devices in several domains.
    """

    def __init__(self, levels: Sequence[Level], fleet: Fleet, nodes: Nodes, requests: Sequence[CompiledRequest]):
        self.levels = tuple(levels)
        self._fleet = fleet
        self._nodes = nodes
        self._filters = tuple(dict.fromkeys(wanted for request in requests for wanted in request.filters))
        self._attributes = tuple(level.key for level in levels if level.kind == "attribute")
        self._conflicts: dict[str, Conflict] = {}
        self._slots: dict[str, NodeSlot] = {}
        self._seen: dict[str, tuple[NodeSlot, int, NodeFacts | None]] = {}
        """What the paths of each node were worked out from."""
        self._devices: dict[str, NodeDevices] = {}
        """What was found of nodes then."""
        self._paths: dict[str, tuple[Path, ...]] = {}
        self._places: dict[int, Places] = {}
        self.divided = False
        self.update()

    @property
    def conflicts(self) -> Sequence[Conflict]:
        """Nodes that are unusable for a level."""
        return [self._conflicts[name] for name in self._slots if name in self._conflicts]

    def update(self) -> None:
        """Take in how nodes and devices have changed. Places stay what they are if no domain has changed."""
        paths, slots, before = self._paths, self._slots, self._seen
        # Whether these reach a node is not seen at the node.
        everything = self._fleet.shares_devices
        self._paths, self._slots, self._seen = {}, {}, {}
        known = {} if everything else self._fleet.node_slots
        for name in self._nodes:
            facts, slot = self._nodes.view(name).facts, known.get(name)
            if slot is not None and before.get(name) == (slot, slot.clock, facts):
                self._paths[name] = paths[name]
            else:
                if slot is None:
                    slot = self._fleet.slot(name, self._nodes.labels_of(name))
                self._slots[name] = slot
                self._conflicts.pop(name, None)
                self._paths[name] = self._paths_of(name)
            self._slots[name], self._seen[name] = slot, (slot, slot.clock, facts)
        for name in before.keys() - self._seen.keys():
            self._devices.pop(name, None)
        self.divided = any(len(found) > 1 for found in self._paths.values())
        # Parts of nodes do not follow what is used of the nodes.
        if everything or self.divided or (self._paths, self._slots) != (paths, slots):
            self._places.clear()

    def devices(self, place: Place) -> NodeDevices:
        """The devices of the place that the requests select."""
        found = self._devices.get(place.node)
        if found is None or self._seen[place.node][:2] != (place.slot, place.slot.clock):
            return self._fleet.node_devices(place.slot, self._filters)
        return found

    def places(self, depth: int) -> Places:
        """The places of all nodes in domains of ``depth`` levels, in the order of nodes."""
        # A node in one domain of every level is one place, at whatever depth.
        depth = depth if self.divided else 0
        found = self._places.get(depth)
        if found is None:
            found = self._places[depth] = Places(self._divided(depth) if self.divided else self._whole(), self._nodes)
        return found

    def _whole(self) -> list[Place]:
        paths = [paths[0] for paths in self._paths.values()]
        return [
            Place(index, name, slot, path, path)
            for index, ((name, slot), path) in enumerate(zip(self._slots.items(), paths, strict=True))
        ]

    def _divided(self, depth: int) -> list[Place]:
        found: list[Place] = []
        for name, paths in self._paths.items():
            parts: dict[Path, Path] = {}
            for path in paths:
                parts.setdefault(path[:depth], path[: depth + 1])
            labels = self._nodes.labels_of(name)
            for path, below in parts.items():
                slot = self._fleet.slot(name, labels, self._within(path)) if len(parts) > 1 else self._slots[name]
                found.append(Place(len(found), name, slot, path, below))
        return found

    def domain(self, path: Path) -> Domain:
        """The domain as it is named in answers; its path ends where there is no value."""
        values = path[: path.index("")] if "" in path else path
        return Domain(tuple((level.key, value) for level, value in zip(self.levels, values, strict=False)))

    def path_of_new(self, placement: Placement) -> Path:
        """Where a member goes."""
        if self.divided:
            return self.path_of(Standing(placement.pod, placement))
        return self._paths[placement.node][0]

    def path_of(self, standing: Standing) -> Path:
        """Where a member stands; "" from the first level on at which it is in no domain, or in several."""
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

    def _paths_of(self, name: str) -> tuple[Path, ...]:
        labels = self._nodes.labels_of(name)
        if not self._attributes:
            return (_cut([labels.get(level.key, "") for level in self.levels]),)
        devices = self._devices[name] = self._fleet.node_devices(self._slots[name], self._filters, self._attributes)
        found: set[Path] = set()
        for values in devices.values or {("",) * len(self._attributes)}:
            of_device = iter(values)
            found.add(
                _cut(
                    [
                        next(of_device) if level.kind == "attribute" else labels.get(level.key, "")
                        for level in self.levels
                    ]
                )
            )
        return tuple(sorted(found)) if len(found) == 1 else self._without_conflicts(name, found)

    def _without_conflicts(self, name: str, paths: set[Path]) -> tuple[Path, ...]:
        """A value of the node itself cannot be in several domains of an outer level."""
        for number, level in enumerate(self.levels):
            outer = {path[:number] for path in paths if path[number]}
            if level.kind == "nodeLabel" and len(outer) > 1:
                self._conflicts[name] = Conflict(name, level.key, self.levels[number - 1].key)
                paths = {(*path[:number], *[""] * (len(self.levels) - number)) for path in paths}
                break
        return tuple(sorted(paths))


def _cut(values: list[str]) -> Path:
    """No level counts below one without a value."""
    if "" not in values:
        return tuple(values)
    end = values.index("")
    return (*values[:end], *[""] * (len(values) - end))


def common(paths: Sequence[Path]) -> Path:
    """The smallest domain that holds all of these."""
    if not paths:
        return ()
    first = paths[0]
    same = [all(path[: end + 1] == first[: end + 1] for path in paths) for end in range(len(first))]
    return first[: sum(same)]
