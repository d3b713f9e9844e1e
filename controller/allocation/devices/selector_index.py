"""The devices that selectors select: evaluated once for all pools with equal values of the fields that they read.

In such a group of pools, a selector is evaluated once for devices with equal values.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation.devices.columns import Column, Columns
from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.selectors import DEVICE_STEPS, MOST_CHARACTERS, UNLIMITED, Filter, Meter, Paths
from driver.bounded import BoundedCache, SizedCache
from driver.cel import BudgetExceeded, CostBudget, DevicePath, DeviceView, Selector, SelectorFault, view

SelectorOutcome = bool | SelectorFault
"""True if a selector matches, or the error that it fails with."""
Evaluated = tuple[SelectorOutcome, int]
"""An outcome and the steps that it took (`driver.cel.cost.steps`)."""

_MOST_OUTCOMES: Final = 1 << 18
_MOST_OF_DEVICES: Final = 1 << 14
_MOST_VIEWS: Final = 1024


class Evaluation:
    """Evaluates selectors and remembers the outcomes."""

    def __init__(self) -> None:
        self._outcomes: BoundedCache[tuple[str, Hashable], Evaluated] = BoundedCache(_MOST_OUTCOMES)
        self._of_devices: BoundedCache[tuple[str, PoolDevice], Evaluated] = BoundedCache(_MOST_OF_DEVICES)
        """Outcomes of selectors that may read anything."""
        self._views: BoundedCache[PoolDevice, DeviceView] = BoundedCache(_MOST_VIEWS)
        """Devices as selectors see them. Their pools stand for many equal ones."""

    def forget(self) -> None:
        """Forget what belongs to single devices, because a pool is gone."""
        self._views.clear()
        self._of_devices.clear()

    def outcome(
        self, selector: Selector, device: PoolDevice, projection: Hashable, meter: Meter = UNLIMITED
    ) -> Evaluated:
        """The outcome on the device, and its steps.

        Args:
            projection: the values that the selector reads; None if it may read any.
            meter: its turn pays if the outcome is not remembered.

        Raises:
            TurnEnded: it cannot pay.
        """
        if projection is None:
            found = self._of_devices.get((selector.expression, device))
        else:
            found = self._outcomes.get((selector.expression, projection))
        if found is None:
            meter.turn.go_on()
            found = self._evaluate(selector, device)
            meter.turn.work(found[1])
            if projection is None:
                self._of_devices[selector.expression, device] = found
            else:
                self._outcomes[selector.expression, projection] = found
        return found

    def _evaluate(self, selector: Selector, device: PoolDevice) -> Evaluated:
        budget = CostBudget.of_steps(DEVICE_STEPS)
        try:
            outcome: SelectorOutcome = selector.evaluate(self._view(device), budget)
        except SelectorFault as fault:
            outcome = fault
        return outcome, selector.plain_steps + budget.steps

    def _view(self, device: PoolDevice) -> DeviceView:
        known = self._views.get(device)
        if known is None:
            known = self._views[device] = view(device.spec, device.id.driver)
        return known


_MOST_GROUPINGS: Final = 64
_MOST_FILTERS: Final = 1024
_GROUPS_PER_STEP: Final = 2
"""The number of groups with a known selection whose look-ups take one step."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The devices of a pool that match all selectors of a filter, and those on which one of them fails.

    Attributes:
        faults: the error on each device where one fails.
        at: the index in the filter of the selector that fails there.
        excluded: for each selector, the devices that it is the first to exclude.
        steps: for each selector, the steps of its evaluation (`driver.cel.cost.steps`).
    """

    match: int
    faulty: int = 0
    faults: Mapping[int, SelectorFault] = field(default_factory=dict)
    at: Mapping[int, int] = field(default_factory=dict)
    excluded: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class PoolGroup:
    """Pools with equal values of the fields that some selectors read. These select the same devices of each.

    Attributes:
        nodes: the nodes with a pool of the group, as bits of ``NodeAvailability``.
        several: the nodes with more than one such pool.
    """

    __slots__ = ("columns", "key", "nodes", "pools", "selections", "several", "valid_for")

    def __init__(self, key: Hashable, columns: Mapping[DevicePath, Column] | None):
        self.key = key
        self.columns = columns
        self.pools: dict[Pool, None] = {}
        self.selections: SizedCache[Filter, Selection] = SizedCache(
            _MOST_FILTERS, MOST_CHARACTERS, lambda wanted, _: wanted.characters
        )
        self.nodes = self.several = 0
        self.valid_for: Hashable = None
        """The numbering of nodes that ``nodes`` follows; None if they have to be counted again."""

    def count(self, numbering: Hashable) -> None:
        """Bring ``nodes`` and ``several`` up to date."""
        if self.valid_for == numbering:
            return
        self.nodes = self.several = 0
        for pool in self.pools:
            self._add(pool)
        self.valid_for = numbering

    def join(self, pool: Pool) -> None:
        """Add the pool."""
        self.pools[pool] = None
        self._add(pool)

    def leave(self, pool: Pool) -> None:
        """Remove the pool."""
        del self.pools[pool]
        bit = 0 if pool.slot is None else pool.slot.bit
        if self.several & bit:
            self.valid_for = None
        self.nodes &= ~bit

    def _add(self, pool: Pool) -> None:
        if pool.slot is not None:
            self.several |= self.nodes & pool.slot.bit
            self.nodes |= pool.slot.bit


class Grouping:
    """All usable pools, grouped by their values at some paths. ``version`` grows when a pool joins or leaves."""

    __slots__ = ("groups", "of_pool", "pending", "version")

    def __init__(self, pools: Mapping[Pool, None]):
        self.groups: dict[Hashable, PoolGroup] = {}
        self.of_pool: dict[Pool, PoolGroup] = {}
        self.pending = dict(pools)
        """Pools that are not grouped yet, because nobody asked for them."""
        self.version = 0

    def add(self, pool: Pool, key: Hashable, columns: Mapping[DevicePath, Column] | None) -> PoolGroup:
        """Add the pool to the group with this key."""
        self.pending.pop(pool, None)
        self.version += 1
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PoolGroup(key, columns)
        group.join(pool)
        self.of_pool[pool] = group
        return group

    def drop(self, pool: Pool) -> None:
        """Remove the pool."""
        self.pending.pop(pool, None)
        group = self.of_pool.pop(pool, None)
        if group is not None:
            group.leave(pool)
            self.version += 1
            if not group.pools:
                del self.groups[group.key]


class SelectorIndex:
    """The devices of usable pools that filters select, remembered until a pool changes."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._evaluation = Evaluation()
        self._pools: dict[Pool, None] = {}
        self._groupings: BoundedCache[Paths, Grouping] = BoundedCache(_MOST_GROUPINGS)

    # Events

    def add(self, pool: Pool) -> None:
        """Add a usable pool."""
        self._pools[pool] = None
        for grouping in self._groupings.values():
            grouping.pending[pool] = None

    def drop(self, pool: Pool) -> None:
        """Remove a pool."""
        self._pools.pop(pool, None)
        self._evaluation.forget()
        for grouping in self._groupings.values():
            grouping.drop(pool)

    # Questions

    def selection(self, pool: Pool, wanted: Filter) -> Selection:
        """The devices of a usable pool that the filter selects."""
        grouping = self._groupings.get(wanted.paths) or self._grouping(wanted.paths)
        group = grouping.of_pool.get(pool) or self._group(grouping, pool, wanted.paths)
        return group.selections.get(wanted) or self.of_group(group, wanted)

    def of_group(self, group: PoolGroup, wanted: Filter, meter: Meter = UNLIMITED) -> Selection:
        """The devices of each pool of the group that the filter selects.

        Args:
            meter: see ``take``.
        """
        known = group.selections.get(wanted)
        if known is None:
            known = group.selections[wanted] = self._select(group, wanted, meter)
        else:
            for selector, steps in zip(wanted.selectors, known.steps, strict=True):
                meter.count(selector.expression, steps)
        return known

    def grouping(self, paths: Paths, meter: Meter = UNLIMITED) -> Grouping:
        """All pools, grouped by their values at ``paths``."""
        grouping = self._grouping(paths)
        if grouping.pending:
            each = 1 + len(paths or ())
            for pool in tuple(grouping.pending):
                meter.turn.go_on()
                self._group(grouping, pool, paths)
                meter.turn.work(each)
        return grouping

    def take(self, wanted: Filter, meter: Meter) -> None:
        """Evaluate the filter on all pools, so that later questions are quick.

        Raises:
            OutOfSteps: the filter takes more steps than the meter allows, or a selector takes too many on one device.
            TurnEnded: the meter's turn is over. Results so far are remembered.
        """
        each = 1 + len(wanted.paths or ())
        meter.count("", len(self._pools) * each)
        groups = self.grouping(wanted.paths, meter).groups
        for group in groups.values():
            self.of_group(group, wanted, meter)
        meter.turn.work(len(groups) // _GROUPS_PER_STEP)

    def nodes(self, wanted: Filter, count: int, numbering: Hashable) -> int:
        """The nodes that may have ``count`` own devices that match the filter, in use or not."""
        if count <= 0:
            return -1
        enough = some = several = 0
        for group in self.grouping(wanted.paths).groups.values():
            number = self.of_group(group, wanted).match.bit_count()
            if number:
                group.count(numbering)
                if number >= count:
                    enough |= group.nodes
                else:
                    # Pools of several groups, or several of one, may have enough together.
                    several |= group.several | (some & group.nodes)
                    some |= group.nodes
        return enough | several

    def anywhere(self, wanted: Filter) -> bool:
        """True if the filter selects any device of any usable pool."""
        return any(self.of_group(group, wanted).match for group in self.grouping(wanted.paths).groups.values())

    def selected(self, pool: Pool, wanted: Filter) -> Sequence[tuple[PoolDevice, SelectorFault | None]]:
        """The matching devices of a usable pool, in order, and those on which a selector fails, with the error."""
        found = self.selection(pool, wanted)
        return [(pool.devices[index], found.faults.get(index)) for index in bits(found.match | found.faulty)]

    # Upkeep

    def _grouping(self, paths: Paths) -> Grouping:
        grouping = self._groupings.get(paths)
        if grouping is None:
            grouping = self._groupings[paths] = Grouping(self._pools)
        return grouping

    def _group(self, grouping: Grouping, pool: Pool, paths: Paths) -> PoolGroup:
        if paths is None:
            # Alike to no other pool: the selectors may read anything.
            return grouping.add(pool, pool, None)
        columns = [self._columns.at(pool, path) for path in paths]
        return grouping.add(pool, (len(pool.devices), *columns), dict(zip(paths, columns, strict=True)))

    def _select(self, group: PoolGroup, wanted: Filter, meter: Meter) -> Selection:
        pool = next(iter(group.pools))
        faults, at = dict[int, SelectorFault](), dict[int, int]()
        match = pool.layout.every
        every_excluded, every_steps = list[int](), list[int]()
        for position, selector in enumerate(wanted.selectors):
            projections = _projections(group, selector, len(pool.devices))
            # Most devices of a pool are alike, so the outcomes of this pool are at hand before those of all pools.
            known: dict[Hashable, SelectorOutcome] = {}
            excluded = steps = 0
            for index in bits(match):
                projection = projections[index] if projections else None
                outcome = known.get(projection) if projections else None
                if outcome is None:
                    outcome, taken = self._evaluation.outcome(selector, pool.devices[index], projection, meter)
                    known[projection] = outcome
                    steps += taken
                    meter.count(selector.expression, taken)
                    if type(outcome) is BudgetExceeded:
                        meter.gave_up(selector.expression)
                if outcome is False:
                    excluded |= 1 << index
                elif outcome is not True:
                    faults[index], at[index] = outcome, position
                    match &= ~(1 << index)
            match &= ~excluded
            every_excluded.append(excluded)
            every_steps.append(steps)
        faulty = sum(1 << index for index in faults)
        return Selection(match, faulty, faults=faults, at=at, excluded=tuple(every_excluded), steps=tuple(every_steps))


def _projections(group: PoolGroup, selector: Selector, devices: int) -> Sequence[Hashable] | None:
    """The values that the selector reads of each device of a pool of the group; None if it may read any."""
    if group.columns is None or selector.paths is None:
        return None
    columns = [group.columns[path].values for path in selector.paths]
    return list(zip(*columns, strict=True)) if columns else [()] * devices
