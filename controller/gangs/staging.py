"""Puts units on places on trial, and checks them against devices, predicates, and each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from controller.allocation import CompiledRequest, NodeSlot, SearchEnded
from controller.cluster import Cluster
from controller.gangs.topology import DomainNode, DomainNodes
from controller.gangs.units import CoLocatedMembers
from controller.placement import Placement, PodCheck
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class _Content:
    """The units on a place, with their allocations on trial."""

    units: tuple[CoLocatedMembers, ...]
    allocations: tuple[Allocation, ...]
    other_drivers_allocations: tuple[Allocation, ...]


class Staging:
    """Units on places. All units of a place get their devices together, so that none keeps devices from another.

    It is used in a ``with`` block, as ``WhatIf`` is, and may be entered again. What was put last is taken back first.

    Args:
        effort: prolongs searches for devices on a node (``Fleet.fit``).

    Attributes:
        undecided: whether a search for devices ran out of steps.
    """

    def __init__(self, cluster: Cluster, places: DomainNodes, effort: int = 1):
        self._effort = effort
        self._fleet = cluster.devices
        self._nodes = cluster.nodes
        self._trial = cluster.what_if()
        self._places = places
        self._contents: dict[int, list[_Content]] = {}
        self._puts: list[tuple[int, Sequence[int]]] = []
        """For what was put: the depth of the trial before, and the places whose content changed."""
        self._on_node: dict[str, list[int]] = {}
        self._several = places.divided_nodes
        self._shares = self._fleet.shares_devices
        self.undecided = False

    def __enter__(self) -> "Staging":
        self._trial.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trial.__exit__(kind, error, trace)

    def units(self, place: int) -> tuple[CoLocatedMembers, ...]:
        """The units on the place."""
        found = self._contents.get(place)
        return found[-1].units if found else ()

    def is_alone(self, place: int) -> bool:
        """Whether no unit is on the place, or elsewhere on devices that the place could use."""
        return not self.units(place) and not self._others(place)

    @property
    def shares_devices(self) -> bool:
        """Whether nodes share devices, so that a unit can take devices from another node."""
        return self._shares

    def place_of(self, unit: CoLocatedMembers) -> DomainNode | None:
        """The place of the unit; None if it is on none."""
        return next((self._places[place] for place in self._contents if unit in self.units(place)), None)

    def placements(self) -> Sequence[tuple[CoLocatedMembers, Placement]]:
        """The placement of every pod of the units on places, with its unit."""
        return [one for place, contents in self._contents.items() for one in self._of(place, contents[-1])]

    def put(self, place: int, units: Sequence[CoLocatedMembers]) -> bool:
        """Put further units of one shape on the place. Returns False, with nothing changed, if it does not take all."""
        before = self._trial.depth
        if not self._admits(place, units):
            return False
        self._set_free(place)
        wanted = (*self.units(place), *units)
        alone = self._fit(self._places[place], wanted)
        changed = self._fit_with_others(place, wanted) if alone is None else {place: alone}
        if not changed:
            self._trial.undo(before)
            return False
        for at, content in changed.items():
            self._use(at, content)
            self._contents.setdefault(at, []).append(content)
        self._puts.append((before, tuple(changed)))
        on_node = self._on_node.setdefault(self._places[place].node, [])
        if place not in on_node:
            on_node.append(place)
        return True

    def take(self, place: int) -> None:
        """Take back the units that were put last, on this place."""
        before, changed = self._puts.pop()
        assert place == changed[-1], "what was put last is taken back first"
        for at in changed:
            self._contents[at].pop()
        if not self._contents[place]:
            del self._contents[place]
            self._on_node[self._places[place].node].remove(place)
        self._trial.undo(before)

    # Predicates

    def _admits(self, place: int, units: Sequence[CoLocatedMembers]) -> bool:
        """Whether the pods can run on the node besides those there. Counts them if they depend on members."""
        node, shape = self._places[place].node, units[0].shape
        if shape.bound_to:
            return node == shape.bound_to
        others = [unit for other in self._on_node.get(node, ()) for unit in self.units(other)]
        is_counted = len(others) == len(self.units(place)) and all(unit.shape is shape for unit in others)
        if not shape.depends_on_members and len(shape.pods) == 1 and is_counted:
            return True
        before = self._trial.depth
        if not shape.depends_on_members:
            self._count(node, others)
        possible = self._count(node, units, check=True)
        if not (shape.depends_on_members and possible):
            self._trial.undo(before)
        return possible

    def _count(self, node: str, units: Sequence[CoLocatedMembers], *, check: bool = False) -> bool:
        for unit in units:
            for member in unit.members:
                pod = member.demand
                if check and not PodCheck(pod.key, pod.needs, self._nodes).passes(node):
                    return False
                self._trial.add_pod(pod.key, pod.needs, node)
        return True

    # Devices

    def _fit(self, place: DomainNode, units: tuple[CoLocatedMembers, ...]) -> _Content | None:
        other_drivers = self._allocate(place.slot, [claim for unit in units for claim in unit.other_drivers_claims])
        if other_drivers is None:
            return None
        ours = self._allocate(place.slot, [claim for unit in units for claim in unit.claims])
        return None if ours is None else _Content(units, ours, other_drivers)

    def _others(self, place: int) -> Sequence[int]:
        """Other places with units that may hold devices that this place could use."""
        if self._shares:
            return [other for other in self._contents if other != place]
        node = self._places[place].node
        return [other for other in self._on_node.get(node, ()) if other != place] if node in self._several else ()

    def _fit_with_others(self, place: int, units: tuple[CoLocatedMembers, ...]) -> dict[int, _Content]:
        """Re-allocate other units, too, to make room. Returns the new content of places, of this one last; or none."""
        every = [*self._others(place), place]
        if every == [place]:
            return {}
        for other in every[:-1]:
            self._set_free(other)
        slots = [self._places[at].slot for at in every]
        wanted = [*(self.units(other) for other in every[:-1]), units]
        other_drivers = self._allocate_all(
            slots, [[claim for unit in some for claim in unit.other_drivers_claims] for some in wanted]
        )
        ours = self._allocate_all(slots, [[claim for unit in some for claim in unit.claims] for some in wanted])
        if other_drivers is None or ours is None:
            return {}
        contents = map(_Content, wanted, ours, other_drivers)
        return dict(zip(every, contents, strict=True))

    def _allocate_all(
        self, slots: Sequence[NodeSlot], claims: Sequence[Sequence[Claim]]
    ) -> Sequence[tuple[Allocation, ...]] | None:
        """Allocate the claims of all slots together; None if they do not fit."""
        try:
            return self._fleet.fit_together(slots, claims, self._effort)
        except SearchEnded:
            self.undecided = True
            return None

    def _allocate(self, slot: NodeSlot, claims: Sequence[Claim]) -> tuple[Allocation, ...] | None:
        if not claims:
            return ()
        request = self._fleet.compile(claims)
        assert isinstance(request, CompiledRequest)
        found = self._fleet.fit(slot, request, claims, self._effort)
        if found is None and self._fleet.is_undecided(slot, request):
            self.undecided = True
        return found

    def _use(self, place: int, content: _Content) -> None:
        """Count the devices of the units in the fleet, if other places could use them."""
        if self._places[place].node in self._several or self._shares:
            for uid, allocation in _by_claim(content).items():
                self._trial.use(uid, allocation)

    def _set_free(self, place: int) -> None:
        """Count the devices of the units on the place no longer."""
        if place in self._contents and (self._places[place].node in self._several or self._shares):
            for uid, allocation in _by_claim(self._contents[place][-1]).items():
                self._trial.stop_using(uid, allocation)

    def _of(self, place: int, content: _Content) -> Sequence[tuple[CoLocatedMembers, Placement]]:
        node, allocations = self._places[place].node, _by_claim(content)
        return [
            (
                unit,
                Placement(
                    node,
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
