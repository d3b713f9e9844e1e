"""What taking a partition of a card costs: the partitions that could no longer be had of it. Pure.

A **card** is all devices of a pool that draw, directly or through others, on the same counters. Its devices that
draw the same amounts are of one **kind**; how many of a kind could still be had is what the free counters cover, at
most as many as there are devices. The **size** of a kind is the part of the card that it takes, in millionths: the mean
of the parts it draws of all the card's counters. What a partition costs is how many fewer could be had of every size
after taking it, the largest size first; costs are compared from there, so that one large partition weighs more than any
number of smaller ones. The whole card is one of the kinds: the first cut of a card costs it, further cuts do not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from controller.allocation.policies.preference import load
from controller.allocation.stock.layout import Draws, Layout, bits
from controller.allocation.stock.pools import Pool, Unit

_REMEMBERED: Final = 65_536


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices of one card that draw the same."""

    size: int
    draws: Draws
    """By the places of the counters within the card."""
    count: int


Lost = tuple[tuple[int, int], ...]
"""Sizes of which fewer could be had and how many, the largest size first. A smaller value is a smaller loss."""
Cost = tuple[Lost, int]
"""What is lost, and the card's load then: the mean of the loads of its counters."""


class Card:
    """A card as its counters and devices describe it; one for all cards of a model, wherever they are."""

    def __init__(self, totals: tuple[int, ...], kinds: tuple[Kind, ...]) -> None:
        self._totals = totals
        self._kinds = kinds
        self._known: dict[tuple[tuple[int, ...], Draws], Cost] = {}

    def cost(self, free: tuple[int, ...], taken: Draws) -> Cost:
        """What taking a partition costs while ``free`` is left of the card's counters."""
        known = self._known.get((free, taken))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[free, taken] = self._cost(free, taken)
        return known

    def _cost(self, free: tuple[int, ...], taken: Draws) -> Cost:
        after = list(free)
        for index, amount in taken:
            after[index] -= amount
        lost: dict[int, int] = {}
        for kind in self._kinds:
            lost[kind.size] = lost.get(kind.size, 0) + _fitting(kind, free) - _fitting(kind, after)
        loads = [load(total - left, total) for total, left in zip(self._totals, after, strict=True)]
        return tuple((size, count) for size, count in lost.items() if count > 0), sum(loads) // len(loads)


_models: WeakValueDictionary[tuple[tuple[int, ...], tuple[Kind, ...]], Card] = WeakValueDictionary()


def _card(totals: tuple[int, ...], kinds: tuple[Kind, ...]) -> Card:
    known = _models.get((totals, kinds))
    if known is None:
        known = _models[totals, kinds] = Card(totals, kinds)
    return known


class Cards:
    """The cards of the pools that are cut alike and have the same counters."""

    def __init__(self, layout: Layout, total: Sequence[int]) -> None:
        self._cards: list[Card] = []
        self._counters = layout.counters
        self._groups = layout.groups
        self.partitions = sum(
            1 << index
            for index, draws in enumerate(layout.draws)
            if any(amount < total[counter] for counter, amount in draws)
        )
        """Devices that leave something of the counters they draw on."""
        self._members = layout.members
        self._cheapest: dict[tuple[int, int, tuple[int, ...]], Lost] = {}
        self._within: list[Draws] = [()] * len(layout.draws)
        drawing: list[Counter[Draws]] = [Counter() for _ in layout.counters]
        for index, draws in enumerate(layout.draws):
            if draws:
                group = layout.groups[index]
                self._within[index] = _within(layout.counters[group], draws)
                drawing[group][self._within[index]] += 1
        for counters, devices in zip(layout.counters, drawing, strict=True):
            totals = tuple(total[index] for index in counters)
            kinds = [Kind(_size(draws, totals), draws, count) for draws, count in devices.items()]
            self._cards.append(_card(totals, tuple(sorted(kinds, key=lambda kind: (-kind.size, kind.draws)))))

    def cost(self, unit: Unit, free: Sequence[int]) -> Cost:
        """What taking the unit costs while ``free`` is left of the pool's counters."""
        group = self._groups[unit.index]
        return self._cards[group].cost(
            tuple([free[index] for index in self._counters[group]]), self._within[unit.index]
        )

    def cheapest(self, devices: int, free: Sequence[int]) -> Lost | None:
        """The least loss by taking one of these devices (a bit for each, none blocked); None if there are none."""
        best: Lost | None = None
        for group, members in enumerate(self._members):
            inside = devices & members
            if inside:
                left = tuple([free[index] for index in self._counters[group]])
                known = self._cheapest.get((group, inside, left))
                if known is None:
                    if len(self._cheapest) >= _REMEMBERED:
                        self._cheapest.clear()
                    costs = (self._cards[group].cost(left, self._within[index])[0] for index in bits(inside))
                    known = self._cheapest[group, inside, left] = min(costs)
                if best is None or known < best:
                    best = known
        return best


_cards: WeakKeyDictionary[Layout, dict[tuple[int, ...], Cards]] = WeakKeyDictionary()


def cards_of(pool: Pool) -> Cards:
    """The cards of a pool; worked out once for all pools that are alike."""
    by_total = _cards.setdefault(pool.layout, {})
    total = tuple(pool.total)
    known = by_total.get(total)
    if known is None:
        known = by_total[total] = Cards(pool.layout, total)
    return known


def partial(unit: Unit) -> bool:
    """Whether the device is a partition: one that leaves something of the counters it draws on."""
    if unit.device.allow_multiple:
        return False
    return any(amount < unit.pool.total[index] for index, amount in unit.draws)


def _within(counters: Sequence[int], draws: Draws) -> Draws:
    """The draws by the places of the counters within the card."""
    return tuple(sorted((counters.index(index), amount) for index, amount in draws))


def _size(draws: Draws, totals: Sequence[int]) -> int:
    return sum(load(amount, totals[index]) for index, amount in draws) // len(totals)


def _fitting(kind: Kind, free: Sequence[int]) -> int:
    """How many of the kind could be had."""
    return min((kind.count, *(max(0, free[index]) // amount for index, amount in kind.draws if amount > 0)))
