"""The cost of using a partition of a card: the partitions that are not available any more afterwards. Pure.

A **card** is all devices of a pool that draw, directly or through others, on the same counters. Those of its devices
that draw the same amounts are of one **kind**. The free counters tell how many of a kind are still available, at most
as many as there are devices. The **size** of a kind is the part of the card that it uses, in millionths: the mean of
the parts it draws of all the card's counters. The cost of a partition is how many fewer of each size are available
after using it, the largest size first. Costs are compared in this order, so one large partition counts more than any
number of smaller ones. The whole card is a kind, too: the first partition of a card costs it, others do not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.devices.layout import Draws, Layout, bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.preferences import load
from driver.bounded import BoundedCache

_MOST_COSTS: Final = 65_536
_MOST_MODELS: Final = 1024


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """Devices of one card that draw the same."""

    size: int
    draws: Draws
    """By the position of the counters within the card."""
    count: int


Lost = tuple[tuple[int, int], ...]
"""The number of lost partitions by size, the largest size first. A smaller value is a smaller loss."""
Cost = tuple[Lost, int]
"""The loss, and the card's load afterwards: the mean of the loads of its counters."""


class CardModel:
    """A model of card, described by its counters and devices. One object for all cards of the model."""

    def __init__(self, totals: tuple[int, ...], kinds: tuple[PartitionSize, ...]) -> None:
        self._totals = totals
        self._kinds = kinds
        self._known: BoundedCache[tuple[tuple[int, ...], Draws], Cost] = BoundedCache(_MOST_COSTS)

    def cost(self, free: tuple[int, ...], taken: Draws) -> Cost:
        """The cost of using a partition while the card's counters have ``free`` left."""
        known = self._known.get((free, taken))
        if known is None:
            known = self._known[free, taken] = self._cost(free, taken)
        return known

    def _cost(self, free: tuple[int, ...], taken: Draws) -> Cost:
        after = list(free)
        for index, amount in taken:
            after[index] -= amount
        lost: dict[int, int] = {}
        for kind in self._kinds:
            lost[kind.size] = lost.get(kind.size, 0) + _available(kind, free) - _available(kind, after)
        loads = [load(total - left, total) for total, left in zip(self._totals, after, strict=True)]
        return tuple((size, count) for size, count in lost.items() if count > 0), sum(loads) // len(loads)


class PoolCards:
    """The cards of pools with the same layout and counters."""

    def __init__(self, layout: Layout, total: Sequence[int], models: "PartitionCosts") -> None:
        self._cards: list[CardModel] = []
        self._counters = layout.counters
        self._groups = layout.groups
        self.partitions = sum(
            1 << index
            for index, draws in enumerate(layout.draws)
            if any(amount < total[counter] for counter, amount in draws)
        )
        """The devices that use only a part of the counters that they draw on."""
        self._members = layout.members
        self._cheapest: BoundedCache[tuple[int, int, tuple[int, ...]], Lost] = BoundedCache(_MOST_COSTS)
        self._within: list[Draws] = [()] * len(layout.draws)
        drawing: list[Counter[Draws]] = [Counter() for _ in layout.counters]
        for index, draws in enumerate(layout.draws):
            if draws:
                group = layout.groups[index]
                self._within[index] = _within(layout.counters[group], draws)
                drawing[group][self._within[index]] += 1
        for counters, devices in zip(layout.counters, drawing, strict=True):
            totals = tuple(total[index] for index in counters)
            kinds = [PartitionSize(_size(draws, totals), draws, count) for draws, count in devices.items()]
            self._cards.append(models.model(totals, tuple(sorted(kinds, key=lambda kind: (-kind.size, kind.draws)))))

    def cost(self, device: PoolDevice, free: Sequence[int]) -> Cost:
        """The cost of using the device while the pool's counters have ``free`` left."""
        group = self._groups[device.index]
        return self._cards[group].cost(
            tuple([free[index] for index in self._counters[group]]), self._within[device.index]
        )

    def cheapest(self, devices: int, free: Sequence[int]) -> Lost | None:
        """The least loss by using one of these available devices; None if there are none."""
        best: Lost | None = None
        for group, members in enumerate(self._members):
            inside = devices & members
            if inside:
                left = tuple([free[index] for index in self._counters[group]])
                known = self._cheapest.get((group, inside, left))
                if known is None:
                    costs = (self._cards[group].cost(left, self._within[index])[0] for index in bits(inside))
                    known = self._cheapest[group, inside, left] = min(costs)
                if best is None or known < best:
                    best = known
        return best


class PartitionCosts:
    """The cards of all pools: computed once for pools that are alike."""

    def __init__(self) -> None:
        self._models: BoundedCache[tuple[tuple[int, ...], tuple[PartitionSize, ...]], CardModel] = BoundedCache(
            _MOST_MODELS
        )
        self._cards: BoundedCache[tuple[Layout, tuple[int, ...]], PoolCards] = BoundedCache(_MOST_MODELS)

    def cards_of(self, pool: Pool) -> PoolCards:
        """The cards of a pool."""
        key = pool.layout, tuple(pool.total)
        known = self._cards.get(key)
        if known is None:
            known = self._cards[key] = PoolCards(pool.layout, key[1], self)
        return known

    def model(self, totals: tuple[int, ...], kinds: tuple[PartitionSize, ...]) -> CardModel:
        """The model with these counters and kinds."""
        known = self._models.get((totals, kinds))
        if known is None:
            known = self._models[totals, kinds] = CardModel(totals, kinds)
        return known


def is_partition(device: PoolDevice) -> bool:
    """True if the device is a partition: it uses only a part of the counters that it draws on."""
    if device.spec.allow_multiple:
        return False
    return any(amount < device.pool.total[index] for index, amount in device.draws)


def _within(counters: Sequence[int], draws: Draws) -> Draws:
    """The draws by the position of the counters within the card."""
    return tuple(sorted((counters.index(index), amount) for index, amount in draws))


def _size(draws: Draws, totals: Sequence[int]) -> int:
    return sum(load(amount, totals[index]) for index, amount in draws) // len(totals)


def _available(kind: PartitionSize, free: Sequence[int]) -> int:
    """The number of available devices of the kind."""
    return min((kind.count, *(max(0, free[index]) // amount for index, amount in kind.draws if amount > 0)))
