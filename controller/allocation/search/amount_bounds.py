"""Bounds by amounts: compares the least consumption of requests, summed up, with the counters and capacities left.

A bin is the range of one sum: a counter set of a pool (one card), or one shareable device. A measure is one capacity,
one counter by its name, or all counters of the same total (the memory slices of a card, whichever of them a partition
uses). A bin counts with the most that the requested sizes can fill of it, not with all that is left in it: shares of 6
leave 4 of 10 unused.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.rules.capacity import Quantities
from controller.allocation.search.attempt import Attempt
from controller.allocation.search.candidate_cells import Alternative, CandidateCells, Need

Measure = tuple[str, Hashable]
Sizes = dict[Measure, frozenset[int]]
DemandSizes = Sequence[tuple[frozenset[int], int]]
"""The sizes that a request may consume, and the number of devices of such sizes."""

_MOST_SUMS: Final = 500
"""The most sums computed for one bin. Beyond that, all that is left in the bin counts."""


class AmountBounds:
    """Compares the sizes of candidates with their bins."""

    def __init__(self, cells: CandidateCells, attempt: Attempt):
        self._candidates = cells
        self._attempt = attempt
        self._drawn = [_drawn(devices) for devices in cells.members]
        """Per cell, the draws of its devices: only the measures that all of them draw on."""
        self._bins: dict[tuple[Measure, frozenset[int]], Sequence[Sequence[tuple[Pool, int]]]] = {}

    def suffice(self, needs: Iterable[Need]) -> bool:
        """True if the needs together may fit into the amounts left."""
        merged: dict[Hashable, tuple[Need, int]] = {}
        for need in needs:
            merged[need.form] = need, merged.get(need.form, (need, 0))[1] + need.least
        asked: dict[Measure, list[tuple[frozenset[int], int]]] = {}
        cells: dict[Measure, set[int]] = {}
        for need, count in merged.values():
            for measure, sizes in self._sizes(need.alternatives).items():
                asked.setdefault(measure, []).append((sizes, count))
                cells.setdefault(measure, set()).update(
                    cell for alternative in need.alternatives for cell in alternative.cells
                )
        return all(self._enough(measure, frozenset(cells[measure]), asked[measure]) for measure in asked)

    def _sizes(self, alternatives: Iterable[Alternative]) -> Sizes:
        """The consumption of a need, by the measures that all its alternatives consume."""
        found: Sizes | None = None
        for alternative in alternatives:
            for cell in alternative.cells:
                consumes = alternative.offer[cell]
                sizes = self._drawn[cell] if consumes is None else _shared(consumes)
                if found is None:
                    found = sizes
                else:
                    found = {measure: size | sizes[measure] for measure, size in found.items() if measure in sizes}
                if not found:
                    return {}
        return found or {}

    def _enough(self, measure: Measure, cells: frozenset[int], asked: DemandSizes) -> bool:
        # The least that all requests consume, minus the most that each bin can provide in sizes that are asked for.
        missing = sum(min(sizes) * count for sizes, count in asked)
        left = self._capacity_left(measure, cells) if measure[0] == "capacity" else self._counters_left(measure, cells)
        for amount, number in Counter(left).items():
            missing -= fillable(amount, asked) * number
            if missing <= 0:
                return True
        return missing <= 0

    def _capacity_left(self, measure: Measure, cells: Iterable[int]) -> Iterable[int]:
        devices = (device for cell in cells for device in self._candidates.members[cell])
        return [self._attempt.remaining(device, str(measure[1])) for device in devices]

    def _counters_left(self, measure: Measure, cells: frozenset[int]) -> Iterable[int]:
        bins = self._bins.get((measure, cells))
        if bins is None:
            devices = [device for cell in cells for device in self._candidates.members[cell]]
            bins = self._bins[measure, cells] = _bins(measure, devices)
        return [sum(max(0, self._attempt.free(pool)[index]) for pool, index in counters) for counters in bins]


def _measures(pool: Pool, index: int) -> tuple[Measure, Measure]:
    return ("counter", pool.counters[index].counter), ("total", pool.total[index])


def _shared(consumes: Quantities) -> Sizes:
    """The consumption of a share. Counters are left out: all shares of a device draw on them only once."""
    return {("capacity", name): frozenset([amount.nanos]) for name, amount in consumes.items()}


def _drawn(devices: Sequence[PoolDevice]) -> Sizes:
    found: Sizes | None = None
    for device in devices:
        amounts: Counter[Measure] = Counter()
        for index, amount in device.draws:
            for measure in _measures(device.pool, index):
                amounts[measure] += amount
        if found is None:
            found = {measure: frozenset([amount]) for measure, amount in amounts.items()}
        found = {measure: sizes | {amounts[measure]} for measure, sizes in found.items() if measure in amounts}
    return found or {}


def _bins(measure: Measure, devices: Sequence[PoolDevice]) -> Sequence[Sequence[tuple[Pool, int]]]:
    """The counters of the measure by counter set, or in one bin if a device draws on several sets."""
    found: dict[Hashable, dict[tuple[Pool, int], None]] = {}
    several = any(len({device.pool.counters[index].counter_set for index, _ in device.draws}) > 1 for device in devices)
    for device in devices:
        for index, _ in device.draws:
            if measure in _measures(device.pool, index):
                key = None if several else (device.pool, device.pool.counters[index].counter_set)
                found.setdefault(key, {})[device.pool, index] = None
    return [list(counters) for counters in found.values()]


def fillable(left: int, asked: DemandSizes) -> int:
    """The largest sum of requested sizes that is at most ``left``; ``left`` if there are too many sums to compute."""
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
