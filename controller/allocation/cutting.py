"""What taking a partition of a card costs: the partitions that could no longer be had of it. Pure.

A **card** is all devices of a pool that draw, directly or through others, on the same counter sets. Its devices that
draw the same amounts are of one **kind**; how many of a kind could still be had is what the free counters cover, at
most as many as there are devices. The **size** of a kind is the part of the card that it takes, in millionths: the mean
of the parts it draws of all the card's counters. What a partition costs is how many fewer could be had of every size
after taking it, the largest size first; costs are compared from there, so that one large partition weighs more than any
number of smaller ones. The whole card is one of the kinds: the first cut of a card costs it, further cuts do not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from controller.allocation.pools import Pool, Unit
from controller.allocation.preference import load

Draws = tuple[tuple[int, int], ...]
"""What a device draws of its card: (position of the counter within the card, nanos)."""

_REMEMBERED: Final = 65_536


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices of one card that draw the same."""

    size: int
    draws: Draws
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
    """The cards of one pool."""

    def __init__(self, pool: Pool) -> None:
        self._card: dict[int, tuple[Card, tuple[int, ...], Mapping[int, int]]] = {}
        """Per counter of the pool: its card, the card's counters, and which place there each of them has."""
        self._draws: dict[Unit, Draws] = {}
        for counters in _connected(pool):
            position = {index: place for place, index in enumerate(counters)}
            drawing = Counter(
                _within(position, unit.draws) for unit in pool.units if unit.draws and unit.draws[0][0] in position
            )
            totals = tuple(pool.total[index] for index in counters)
            kinds = [Kind(_size(draws, totals), draws, count) for draws, count in drawing.items()]
            card = _card(totals, tuple(sorted(kinds, key=lambda kind: (-kind.size, kind.draws))))
            self._card.update((index, (card, counters, position)) for index in counters)

    def cost(self, unit: Unit, free: Sequence[int]) -> Cost:
        """What taking the unit costs while ``free`` is left of the pool's counters."""
        card, counters, position = self._card[unit.draws[0][0]]
        draws = self._draws.get(unit)
        if draws is None:
            draws = self._draws[unit] = _within(position, unit.draws)
        return card.cost(tuple(free[index] for index in counters), draws)


_cards: WeakKeyDictionary[Pool, Cards] = WeakKeyDictionary()


def cards_of(pool: Pool) -> Cards:
    """The cards of a pool; worked out once for each."""
    known = _cards.get(pool)
    if known is None:
        known = _cards[pool] = Cards(pool)
    return known


def partial(unit: Unit) -> bool:
    """Whether the device is a partition: one that leaves something of the counters it draws on."""
    if unit.device.allow_multiple:
        return False
    return any(amount < unit.pool.total[index] for index, amount in unit.draws)


def _connected(pool: Pool) -> Iterable[tuple[int, ...]]:
    """The counters of each card: those of one set, and of all sets that some device draws on together."""
    sets: dict[str, list[int]] = {}
    for index, name in enumerate(pool.names):
        sets.setdefault(name.counter_set, []).append(index)
    joined = {name: {name} for name in sets}
    for unit in pool.units:
        names = {pool.names[index].counter_set for index, _ in unit.draws}
        if len(names) > 1:
            together = set().union(*(joined[name] for name in names))
            joined.update(dict.fromkeys(together, together))
    for names in {id(one): one for one in joined.values()}.values():
        yield tuple(index for name in sorted(names) for index in sets[name])


def _within(position: Mapping[int, int], draws: Iterable[tuple[int, int]]) -> Draws:
    return tuple(sorted((position[index], amount) for index, amount in draws))


def _size(draws: Draws, totals: Sequence[int]) -> int:
    return sum(load(amount, totals[index]) for index, amount in draws) // len(totals)


def _fitting(kind: Kind, free: Sequence[int]) -> int:
    """How many of the kind could be had."""
    return min((kind.count, *(max(0, free[index]) // amount for index, amount in kind.draws if amount > 0)))
