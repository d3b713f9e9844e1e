"""Selectors over the fleet: compiled once, evaluated once for all that is alike in what the expression reads."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation.stock.columns import Column, Columns
from controller.allocation.stock.layout import bits
from controller.allocation.stock.pools import Pool, Unit
from controller.selectors import (
    Budget,
    Device,
    InvalidAttribute,
    Path,
    Selector,
    SelectorError,
    SelectorFault,
    compile_selector,
    view,
)
from driver.model import Version

Filter = tuple[tuple[str, ...], tuple[str, ...]]
"""Selectors of the device class, then of the request: all must hold, evaluated in this order."""
Outcome = bool | SelectorFault
Selected = Sequence[tuple[Unit, SelectorFault | None]]
Paths = tuple[Path, ...] | None
"""What the selectors of a filter read; None where it may be anything."""

_VALID: Final = frozenset({str, int, bool})
"""Types of attribute values which cannot be wrong."""
_MOST_SELECTORS: Final = 2048
_ALLOWANCE: Final = 10_000_000
"""What a selector may cost on all devices together (``Budget.effort``), over ``_PER_EVALUATION`` on each: some ten
seconds. One evaluation may cost a million by Kubernetes' rules, and a fleet has many devices."""
_PER_EVALUATION: Final = 200
"""More than what a selector costs that walks all attributes of a device once."""
_MOST_OUTCOMES: Final = 1 << 18
_MOST_PARTITIONS: Final = 64
_MOST_FILTERS: Final = 1024
_MOST_VIEWS: Final = 1024


@dataclass(frozen=True, slots=True)
class Selection:
    """Devices of a pool that all selectors of a filter select, and those on which one of them fails, as bits."""

    match: int
    faulty: int = 0
    faults: Mapping[int, SelectorFault] = field(default_factory=dict)


class Bucket:
    """Pools alike in what some selectors read: what these select of one, they select of all.

    ``nodes`` are the nodes with a pool of it, as bits of the fleet's ``Supply``; ``several`` those with more than one.
    """

    __slots__ = ("columns", "current", "key", "nodes", "pools", "selections", "several")

    def __init__(self, key: Hashable, columns: Mapping[Path, Column] | None):
        self.key = key
        self.columns = columns
        self.pools: dict[Pool, None] = {}
        self.selections: dict[Filter, Selection] = {}
        self.nodes = self.several = 0
        self.current: Hashable = None
        """The numbering of nodes that ``nodes`` follows; None where it has to be counted anew."""

    def count(self, numbering: Hashable) -> None:
        """Bring ``nodes`` and ``several`` up to date."""
        if self.current == numbering:
            return
        self.nodes = self.several = 0
        for pool in self.pools:
            self._add(pool)
        self.current = numbering

    def join(self, pool: Pool) -> None:
        """The pool is one of them."""
        self.pools[pool] = None
        self._add(pool)

    def leave(self, pool: Pool) -> None:
        """The pool is none of them any more."""
        del self.pools[pool]
        bit = 0 if pool.seat is None else pool.seat.bit
        if self.several & bit:
            self.current = None
        self.nodes &= ~bit

    def _add(self, pool: Pool) -> None:
        if pool.seat is not None:
            self.several |= self.nodes & pool.seat.bit
            self.nodes |= pool.seat.bit


class Partition:
    """All usable pools, in buckets of those alike in some paths. ``version`` grows when one comes or goes."""

    __slots__ = ("buckets", "pending", "version")

    def __init__(self, pools: Mapping[Pool, None]):
        self.buckets: dict[Hashable, Bucket] = {}
        self.pending = dict(pools)
        self.version = 0


class Matching:
    """What selectors select, remembered."""

    def __init__(self) -> None:
        self.columns = Columns()
        self._compiled: dict[str, Selector | SelectorError] = {}
        self._outcomes: dict[str, dict[Hashable, Outcome]] = {}
        self._views: dict[Unit, Device] = {}
        """Devices as selectors see them, of pools that stand for many."""
        self._allowances: dict[str, int] = {}
        """What selectors that are metered may still cost, if less than ``_ALLOWANCE``."""
        self._known = 0
        self._versions: set[str] = set()
        """Attribute values known to be valid versions."""
        self._pools: dict[Pool, None] = {}
        self._partitions: OrderedDict[Paths, Partition] = OrderedDict()

    def compile(self, expression: str) -> Selector:
        """The compiled selector.

        Raises:
            SelectorError: it cannot be compiled.
        """
        found = self._compiled.get(expression)
        if found is None:
            if len(self._compiled) >= _MOST_SELECTORS:
                self._compiled.clear()
                self._outcomes.clear()
                self._allowances.clear()
            try:
                found = compile_selector(expression)
            except SelectorError as error:
                found = error
            self._compiled[expression] = found
        if isinstance(found, SelectorError):
            raise found
        return found

    def paths(self, wanted: Filter) -> Paths:
        """What the selectors of a filter read.

        Raises:
            SelectorError: one cannot be compiled.
        """
        found: dict[Path, None] = {}
        for group in wanted:
            for expression in group:
                paths = self.compile(expression).paths
                if paths is None:
                    return None
                found.update(dict.fromkeys(paths))
        return tuple(sorted(found))

    # Pools

    def add(self, pool: Pool) -> None:
        """A usable pool of the fleet."""
        self._pools[pool] = None
        for partition in self._partitions.values():
            partition.pending[pool] = None

    def drop(self, pool: Pool) -> None:
        """The pool is not used any more."""
        self._pools.pop(pool, None)
        self._views.clear()
        for partition in self._partitions.values():
            partition.pending.pop(pool, None)
        for paths, bucket in pool.buckets.items():
            bucket.leave(pool)
            partition = self._partitions[paths]
            partition.version += 1
            if not bucket.pools:
                del partition.buckets[bucket.key]
        pool.buckets.clear()

    def partition(self, paths: Paths) -> Partition:
        """All pools in buckets of those alike in ``paths``."""
        partition = self._partition(paths)
        if partition.pending:
            for pool in tuple(partition.pending):
                self._classify(partition, pool, paths)
        return partition

    def _partition(self, paths: Paths) -> Partition:
        partition = self._partitions.get(paths)
        if partition is None:
            if len(self._partitions) >= _MOST_PARTITIONS:
                old, dropped = self._partitions.popitem(last=False)
                for bucket in dropped.buckets.values():
                    for pool in bucket.pools:
                        del pool.buckets[old]
            partition = self._partitions[paths] = Partition(self._pools)
        else:
            self._partitions.move_to_end(paths)
        return partition

    def _classify(self, partition: Partition, pool: Pool, paths: Paths) -> Bucket:
        partition.pending.pop(pool, None)
        partition.version += 1
        if paths is None or self._invalid(pool):
            bucket = partition.buckets[pool] = Bucket(pool, None)
        else:
            columns = [self.columns.at(pool, path) for path in paths]
            key = (len(pool.units), *columns)
            found = partition.buckets.get(key)
            if found is None:
                found = partition.buckets[key] = Bucket(key, dict(zip(paths, columns, strict=True)))
            bucket = found
        bucket.join(pool)
        pool.buckets[paths] = bucket
        return bucket

    def _bucket(self, pool: Pool, paths: Paths) -> Bucket:
        return pool.buckets.get(paths) or self._classify(self._partition(paths), pool, paths)

    def nodes(self, paths: Paths, wanted: Filter, count: int, numbering: Hashable) -> int:
        """The nodes that may have ``count`` devices of their own that the filter selects, in use or not."""
        if count <= 0:
            return -1
        enough = some = several = 0
        for bucket in self.partition(paths).buckets.values():
            number = self.of_bucket(bucket, wanted).match.bit_count()
            if number:
                bucket.count(numbering)
                if number >= count:
                    enough |= bucket.nodes
                else:
                    several |= bucket.several | (some & bucket.nodes)
                    some |= bucket.nodes
        return enough | several

    # Selections

    def selection(self, pool: Pool, paths: Paths, wanted: Filter) -> Selection:
        """What the filter, which reads ``paths``, selects of a usable pool."""
        bucket = pool.buckets.get(paths) or self._bucket(pool, paths)
        return bucket.selections.get(wanted) or self.of_bucket(bucket, wanted)

    def of_bucket(self, bucket: Bucket, wanted: Filter) -> Selection:
        """What the filter selects of each pool of the bucket."""
        known = bucket.selections.get(wanted)
        if known is None:
            if len(bucket.selections) >= _MOST_FILTERS:
                bucket.selections.clear()
            known = bucket.selections[wanted] = self._select(bucket, wanted)
        return known

    def selected(self, pool: Pool, wanted: Filter) -> Selected:
        """The units of a usable pool that all selectors select, in order, and those on which one fails, with its fault.

        Raises:
            SelectorError: a selector cannot be compiled.
        """
        found = self.selection(pool, self.paths(wanted), wanted)
        return [(pool.units[index], found.faults.get(index)) for index in bits(found.match | found.faulty)]

    def _select(self, bucket: Bucket, wanted: Filter) -> Selection:
        pool = next(iter(bucket.pools))
        match, faults = pool.layout.every, dict[int, SelectorFault]()
        expressions = [expression for group in wanted for expression in group]
        if expressions and bucket.columns is None:
            faults.update(self._invalid(pool))
        for index in faults:
            match &= ~(1 << index)
        for expression in expressions:
            selector = self.compile(expression)
            projections: list[Hashable] | None = None
            if bucket.columns is not None and selector.paths is not None:
                columns = [bucket.columns[path].values for path in selector.paths]
                projections = list(zip(*columns, strict=True)) if columns else [()] * len(pool.units)
            told: dict[Hashable, Outcome] = {}
            for index in bits(match):
                projection = projections[index] if projections else None
                outcome = told.get(projection) if projections else None
                if outcome is None:
                    outcome = told[projection] = self._outcome(selector, pool.units[index], projection)
                if outcome is not True:
                    match &= ~(1 << index)
                    if outcome is not False:
                        faults[index] = outcome
        return Selection(match, sum(1 << index for index in faults), faults)

    def _outcome(self, selector: Selector, unit: Unit, projection: Hashable) -> Outcome:
        if projection is None:
            return self._evaluate(selector, unit)
        known = self._outcomes.setdefault(selector.expression, {})
        outcome = known.get(projection)
        if outcome is None:
            self._known += 1
            if self._known > _MOST_OUTCOMES:
                self._known = 0
                self._outcomes = {selector.expression: (known := {})}
            outcome = known[projection] = self._evaluate(selector, unit)
        return outcome

    def _invalid(self, pool: Pool) -> Mapping[int, SelectorFault]:
        if pool.invalid is None:
            every = [value for unit in pool.units for value in unit.device.attributes.values()]
            doubtful = [value for value in every if type(value) not in _VALID]
            if all(isinstance(value, Version) and value.text in self._versions for value in doubtful):
                pool.invalid = {}
                return pool.invalid
            pool.invalid = {unit.index: fault for unit in pool.units if (fault := self._fault(unit)) is not None}
        return pool.invalid

    def _fault(self, unit: Unit) -> SelectorFault | None:
        """Versions and lists may be invalid, and then every selector fails on the device."""
        for value in [value for value in unit.device.attributes.values() if type(value) not in _VALID]:
            if isinstance(value, Version) and value.text in self._versions:
                continue
            try:
                view(unit.device, unit.id.driver)
            except InvalidAttribute as fault:
                return fault
            if isinstance(value, Version):
                if len(self._versions) >= _MOST_SELECTORS:
                    self._versions.clear()
                self._versions.add(value.text)
        return None

    def _view(self, unit: Unit) -> Device:
        found = self._views.get(unit)
        if found is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            found = self._views[unit] = view(unit.device, unit.id.driver)
        return found

    def _evaluate(self, selector: Selector, unit: Unit) -> Outcome:
        budget = Budget() if selector.metered else None
        if budget is not None:
            left = self._allowances.get(selector.expression, _ALLOWANCE)
            if left <= 0:
                self._allowances[selector.expression] = left + _PER_EVALUATION
                return SelectorFault("costs too much on too many devices; simplify the expression")
        try:
            return selector.evaluate(self._view(unit), budget)
        except SelectorFault as fault:
            return fault
        finally:
            if budget is not None:
                self._allowances[selector.expression] = min(_ALLOWANCE, left + _PER_EVALUATION - budget.effort)
