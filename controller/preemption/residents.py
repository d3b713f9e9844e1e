"""The pods of each node with their prices and places, found out once. Pure."""

from collections.abc import Iterator

from controller.cluster import Cluster
from controller.preemption.bonds import Bonds
from controller.preemption.occupancy import Occupancy, Residents
from controller.preemption.price import RANK, Prices
from controller.preemption.values import Holder


class ResidentsByNode:
    """Finds out about the pods of nodes. The occupancy remembers it until holders or published devices change."""

    def __init__(self, occupancy: Occupancy, bonds: Bonds, prices: Prices, cluster: Cluster):
        self._occupancy = occupancy
        self._bonds = bonds
        self._prices = prices
        self._fleet = cluster.devices
        self._nodes = cluster.nodes
        self._slots = self._fleet.node_slots
        self._shared = self._fleet.shared_usage if self._fleet.shares_devices else 0

    def all(self) -> Iterator[tuple[str, Residents]]:
        """Each node with holders, and the pods there."""
        known, slots, shared = self._occupancy.residents, self._slots, self._shared
        for name in self._occupancy.nodes:
            one, slot = known.get(name), slots.get(name)
            if one is None or one.slot is not slot or one.shared != shared or (slot and slot.made != one.made):
                one = known[name] = self._found(name)
            yield name, one

    def of(self, name: str) -> Residents:
        """The pods of a node that ``all`` gave."""
        return self._occupancy.residents[name]

    def _found(self, name: str) -> Residents:
        occupancy, slot = self._occupancy, self._slots.get(name)
        holders = [holder for holder in occupancy.on(name) if not holder.going]
        allocations = [[one.allocation for one in holder.claims if one.allocation] for holder in holders]
        labels, view = self._nodes.labels_of(name), self._nodes.view(name)
        places = iter(self._fleet.places(name, labels, [one for some in allocations for one in some]))
        prices = [self._price(holder) for holder in holders]
        pods = [
            ((price[:RANK], tuple([next(places) for _ in own]), view.holds(holder.pod) is not None), holder.uid)
            for holder, price, own in zip(holders, prices, allocations, strict=True)
        ]
        pods.sort()
        return Residents(
            slot=slot,
            made=slot.made if slot else 0,
            shared=self._shared,
            pods=tuple(pods),
            kinds=tuple([kind for kind, _ in pods]),
            cheapest=min(prices, default=()),
            ages=tuple(sorted([price[RANK:] for price in prices])),
            highest=max([price[0] for price in prices], default=0),
            are_kept=any([holder.kept or self._bonds.claims_obstacle(holder) for holder in holders]),
            is_bound=any(map(occupancy.is_bound, holders)),
        )

    def _price(self, holder: Holder) -> tuple[float, ...]:
        return self._prices.of((holder.uid,))
