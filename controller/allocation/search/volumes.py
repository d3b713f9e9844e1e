"""Counters and capacities as volumes: whether what requests take at least, summed up, still goes into what is left.

A bin is what one sum is taken over: a counter set of a pool (one card), or one shareable device. A measure adds up what
is comparable: one capacity, one counter by its name, or all counters of one total (the memory slices of a card,
whichever of them a partition takes). A bin is not worth all that is left in it, but the most that sizes asked for can
fill of it: shares of 6 leave 4 of 10 unused.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from controller.allocation.search.attempt import Attempt
from controller.allocation.search.needs import Ground, Need, Way
from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.pools import Pool, Unit

Measure = tuple[str, Hashable]
Sizes = dict[Measure, frozenset[int]]
Asked = Sequence[tuple[frozenset[int], int]]
"""The sizes a request may take, and how many devices of such sizes are wanted."""

_MOST_SUMS: Final = 500
"""Sums looked at for one bin; beyond them all of it counts as usable."""


class Volumes:
    """Sizes of the devices of a ground, and what is left to take them from."""

    def __init__(self, ground: Ground, attempt: Attempt):
        self._ground = ground
        self._attempt = attempt
        self._drawn = [_drawn(units) for units in ground.members]
        """Per cell, what its devices draw from counters: only measures that all of them draw on."""
        self._bins: dict[tuple[Measure, frozenset[int]], Sequence[Sequence[tuple[Pool, int]]]] = {}

    def suffice(self, needs: Iterable[Need]) -> bool:
        """Whether the needs, taken together, may go into what is left."""
        merged: dict[Hashable, tuple[Need, int]] = {}
        for need in needs:
            merged[need.form] = need, merged.get(need.form, (need, 0))[1] + need.least
        asked: dict[Measure, list[tuple[frozenset[int], int]]] = {}
        cells: dict[Measure, set[int]] = {}
        for need, count in merged.values():
            for measure, sizes in self._sizes(need.ways).items():
                asked.setdefault(measure, []).append((sizes, count))
                cells.setdefault(measure, set()).update(cell for way in need.ways for cell in way.cells)
        return all(self._enough(measure, frozenset(cells[measure]), asked[measure]) for measure in asked)

    def _sizes(self, ways: Iterable[Way]) -> Sizes:
        """What a need takes, by the measures of which it takes some in any case."""
        found: Sizes | None = None
        for way in ways:
            for cell in way.cells:
                takes = way.offer[cell]
                sizes = self._drawn[cell] if takes is None else _shared(takes)
                if found is None:
                    found = sizes
                else:
                    found = {measure: size | sizes[measure] for measure, size in found.items() if measure in sizes}
                if not found:
                    return {}
        return found or {}

    def _enough(self, measure: Measure, cells: frozenset[int], asked: Asked) -> bool:
        missing = sum(min(sizes) * count for sizes, count in asked)
        left = self._capacity_left(measure, cells) if measure[0] == "capacity" else self._counters_left(measure, cells)
        for amount, number in Counter(left).items():
            missing -= fillable(amount, asked) * number
            if missing <= 0:
                return True
        return missing <= 0

    def _capacity_left(self, measure: Measure, cells: Iterable[int]) -> Iterable[int]:
        units = (unit for cell in cells for unit in self._ground.members[cell])
        return [self._attempt.remaining(unit, str(measure[1])) for unit in units]

    def _counters_left(self, measure: Measure, cells: frozenset[int]) -> Iterable[int]:
        bins = self._bins.get((measure, cells))
        if bins is None:
            units = [unit for cell in cells for unit in self._ground.members[cell]]
            bins = self._bins[measure, cells] = _bins(measure, units)
        return [sum(max(0, self._attempt.free(pool)[index]) for pool, index in one) for one in bins]


def _measures(pool: Pool, index: int) -> tuple[Measure, Measure]:
    return ("counter", pool.names[index].counter), ("total", pool.total[index])


def _shared(takes: Amounts) -> Sizes:
    """What a share takes. Counters are drawn on once for all shares of a device: they say nothing of one share."""
    return {("capacity", name): frozenset([amount.nanos]) for name, amount in takes.items()}


def _drawn(units: Sequence[Unit]) -> Sizes:
    found: Sizes | None = None
    for unit in units:
        amounts: Counter[Measure] = Counter()
        for index, amount in unit.draws:
            for measure in _measures(unit.pool, index):
                amounts[measure] += amount
        if found is None:
            found = {measure: frozenset([amount]) for measure, amount in amounts.items()}
        found = {measure: sizes | {amounts[measure]} for measure, sizes in found.items() if measure in amounts}
    return found or {}


def _bins(measure: Measure, units: Sequence[Unit]) -> Sequence[Sequence[tuple[Pool, int]]]:
    """The counters of the measure by counter set; in one bin where a device draws on several sets."""
    found: dict[Hashable, dict[tuple[Pool, int], None]] = {}
    several = any(len({unit.pool.names[index].counter_set for index, _ in unit.draws}) > 1 for unit in units)
    for unit in units:
        for index, _ in unit.draws:
            if measure in _measures(unit.pool, index):
                key = None if several else (unit.pool, unit.pool.names[index].counter_set)
                found.setdefault(key, {})[unit.pool, index] = None
    return [list(one) for one in found.values()]


def fillable(left: int, asked: Asked) -> int:
    """The largest sum of sizes asked for that is at most ``left``; ``left`` where there are too many sums to tell."""
    sums = {0}
    for sizes, count in asked:
        for _ in range(count):
            more = {total + size for total in sums for size in sizes if total + size <= left} - sums
            if not more:
                break
            sums |= more
            if len(sums) > _MOST_SUMS:
                return left
    return max(sums)
