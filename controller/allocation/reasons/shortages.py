"""Counts what excludes each device of a node from serving a request, and who is in the way."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from controller.allocation.fitting import hindrance, takes_of
from controller.allocation.reasons.reasons import MOST_HOLDERS, By, Cause, Shortage, exclusions
from controller.allocation.requests.demand import Choice
from controller.allocation.stock.layout import bits
from controller.allocation.stock.matching import Filter, Matching
from controller.allocation.stock.pools import Pool, Unit

Pools = Sequence[tuple[Pool, Sequence[Unit]]]
"""The pools that reach a node, with the devices that do."""

_LABELS: Final[tuple[tuple[By, str], ...]] = (("classSelector", "device class selector"), ("selector", "selector"))

_NUMBER: Final = re.compile(r"-\d+\Z", re.ASCII)
_FAMILIES: Final = 1024


def shortage(claim: str, choice: Choice, pools: Pools, matching: Matching, names: Mapping[str, str]) -> Shortage:
    """What becomes of the devices of a node for one way to satisfy a request.

    Every device is counted once, by what excludes it first: its pool, the selectors in order, capacity, taints, use by
    others.

    Args:
        claim: key of the claim.
        names: keys of the claims that hold devices, by UID.
    """
    count = _Count(choice, matching)
    for pool, units in pools:
        count.add(pool, units)
    want = choice.want
    exact = want.mode == "ExactCount"
    needed = want.count - count.available if exact else count.blocked
    return Shortage(
        claim=claim,
        request=choice.name,
        device_class=want.device_class,
        wanted=want.count if exact else "all",
        seen=count.seen,
        available=count.available,
        exclusions=exclusions(count.causes.items()),
        holders=tuple(sorted(names.get(uid, uid) for uid in count.holders)[:MOST_HOLDERS]),
        more_holders=max(0, len(count.holders) - MOST_HOLDERS),
        freeing=() if choice.constraints else _freeing(count.freed, needed, names),
    )


def _freeing(freed: Mapping[str, int], needed: int, names: Mapping[str, str]) -> tuple[str, ...]:
    """The fewest claims whose end would free ``needed`` devices, if a few would do."""
    if needed <= 0 or sum(freed.values()) < needed:
        return ()
    chosen: list[str] = []
    most = sorted((-count, names.get(uid, uid)) for uid, count in freed.items())
    for count, name in most[:MOST_HOLDERS]:
        chosen.append(name)
        needed += count
        if needed <= 0:
            return tuple(chosen)
    return ()


class _Count:
    def __init__(self, choice: Choice, matching: Matching):
        self._choice = choice
        self._matching = matching
        self._paths = matching.paths(choice.filter)
        self._steps = tuple(_steps(choice.filter))
        self.seen = self.available = self.blocked = 0
        """Devices; those that fit; those that would if nothing was in use."""
        self.causes: Counter[Cause] = Counter()
        self.holders: set[str] = set()
        self.freed: Counter[str] = Counter()
        """Devices that would fit if a claim ended, by its UID. Of a card that it blocks by counters, one is counted."""

    def add(self, pool: Pool, units: Sequence[Unit]) -> None:
        self.seen += len(units)
        if pool.problem:
            self.causes["pool", ""] += len(units)
            return
        whole = len(units) == len(pool.units)
        left = pool.layout.every if whole else sum(1 << unit.index for unit in units)
        left = self._capable(pool, self._selected(pool, left))
        left = self._tolerated(pool, left)
        if self._choice.want.admin_access:
            self.available += left.bit_count()
            return
        fitting = left & ~pool.busy & pool.available
        fitting = self._roomy(pool, fitting)
        self.available += fitting.bit_count()
        self.blocked += (left & ~fitting).bit_count()
        self._busy(pool, left & pool.busy)
        self._counters(pool, left & ~pool.busy & ~pool.available)

    def _selected(self, pool: Pool, left: int) -> int:
        for by, name, label, wanted in self._steps:
            found = self._matching.selection(pool, self._paths, wanted)
            faulty = left & found.faulty
            for index in bits(faulty):
                self.causes["selectorError", f"{label}: {found.faults[index]}"] += 1
            out = left & ~faulty & ~found.match
            if out:
                self.causes[by, name] += out.bit_count()
            left &= found.match
        return left

    def _capable(self, pool: Pool, left: int) -> int:
        asks = bool(self._choice.want.capacity or self._choice.preference.memory_percent)
        for index in bits(left if asks else left & pool.multiple):
            takes = takes_of(pool.units[index], self._choice)
            if isinstance(takes, str):
                self.causes["capacity", takes] += 1
                left &= ~(1 << index)
        return left

    def _tolerated(self, pool: Pool, left: int) -> int:
        tolerated = pool.tolerated(self._choice.want.tolerations)
        for index in bits(left & ~tolerated):
            self._note(pool.units[index])
        return left & tolerated

    def _roomy(self, pool: Pool, left: int) -> int:
        for index in bits(left & pool.shared):
            unit = pool.units[index]
            if self._note(unit):
                self._held(unit.use.holders)
                left &= ~(1 << index)
        return left

    def _note(self, unit: Unit) -> bool:
        """Count the unit if something hinders it; whether it does."""
        takes = takes_of(unit, self._choice)
        cause = hindrance(unit, self._choice.want, None if isinstance(takes, str) else takes)
        if cause is None:
            return False
        self.causes[cause] += 1
        return True

    def _busy(self, pool: Pool, busy: int) -> None:
        if busy:
            self.causes["inUse", ""] += busy.bit_count()
            for index in bits(busy):
                self._held(pool.units[index].use.holders)

    def _held(self, holders: Collection[str]) -> None:
        self.holders.update(holders)
        if len(holders) == 1:
            self.freed.update(holders)

    def _counters(self, pool: Pool, blocked: int) -> None:
        """Devices for which others leave too little of a counter, and which these are."""
        if not blocked:
            return
        by_counter: dict[int, set[str]] = {}
        for index in bits(pool.held):
            for counter, amount in pool.units[index].draws:
                if amount:
                    by_counter.setdefault(counter, set()).update(pool.units[index].use.holders)
        alone: set[tuple[str, str]] = set()
        for index in bits(blocked):
            lacking = [counter for counter, amount in pool.units[index].draws if pool.free[counter] < amount]
            name = pool.names[lacking[0]]
            self.causes["counter", _family(name.counter)] += 1
            holders = set[str]().union(*(by_counter.get(counter, ()) for counter in lacking))
            self.holders |= holders
            if len(holders) == 1:
                alone.update((uid, name.counter_set) for uid in holders)
        self.freed.update(uid for uid, _ in alone)


@lru_cache(maxsize=_FAMILIES)
def _family(counter: str) -> str:
    """The name of a counter, with its number left out if it is one of several: ``memory-slice-*``."""
    return _NUMBER.sub("-*", counter)


def _steps(wanted: Filter) -> Iterator[tuple[By, str, str, Filter]]:
    """The selectors one by one: what to say of devices it excludes or fails on, and all selectors up to it."""
    classes, own = wanted
    for place in range(len(classes)):
        yield "classSelector", "", _LABELS[0][1], (classes[: place + 1], ())
    for place in range(len(own)):
        yield "selector", str(place), f"{_LABELS[1][1]} {place}", (classes, own[: place + 1])


def together(losses: Mapping[str, int]) -> Iterable[tuple[Cause, int]]:
    """What a search lost devices to, as causes."""
    for text, count in losses.items():
        kind, _, attribute = text.partition(" ")
        match kind:
            case "matchAttribute" | "distinctAttribute":
                yield (kind, attribute), count
            case _:
                yield ("otherRequests", text), count
