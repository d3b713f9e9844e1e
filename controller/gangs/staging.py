"""Puts units on places on trial, and checks them against devices, predicates, and each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.allocation import CompiledRequest, Fleet, NodeSlot, SearchEnded
from controller.gangs.topology import DomainNode, DomainNodes
from controller.gangs.units import CoLocatedMembers
from controller.placement import Needs, Nodes, Placement, PodCheck
from driver.model import Allocation, Claim


@dataclass(slots=True)
class _Content:
    """The units on a place, with their allocations on trial."""

    units: tuple[CoLocatedMembers, ...]
    allocations: tuple[Allocation, ...]
    other_drivers_allocations: tuple[Allocation, ...]
    held: list[str] = field(default_factory=list)


class Staging:
    """Units on places. All units of a place get their devices together, so that none keeps devices from another.

    Inside the ``with`` block, no event may reach the fleet or the nodes. Leaving the block restores both. Entering it
    again puts the units where they were; fleet and nodes must not have changed meanwhile.

    Args:
        effort: prolongs searches for devices on a node (``Fleet.fit``).

    Attributes:
        undecided: whether a search for devices ran out of steps.
    """

    def __init__(self, fleet: Fleet, nodes: Nodes, places: DomainNodes, effort: int = 1):
        self._effort = effort
        self._fleet = fleet
        self._nodes = nodes
        self._places = places
        self._contents: dict[int, list[_Content]] = {}
        self._on_node: dict[str, list[int]] = {}
        self._several = places.divided_nodes
        self._shares = fleet.shares_devices
        self._pods: list[tuple[str, str, Needs]] = []
        self.undecided = False

    def __enter__(self) -> "Staging":
        for node, key, needs in self._pods:
            self._nodes.hold(node, key, needs)
        for place, contents in self._contents.items():
            self._hold(place, contents[-1])
        return self

    def __exit__(self, *error: object) -> None:
        for contents in self._contents.values():
            self._release(contents[-1])
        for node, key, _ in reversed(self._pods):
            self._nodes.release(node, key)

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
        if not self._admits(place, units):
            return False
        before = self._contents.get(place)
        if before:
            self._release(before[-1])
        wanted = (*self.units(place), *units)
        content = self._fit(self._places[place], wanted) or self._fit_with_others(place, wanted)
        if content is None:
            if before:
                self._hold(place, before[-1])
            if units[0].shape.depends_on_members:
                self._discount(sum(len(unit.members) for unit in units))
            return False
        self._hold(place, content)
        self._contents.setdefault(place, []).append(content)
        on_node = self._on_node.setdefault(self._places[place].node, [])
        if place not in on_node:
            on_node.append(place)
        return True

    def take(self, place: int) -> None:
        """Take back the units that were put on the place last."""
        contents = self._contents[place]
        last = contents.pop()
        self._release(last)
        if contents:
            self._keep_prefix(place, contents[-1], last)
            self._hold(place, contents[-1])
        else:
            del self._contents[place]
            self._on_node[self._places[place].node].remove(place)
        if last.units[0].shape.depends_on_members:
            before = contents[-1].units if contents else ()
            self._discount(sum(len(unit.members) for unit in last.units[len(before) :]))

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
        counted = len(self._pods)
        if not shape.depends_on_members:
            self._count(node, others)
        possible = self._count(node, units, check=True)
        if not (shape.depends_on_members and possible):
            self._discount(len(self._pods) - counted)
        return possible

    def _count(self, node: str, units: Sequence[CoLocatedMembers], *, check: bool = False) -> bool:
        for unit in units:
            for member in unit.members:
                pod = member.demand
                if check and not PodCheck(pod.key, pod.needs, self._nodes).passes(node):
                    return False
                key = f"{pod.key}#{len(self._pods)}"
                self._nodes.hold(node, key, pod.needs)
                self._pods.append((node, key, pod.needs))
        return True

    def _discount(self, pods: int) -> None:
        for _ in range(pods):
            node, key, _ = self._pods.pop()
            self._nodes.release(node, key)

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

    def _fit_with_others(self, place: int, units: tuple[CoLocatedMembers, ...]) -> _Content | None:
        """Re-allocate other units, too, to make room; keeps their new allocations."""
        others = [(other, self._contents[other][-1]) for other in self._others(place)]
        if not others:
            return None
        for _, content in others:
            self._release(content)
        slots = [self._places[at].slot for at in (*(other for other, _ in others), place)]
        wanted = [*(content.units for _, content in others), units]
        other_drivers = self._allocate_all(
            slots, [[claim for unit in some for claim in unit.other_drivers_claims] for some in wanted]
        )
        ours = self._allocate_all(slots, [[claim for unit in some for claim in unit.claims] for some in wanted])
        for number, (other, content) in enumerate(others):
            if other_drivers is not None and ours is not None:
                content.other_drivers_allocations, content.allocations = other_drivers[number], ours[number]
            self._hold(other, content)
        return None if other_drivers is None or ours is None else _Content(units, ours[-1], other_drivers[-1])

    def _allocate_all(
        self, slots: Sequence[NodeSlot], claims: Sequence[Sequence[Claim]]
    ) -> Sequence[tuple[Allocation, ...]] | None:
        """Allocate the claims of all slots together; None if they do not fit."""
        try:
            return self._fleet.fit_together(slots, claims, self._effort)
        except SearchEnded:
            self.undecided = True
            return None

    def _keep_prefix(self, place: int, content: _Content, last: _Content) -> None:
        """Let units that stay keep their last devices: others may have got their earlier ones."""
        if self._shares or self._places[place].node in self._several:
            content.allocations = last.allocations[: len(content.allocations)]
            content.other_drivers_allocations = last.other_drivers_allocations[: len(content.other_drivers_allocations)]

    def _allocate(self, slot: NodeSlot, claims: Sequence[Claim]) -> tuple[Allocation, ...] | None:
        if not claims:
            return ()
        request = self._fleet.compile(claims)
        assert isinstance(request, CompiledRequest)
        found = self._fleet.fit(slot, request, claims, self._effort)
        if found is None and self._fleet.is_undecided(slot, request):
            self.undecided = True
        return found

    def _hold(self, place: int, content: _Content) -> None:
        """Count the devices of the units in the fleet, if other places could use them."""
        if self._places[place].node in self._several or self._shares:
            claims = [claim for unit in content.units for claim in (*unit.claims, *unit.other_drivers_claims)]
            by_uid = dict(zip((claim.uid for claim in claims), claims, strict=True))
            content.held = [self._fleet.hold(by_uid[uid], found) for uid, found in _by_claim(content).items()]

    def _release(self, content: _Content) -> None:
        for uid in reversed(content.held):
            self._fleet.release(uid)
        content.held = []

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
