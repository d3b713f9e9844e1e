"""Adds units to nodes on trial, and checks them against devices, predicates, and each other.

A node here is a part of one (``DomainNode``), known by its index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from controller.allocation import CompiledRequest, NodeSlot, OutOfSteps, PodValues
from controller.cluster import Cluster
from controller.gangs.topology import DomainNode, DomainNodes
from controller.gangs.units import CoLocatedMembers
from controller.gangs.value_rules import MemberRules
from controller.placement import Placement, PodCheck
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class _Content:
    """The units on a node, with their allocations on trial."""

    units: tuple[CoLocatedMembers, ...]
    allocations: tuple[Allocation, ...]
    other_drivers_allocations: tuple[Allocation, ...]


class Staging:
    """Units on nodes. All units of a node get their devices together, so that none keeps devices from another.

    A node with three cards, two of them with a fast link: a unit of one card that came first may hold one of these two.
    When a unit of two linked cards is added, both units get their devices anew. So whether units fit on a node does not
    depend on the order in which they are added, and the search need not try orders. Where devices of one node can be
    used from another (a node with several parts, shared devices), all nodes concerned are allocated anew together.
    ``test_laws_of_parts`` and ``test_laws_of_shared_devices`` compare this with trying everything.

    It is used in a ``with`` block, as ``WhatIf`` is, and may be entered again. What was added last is removed first.

    Args:
        effort: prolongs searches for devices on a node (``Fleet.fit``).
        rules: what the values of the members' devices have to be; None for any.

    Attributes:
        undecided: whether a search for devices ran out of steps.
        lacked_devices: whether the pods of the last ``add`` could run there, and it failed for lack of devices.
    """

    def __init__(self, cluster: Cluster, domain_nodes: DomainNodes, effort: int = 1, rules: MemberRules | None = None):
        self._effort = effort
        self._rules = rules
        self._tells_apart = rules is not None and bool(rules.distinct)
        self._fleet = cluster.devices
        self._nodes = cluster.nodes
        self._trial = cluster.what_if()
        self._domain_nodes = domain_nodes
        self._contents: dict[int, list[_Content]] = {}
        self._added: list[tuple[int, Sequence[int]]] = []
        """For each addition: the depth of the trial before, and the nodes whose content changed."""
        self._on_node: dict[str, list[int]] = {}
        self._divided = domain_nodes.divided
        self._shares = self._fleet.shares_devices
        self.undecided = False
        self.lacked_devices = False

    def __enter__(self) -> "Staging":
        self._trial.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trial.__exit__(kind, error, trace)

    def units_on(self, node: int) -> tuple[CoLocatedMembers, ...]:
        """The units on the node."""
        contents = self._contents.get(node)
        return contents[-1].units if contents else ()

    def is_alone(self, node: int) -> bool:
        """Whether no unit is on the node, or elsewhere on devices that the node could use."""
        return not self.units_on(node) and not self._others(node)

    @property
    def shares_devices(self) -> bool:
        """Whether nodes share devices, so that a unit can take devices from another node."""
        return self._shares

    @property
    def tells_apart(self) -> bool:
        """Whether units differ in values, so that a unit can take values from another node."""
        return self._tells_apart

    def node_of(self, unit: CoLocatedMembers) -> DomainNode | None:
        """The node of the unit; None if it is on none."""
        return next((self._domain_nodes[node] for node in self._contents if unit in self.units_on(node)), None)

    def placements(self) -> Sequence[tuple[CoLocatedMembers, Placement]]:
        """The placement of every pod of the units on nodes, with its unit."""
        return [pair for node, contents in self._contents.items() for pair in self._placements_on(node, contents[-1])]

    def add(self, node: int, units: Sequence[CoLocatedMembers]) -> bool:
        """Add further units of one shape. Returns False, with nothing changed, if the node does not take all."""
        before = self._trial.depth
        self.lacked_devices = False
        if not self._admits(node, units):
            return False
        # The devices of the units that are there are free for the new allocation, which is for all of them.
        self._set_free(node)
        wanted = (*self.units_on(node), *units)
        alone = self._content_for(node, wanted)
        changed = self._fit_with_others(node, wanted) if alone is None else {node: alone}
        if not changed:
            self._trial.undo(before)
            self.lacked_devices = True
            return False
        for index, content in changed.items():
            self._use(index, content)
            self._contents.setdefault(index, []).append(content)
        self._added.append((before, tuple(changed)))
        on_node = self._on_node.setdefault(self._domain_nodes[node].name, [])
        if node not in on_node:
            on_node.append(node)
        return True

    def remove_last(self, node: int) -> None:
        """Remove the units that were added last, to this node."""
        before, changed = self._added.pop()
        assert node == changed[-1], "what was added last is removed first"
        for index in changed:
            self._contents[index].pop()
        if not self._contents[node]:
            del self._contents[node]
            self._on_node[self._domain_nodes[node].name].remove(node)
        self._trial.undo(before)

    # Predicates

    def _admits(self, node: int, units: Sequence[CoLocatedMembers]) -> bool:
        """Whether the pods can run on the node besides those there. Counts them if they depend on members."""
        name, shape = self._domain_nodes[node].name, units[0].shape
        if shape.bound_to:
            return name == shape.bound_to
        # The bounds say how many units of one shape the node takes, and the search adds no more: if all units here are
        # of one shape and of one pod each, nothing has to be checked. That is the case of most gangs.
        others = [unit for other in self._on_node.get(name, ()) for unit in self.units_on(other)]
        is_counted = len(others) == len(self.units_on(node)) and all(unit.shape is shape for unit in others)
        if not shape.depends_on_members and len(shape.pods) == 1 and is_counted:
            return True
        # Pods stay counted on nodes only if others may ask where they are. Otherwise those that are there are counted
        # for this one question.
        before = self._trial.depth
        if not shape.depends_on_members:
            self._count(name, others)
        possible = self._count(name, units, check=True)
        if not (shape.depends_on_members and possible):
            self._trial.undo(before)
        return possible

    def _count(self, name: str, units: Sequence[CoLocatedMembers], *, check: bool = False) -> bool:
        for unit in units:
            for member in unit.members:
                pod = member.demand
                if check and not PodCheck(pod.key, pod.needs, self._nodes).passes(name):
                    return False
                self._trial.add_pod(pod.key, pod.needs, name)
        return True

    # Devices

    def _content_for(self, index: int, units: tuple[CoLocatedMembers, ...]) -> _Content | None:
        node = self._domain_nodes[index]
        other_drivers = self._allocate(node.slot, [claim for unit in units for claim in unit.other_drivers_claims])
        if other_drivers is None:
            return None
        values = self._rules.for_units(units, self._taken_beside(index)) if self._rules else ()
        ours = self._allocate(node.slot, [claim for unit in units for claim in unit.claims], values)
        return None if ours is None else _Content(units, ours, other_drivers)

    def _taken_beside(self, index: int) -> Mapping[str, frozenset[str]]:
        """The values of units on other nodes, for each attribute in which units differ."""
        if not self._tells_apart:
            return {}
        assert self._rules
        others = [self._contents[other][-1] for other in self._contents if other != index]
        devices = [result.device for one in others for held in one.allocations for result in held.results]
        return {
            attribute: frozenset(
                value for device in devices for value in self._fleet.values_of(device, attribute) or ()
            )
            for attribute, _ in self._rules.distinct
        }

    def _others(self, node: int) -> Sequence[int]:
        """Other nodes with units that may hold devices that this node could use."""
        if self._shares or self._tells_apart:
            return [other for other in self._contents if other != node]
        name = self._domain_nodes[node].name
        return [other for other in self._on_node.get(name, ()) if other != node] if name in self._divided else ()

    def _fit_with_others(self, node: int, units: tuple[CoLocatedMembers, ...]) -> dict[int, _Content]:
        """Allocate other units anew, too. Returns the new content of nodes, of this one last; or none."""
        # A unit elsewhere may hold the only device that a unit here can have, and could do with another one. So only
        # all of them together can say that they do not fit.
        every = [*self._others(node), node]
        if every == [node]:
            return {}
        for other in every[:-1]:
            self._set_free(other)
        slots = [self._domain_nodes[index].slot for index in every]
        wanted = [*(self.units_on(other) for other in every[:-1]), units]
        other_drivers = self._allocate_all(
            slots, [[claim for unit in units for claim in unit.other_drivers_claims] for units in wanted]
        )
        values = [self._rules.for_units(units) for units in wanted] if self._rules else ()
        claims = [[claim for unit in units for claim in unit.claims] for units in wanted]
        ours = self._allocate_all(slots, claims, values)
        if other_drivers is None or ours is None:
            return {}
        contents = map(_Content, wanted, ours, other_drivers)
        return dict(zip(every, contents, strict=True))

    def _allocate_all(
        self,
        slots: Sequence[NodeSlot],
        claims: Sequence[Sequence[Claim]],
        values: Sequence[Sequence[PodValues]] = (),
    ) -> Sequence[tuple[Allocation, ...]] | None:
        """Allocate the claims of all slots together; None if they do not fit."""
        try:
            return self._fleet.fit_together(slots, claims, self._effort, values)
        except OutOfSteps:
            self.undecided = True
            return None

    def _allocate(
        self, slot: NodeSlot, claims: Sequence[Claim], values: Sequence[PodValues] = ()
    ) -> tuple[Allocation, ...] | None:
        if not claims:
            return ()
        request = self._fleet.compile(claims, values)
        assert isinstance(request, CompiledRequest)
        allocations = self._fleet.fit(slot, request, claims, self._effort)
        if allocations is None and self._fleet.is_undecided(slot, request):
            self.undecided = True
        return allocations

    def _use(self, node: int, content: _Content) -> None:
        """Count the devices of the units in the fleet, if other nodes could use them."""
        # Else nobody looks: all units of the node get their devices together, on what is free without any of them.
        if self._domain_nodes[node].name in self._divided or self._shares:
            for uid, allocation in _by_claim(content).items():
                self._trial.use(uid, allocation)

    def _set_free(self, node: int) -> None:
        """Count the devices of the units on the node no longer."""
        if node in self._contents and (self._domain_nodes[node].name in self._divided or self._shares):
            for uid, allocation in _by_claim(self._contents[node][-1]).items():
                self._trial.stop_using(uid, allocation)

    def _placements_on(self, node: int, content: _Content) -> Sequence[tuple[CoLocatedMembers, Placement]]:
        name, allocations = self._domain_nodes[node].name, _by_claim(content)
        return [
            (
                unit,
                Placement(
                    name,
                    tuple(allocations[claim.uid] for claim in member.demand.claims),
                    member.demand.key,
                    other_drivers_allocations=tuple(
                        allocations[claim.uid] for claim in member.demand.other_drivers_claims
                    ),
                ),
            )
            for unit in content.units
            for member in unit.members
        ]


def _by_claim(content: _Content) -> dict[str, Allocation]:
    ours = [claim.uid for unit in content.units for claim in unit.claims]
    others = [claim.uid for unit in content.units for claim in unit.other_drivers_claims]
    return dict(zip((*ours, *others), (*content.allocations, *content.other_drivers_allocations), strict=True))
