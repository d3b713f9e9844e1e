"""Domains as paths of values, and the devices of nodes in each of them.

A node is in the domain that its labels and the attributes of its devices name. Devices of a pool that does not tell an
attribute (``columns.tells``) are in the domains of the others. If its devices are in several domains of an attribute
(two InfiniBand fabrics in one machine), the node counts as several: one ``DomainNode`` for its devices in each domain.
Everywhere else in this package, "node" means such a part, and it is known by its index in ``DomainNodes``. Mostly every
node is whole, and its part is all of it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation import CompiledRequest, Fleet, NodeDeviceCounts, NodeSlot
from controller.gangs.gang import Domain, Level, Standing
from controller.placement import NodeFacts, Nodes, Placement
from driver.bounded import BoundedCache

Stamp = tuple[int, int]
"""The version of the devices in a domain, and that of their node."""
Path = tuple[str, ...]
"""Values of the levels, outermost first; "" from the first level without a value on."""
_NO_VALUES: Final = frozenset[tuple[str, ...]]()
_COMBINED: Final = 4_096
"""Most remembered paths, each for the values of devices and their node: about one for each domain."""


@dataclass(slots=True, eq=False)
class DomainNode:
    """The devices of a node in one domain, which are mostly all of the node. Nothing changes it once it is made.

    Attributes:
        name: of the node.
        path: path of the domain, at least as deep as was asked for.
        below: the same with the next level; the first domain of that level if there are several.
    """

    index: int
    name: str
    slot: NodeSlot
    path: Path
    below: Path


class DomainNodes:
    """Parts of nodes by index and by domain. Equal only to itself.

    Attributes:
        divided: names of nodes with several parts.
    """

    def __init__(self, parts: Sequence[DomainNode], nodes: Nodes):
        self._parts = parts
        self._views = [nodes.view(part.name) for part in parts]
        names = [part.name for part in parts]
        several = Counter(names) if len(set(names)) < len(names) else Counter[str]()
        self.divided = frozenset(name for name, count in several.items() if count > 1)
        self._by_path: dict[int, Mapping[Path, Sequence[int]]] = {}
        self._sub_domains: dict[int, Mapping[Path, Mapping[Path, Sequence[int]]]] = {}
        self._by_name: dict[str, list[int]] = {}

    def __getitem__(self, index: int) -> DomainNode:
        return self._parts[index]

    def __iter__(self) -> Iterator[DomainNode]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def stamps(self) -> list[Stamp]:
        """The versions of each part: of its devices, and of its node with the pods there.

        If a change on trial is undone, they are as before (``NodeSlot.clock``).
        """
        return [(part.slot.clock, view.version) for part, view in zip(self._parts, self._views, strict=True)]

    def named(self, name: str) -> Sequence[int]:
        """Indexes of the parts of the node with this name."""
        if not self._by_name:
            for part in self._parts:
                self._by_name.setdefault(part.name, []).append(part.index)
        return self._by_name.get(name, ())

    def domains(self, depth: int) -> Mapping[Path, Sequence[int]]:
        """The indexes in each domain of ``depth`` levels, by path. What is in no domain is left out."""
        domains = self._by_path.get(depth)
        if domains is None:
            domains = self._by_path[depth] = by_path(self._parts, depth)
        return domains

    def sub_domains(self, depth: int) -> Mapping[Path, Mapping[Path, Sequence[int]]]:
        """The indexes in each domain of ``depth`` levels, by the domain of the next level that each is in, if any."""
        found = self._sub_domains.get(depth)
        if found is None:
            every: dict[Path, dict[Path, list[int]]] = {}
            for path, inside in self.domains(depth).items():
                of_domain = every.setdefault(path, {})
                for index in inside:
                    of_domain.setdefault(self._parts[index].below[: depth + 1], []).append(index)
            found = self._sub_domains[depth] = every
        return found


def by_path(parts: Iterable[DomainNode], depth: int) -> dict[Path, list[int]]:
    """Group indexes by their domain of ``depth`` levels. What is in no domain is left out."""
    indexes: dict[Path, list[int]] = {}
    for part in parts:
        path = part.path[:depth]
        if not depth or path[-1]:
            indexes.setdefault(path, []).append(part.index)
    return indexes


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
        self._domain_nodes: dict[int, DomainNodes] = {}
        self.divided = False
        self.update()

    @property
    def conflicts(self) -> Sequence[DomainConflict]:
        """Nodes that cannot be used for a level."""
        return [self._conflicts[name] for name in self._slots if name in self._conflicts]

    def update(self) -> None:
        """Renew the paths of nodes that have changed. ``DomainNodes`` stay valid if no domain has changed."""
        paths, slots, before = self._paths, self._slots, self._seen
        # Whether these reach a node is not seen at the node.
        everything = self._fleet.shares_devices
        self._paths, self._slots, self._seen = {}, {}, {}
        slots_by_name = {} if everything else self._fleet.node_slots
        for name in self._nodes:
            facts = self._nodes[name].facts
            assert facts is not None
            slot = slots_by_name.get(name) or self._fleet.slot(name, facts.labels)
            self._slots[name], self._seen[name] = slot, (slot, slot.clock, facts)
            if not everything and before.get(name) == self._seen[name]:
                self._paths[name] = paths[name]
            else:
                self._conflicts.pop(name, None)
                self._paths[name] = self._paths_of(name, slot, facts.labels)
        for name in before.keys() - self._seen.keys():
            self._devices.pop(name, None)
        self.divided = max(map(len, self._paths.values()), default=0) > 1
        # Parts of nodes do not follow what is used of the nodes. New ``DomainNodes`` are equal to none before, so what
        # is remembered by them (``Memory``, ``Unfinished``) is not used any more.
        if everything or self.divided or (self._paths, self._slots) != (paths, slots):
            self._domain_nodes.clear()

    def devices(self, part: DomainNode) -> NodeDeviceCounts:
        """The devices of the part that the requests select."""
        counts = self._devices.get(part.name)
        if counts is None or self._seen[part.name][:2] != (part.slot, part.slot.clock):
            return self._fleet.node_devices(part.slot, self._filters)
        return counts

    def domain_nodes(self, depth: int) -> DomainNodes:
        """The parts of all nodes in domains of ``depth`` levels, in the order of nodes."""
        # A node in one domain of every level is one part, at whatever depth.
        depth = depth if self.divided else 0
        cached = self._domain_nodes.get(depth)
        if cached is None:
            parts = self._parts_of_nodes(depth) if self.divided else self._whole_nodes()
            cached = self._domain_nodes[depth] = DomainNodes(parts, self._nodes)
        return cached

    def _whole_nodes(self) -> list[DomainNode]:
        paths = [paths[0] for paths in self._paths.values()]
        return [
            DomainNode(index, name, slot, path, path)
            for index, ((name, slot), path) in enumerate(zip(self._slots.items(), paths, strict=True))
        ]

    def _parts_of_nodes(self, depth: int) -> list[DomainNode]:
        parts: list[DomainNode] = []
        for name, paths in self._paths.items():
            below: dict[Path, Path] = {}
            for path in paths:
                below.setdefault(path[:depth], path[: depth + 1])
            labels = self._nodes.labels_of(name)
            # The slot of a whole node is shared by all gangs and pods, and with it what is known about its devices. So
            # a narrower one is made only where it is needed.
            for path, next_path in below.items():
                slot = self._fleet.slot(name, labels, self._within(path)) if len(below) > 1 else self._slots[name]
                parts.append(DomainNode(len(parts), name, slot, path, next_path))
        return parts

    def outside(self, depth: int) -> int:
        """Number of nodes in no domain of ``depth`` levels."""
        # Of a node with several paths, each of them has to be outside.
        outside = [paths for paths in self._paths.values() if not paths[0][depth - 1]]
        return sum([not any([path[depth - 1] for path in paths]) for paths in outside])

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
        of_node = self._paths.get(standing.placed.node, ())
        values_so_far: list[str] = []
        for number, level in enumerate(self.levels):
            if level.kind == "nodeLabel":
                values = {labels.get(level.key, "")}
            elif telling := [device for device in devices if self._fleet.tells(device, level.key)]:
                # A device may be in several domains of an attribute. The member is in those that all of its devices are
                # in; with none, or with several, its path ends here.
                each = [self._fleet.values_of(device, level.key) or frozenset() for device in telling]
                values = set(frozenset.intersection(*each))
            else:
                values = {path[number] for path in of_node if path[:number] == tuple(values_so_far)}
            if len(values) != 1 or values == {""}:
                break
            values_so_far += values
        return (*values_so_far, *[""] * (len(self.levels) - len(values_so_far)))

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
        paths = self._combined.get((of_devices, of_node))
        if paths is None:
            paths = self._combined[of_devices, of_node] = self._combine(of_devices, of_node)
        return paths if len(paths) == 1 else self._without_conflicts(name, set(paths))

    def _combine(self, of_devices: frozenset[tuple[str, ...]], of_node: tuple[str, ...]) -> tuple[Path, ...]:
        """Paths of devices with these attribute values on a node with these label values."""
        paths = set()
        for values in of_devices or {("",) * len(self._attributes)}:
            attributes, labels = iter(values), iter(of_node)
            paths.add(_cut([next(attributes if level.kind == "attribute" else labels) for level in self.levels]))
        return tuple(sorted(paths))

    def _without_conflicts(self, name: str, paths: set[Path]) -> tuple[Path, ...]:
        """Cut paths at a node label that is in several domains of an outer level, and record the conflict."""
        # A domain of an inner level lies in one domain of the outer one. A node whose devices are in two fabrics says
        # with its one label "rack" that the rack is in both, so it counts for the fabrics and for no rack.
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


def common_path(paths: Sequence[Path]) -> Path:
    """Path of the smallest domain with all of these."""
    if not paths:
        return ()
    first = paths[0]
    same = [all(path[: end + 1] == first[: end + 1] for path in paths) for end in range(len(first))]
    return first[: sum(same)]
