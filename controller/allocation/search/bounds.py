"""Prunes by counting: too few devices, values, counters or capacity for all requests that are left.

Each test is necessary for a solution and none is sufficient. A search that stops where a test fails loses no solution.

- Per request: as many devices as it wants.
- Per matchAttribute: a value with enough devices for all requests of the constraint together. From then on, only
  devices with such a value count. Of several constraints of the same form, the devices of all values limit how many
  are satisfied at once.
- All requests at once: a flow from requests, over the values of distinctAttribute, to devices.
- Per counter and capacity: the least consumption of the requests, compared with the amount left (``AmountBounds``).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.requests import RESULTS_LIMIT, RequestChoice
from controller.allocation.rules import Quantities, Values
from controller.allocation.search.attempt import Attempt, Option, Task
from controller.allocation.search.flow import SINK, SOURCE, FlowNetwork
from controller.allocation.search.symmetry import CandidateCells, CellOffer, Cells, Symmetry

_Limit = tuple[int, int]
"""A constraint: the number of the claim, and its number in the claim."""
Restriction = tuple[str, bool, Values | None]
"""An attribute, whether it must be distinct, and the values that it must (distinct: must not) have; None for any."""
_MOST_ROUNDS: Final = 4
Measure = tuple[str, Hashable]
"""One capacity, one counter by its name, or all counters of the same total: the memory slices of a card, whichever of
them a partition uses."""
Sizes = dict[Measure, frozenset[int]]
"""The amounts that a pick may consume, by measure."""
DemandSizes = Sequence[tuple[frozenset[int], int]]
"""The sizes that a request may consume, and the number of devices of such sizes."""

_MOST_SUMS: Final = 500
"""The most sums computed for one bin. Beyond that, all that is left in the bin counts."""


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """The progress of a request: its option, the position of the next candidate, and the number of devices left."""

    number: int
    start: int
    left: int


class Bounds:
    """Finds tasks that cannot be satisfied any more after the picks of an attempt."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt, symmetry: Symmetry):
        self._tasks = tasks
        self._attempt = attempt
        self._candidates = CandidateCells(tasks, attempt, symmetry)
        self._amounts = AmountBounds(self._candidates, attempt)

    def possible(self, index: int, end: int, progress: RequestProgress) -> frozenset[int] | None:
        """The cells from which the task at ``index`` may pick its next device; None if nothing can succeed.

        Only the tasks before ``end`` are considered.
        """
        check = _Check(
            self._candidates, self._attempt, self._tasks[index:end], self._candidates.of_option[index:end], progress
        )
        needs = check.needs()
        if (
            needs is None
            or not check.enough_at_once(needs)
            or not self._amounts.suffice(n for n in needs if n.consuming)
        ):
            return None
        return frozenset(needs[0].alternatives[0].cells)

    def cell(self, device: PoolDevice) -> int:
        """The cell of a candidate of one of the tasks."""
        return self._candidates.cell[device]


@dataclass(frozen=True, slots=True)
class _Alternative:
    """One choice of a request that is not satisfied yet."""

    choice: RequestChoice
    wanted: int
    cells: Cells
    offer: CellOffer

    @property
    def possible(self) -> bool:
        """True if as many devices are available as it wants."""
        return sum(self.cells.values()) >= self.wanted


class _Need:
    """A request and the alternatives that can still satisfy it.

    Attributes:
        least: the least number of devices over all alternatives.
        consuming: whether it uses its devices; admin access does not.
        limits: the constraints of every alternative.
        form: a key that is equal for needs of the same number of the same devices, as long as both exist.
    """

    __slots__ = ("alternatives", "claim", "consuming", "form", "least", "limits")

    def __init__(self, claim: int, alternatives: Sequence[_Alternative]):
        self.claim = claim
        self.alternatives = alternatives
        self.least = min([alternative.wanted for alternative in alternatives])
        self.consuming = not any(alternative.choice.want.admin_access for alternative in alternatives)
        common = alternatives[0].choice.constraints
        for alternative in alternatives[1:]:
            common = tuple([number for number in common if number in alternative.choice.constraints])
        self.limits: Sequence[_Limit] = [(claim, number) for number in common]
        self.form = tuple([(id(alternative.cells), alternative.wanted) for alternative in alternatives])


class _Check:
    """One check of the tasks left. The first one may be satisfied in part."""

    def __init__(
        self,
        candidates: CandidateCells,
        attempt: Attempt,
        tasks: Sequence[Task],
        offers: Sequence[Sequence[CellOffer]],
        progress: RequestProgress,
    ):
        self._candidates = candidates
        self._attempt = attempt
        self._tasks = tasks
        self._offers = offers
        self._progress = progress
        self._counts: dict[tuple[int, int], int] = {}
        self._cells: dict[Hashable, Cells] = {}
        self._allowed: dict[_Limit, Values] = {}
        self._viable: dict[Hashable, Values] = {}
        self._capacities: dict[tuple[int, ...], int] = {}

    def needs(self) -> Sequence[_Need] | None:
        """The needs of all tasks, with their available devices; None if one cannot be met."""
        # Fewer allowed values mean fewer devices, which may rule out more values; a few rounds find nearly all of it.
        for _ in range(_MOST_ROUNDS):
            needs = self._gather()
            if needs is None:
                return None
            before = dict(self._allowed)
            if not self._narrow(needs):
                return None
            if before == self._allowed:
                break
        return needs

    def _gather(self) -> list[_Need] | None:
        totals = Counter(dict(enumerate(self._attempt.counts)))
        found: list[_Need] = []
        # Every alternative that is possible alone stays, with its least number: the bound must hold for each of them.
        for number, task in enumerate(self._tasks):
            claim = task.demand.claim
            if number:
                pairs = zip(task.options, self._offers[number], strict=True)
                alternatives = [
                    _Alternative(option.choice, option.wanted, self._available(claim, option, offer), offer)
                    for option, offer in pairs
                ]
            else:
                alternatives = [self._current(claim)]
            alternatives = [alternative for alternative in alternatives if alternative.possible]
            if not alternatives:
                return None
            need = _Need(claim, alternatives)
            totals[claim] += need.least
            if totals[claim] > RESULTS_LIMIT:
                return None
            found.append(need)
        return found

    def _current(self, claim: int) -> _Alternative:
        """The chosen option of the first task."""
        option, start = self._tasks[0].options[self._progress.number], self._progress.start
        restrictions = self._restrictions(claim, option.choice)
        key = "current", restrictions
        if key not in self._cells:
            counts: Counter[int] = Counter()
            # Earlier candidates were picked or have failed, and the order within a request does not matter.
            for candidate in option.candidates[start:]:
                cell = self._candidates.cell[candidate.device]
                if self._admitted(cell, restrictions) and (
                    option.choice.want.admin_access or self._attempt.shares(candidate.device, candidate.consumes)
                ):
                    counts[cell] += 1
            self._cells[key] = counts
        return _Alternative(
            option.choice, self._progress.left, self._cells[key], self._offers[0][self._progress.number]
        )

    def _available(self, claim: int, option: Option, offer: CellOffer) -> Cells:
        """The available devices of each cell for the option alone. Equal answers are the same object."""
        restrictions, admin = self._restrictions(claim, option.choice), option.choice.want.admin_access
        # Identity stands for equality here and in ``_Need.form``. That is safe while the objects live, which this check
        # and the cells keep.
        key = id(offer), restrictions, admin
        if key not in self._cells:
            admitted = {cell: consumes for cell, consumes in offer.items() if self._admitted(cell, restrictions)}
            counts = {cell: self._count(cell, consumes, admin=admin) for cell, consumes in admitted.items()}
            self._cells[key] = {cell: count for cell, count in counts.items() if count}
        return self._cells[key]

    def _count(self, cell: int, consumes: Quantities | None, *, admin: bool) -> int:
        members = self._candidates.members[cell]
        if admin:
            return len(members)
        key = cell, id(consumes)
        if key not in self._counts:
            # One request takes a device once, however many shares are left of it. ``_capacity_of`` counts them for
            # several.
            self._counts[key] = sum(1 for device in members if self._attempt.shares(device, consumes))
        return self._counts[key]

    def _restrictions(self, claim: int, choice: RequestChoice) -> Sequence[Restriction]:
        trackers = self._attempt.trackers[claim]
        return tuple(
            (trackers[number].attribute, trackers[number].distinct, self._state((claim, number)))
            for number in choice.constraints
        )

    def _state(self, limit: _Limit) -> Values | None:
        found = self._allowed.get(limit)
        return self._attempt.trackers[limit[0]][limit[1]].state if found is None else found

    def _admitted(self, cell: int, restrictions: Iterable[Restriction]) -> bool:
        for attribute, distinct, values in restrictions:
            mine = self._candidates.values[cell, attribute]
            if not mine or (values is not None and values.isdisjoint(mine) != distinct):
                return False
        return True

    # matchAttribute: values that can satisfy all requests of a constraint

    def _matches(self, needs: Iterable[_Need]) -> dict[_Limit, list[_Need]]:
        found: dict[_Limit, list[_Need]] = {}
        for need in needs:
            for limit in need.limits:
                if not self._distinct(limit):
                    found.setdefault(limit, []).append(need)
        return found

    def _distinct(self, limit: _Limit) -> bool:
        return self._attempt.trackers[limit[0]][limit[1]].distinct

    def _attribute(self, limit: _Limit) -> str:
        return self._attempt.trackers[limit[0]][limit[1]].attribute

    def _narrow(self, needs: Iterable[_Need]) -> bool:
        """Keep only values that can satisfy all needs of a constraint; False if no value can."""
        for limit, bound in self._matches(needs).items():
            key = self._form(limit, bound), self._state(limit)
            # Many constraints of one form, such as those of pairs of a card and a NIC, would ask the same again.
            viable = self._viable.get(key)
            if viable is None:
                attribute, values = self._attribute(limit), self._state(limit)
                if values is None:
                    values = self._values(bound[0], attribute)
                served = (value for value in values if self._satisfies(bound, attribute, value))
                viable = self._viable[key] = frozenset(served)
            if not viable:
                return False
            self._allowed[limit] = viable
        return True

    def _form(self, limit: _Limit, bound: Iterable[_Need]) -> Hashable:
        """A key that is equal for constraints on the same devices in the same way."""
        others = [other for need in bound for other in need.limits if self._distinct(other)]
        return self._attribute(limit), tuple(sorted(need.form for need in bound)), tuple(others)

    def _values(self, need: _Need, attribute: str) -> Values:
        cells = {cell for alternative in need.alternatives for cell in alternative.cells}
        return Values().union(*(self._candidates.values[cell, attribute] for cell in cells))

    def _satisfies(self, needs: Iterable[_Need], attribute: str, value: object, times: int = 1) -> bool:
        """True if the devices of one value are sufficient for the needs, ``times`` times."""
        within: list[_Need] = []
        for need in needs:
            restricted = (self._with_value(alternative, attribute, value) for alternative in need.alternatives)
            alternatives = [alternative for alternative in restricted if alternative.possible]
            if not alternatives:
                return False
            within.append(_Need(need.claim, alternatives))
        # Enough for each is not enough for all: two requests may count the same devices.
        return self._flows([need for need in within if need.consuming], times)

    def _with_value(self, alternative: _Alternative, attribute: str, value: object) -> _Alternative:
        members = self._candidates.having[attribute].get(value, ())
        cells = {cell: count for cell in members if (count := alternative.cells.get(cell))}
        return _Alternative(alternative.choice, alternative.wanted, cells, alternative.offer)

    # All at once

    def enough_at_once(self, needs: Sequence[_Need]) -> bool:
        """True if there are devices for all needs, and values for all constraints of the same form."""
        if not self._flows([need for need in needs if need.consuming]):
            return False
        forms: dict[Hashable, list[_Limit]] = {}
        matches = self._matches(needs)
        for limit, bound in matches.items():
            if all(need.consuming and len(need.limits) == 1 for need in bound):
                forms.setdefault(self._form(limit, bound), []).append(limit)
        return all(self._values_suffice(similar, matches[similar[0]]) for similar in forms.values() if len(similar) > 1)

    def _values_suffice(self, similar: Sequence[_Limit], bound: Sequence[_Need]) -> bool:
        """True if the values together satisfy all these constraints; each value satisfies some of them alone."""
        missing = len(similar)
        # A device with several values counts for each of them: too many at most, so what fails here cannot succeed.
        for value in self._state(similar[0]) or ():
            times = 1
            while times < missing and self._satisfies(bound, self._attribute(similar[0]), value, times + 1):
                times += 1
            missing -= times
            if not missing:
                return True
        return False

    def _flows(self, needs: Sequence[_Need], times: int = 1) -> bool:
        """True if there are devices for all needs at once, with different values where they must be distinct."""
        # Needs for the same devices are one node of the network, which keeps it small.
        merged: dict[tuple[Hashable, _Limit | None], tuple[_Need, int]] = {}
        for need in needs:
            # Of several distinctAttribute constraints, the network has one; the others would need another network.
            # Leaving them out lets more flow, never less.
            limit = next((limit for limit in need.limits if self._distinct(limit)), None)
            key = tuple(id(alternative.cells) for alternative in need.alternatives), limit
            merged[key] = need, merged.get(key, (need, 0))[1] + need.least * times
        counted = self._counted(merged)
        if counted is not None:
            return counted
        network = FlowNetwork()
        offered: dict[int, list[Quantities | None]] = {}
        for number, ((_, limit), (need, amount)) in enumerate(merged.items()):
            network.pipe(SOURCE, number, amount)
            for alternative in need.alternatives:
                for cell in alternative.cells:
                    offered.setdefault(cell, []).append(alternative.offer[cell])
                    self._connect(network, number, cell, limit, amount)
        for cell, consumes in offered.items():
            network.pipe(("cell", cell), SINK, self._capacity_of(cell, consumes))
        return network.carries(sum(amount for _, amount in merged.values()))

    def _counted(self, merged: Mapping[tuple[Hashable, _Limit | None], tuple[_Need, int]]) -> bool | None:
        """The answer if no two needs compete for a cell; None if they do, or if counting is not sufficient."""
        cells: set[int] = set()
        number = 0
        enough = True
        for (_, limit), (need, amount) in merged.items():
            if limit is not None or len(need.alternatives) > 1:
                return None
            mine = need.alternatives[0].cells
            number += len(mine)
            cells.update(mine)
            enough = enough and amount <= sum(mine.values())
        if number > len(cells):
            return None
        # A shareable device is counted once, but may satisfy several needs.
        return True if enough else None if self._candidates.shareable.intersection(cells) else False

    def _connect(self, network: FlowNetwork, need: Hashable, cell: int, limit: _Limit | None, amount: int) -> None:
        if limit is None:
            network.pipe(need, ("cell", cell), amount)
            return
        for value in self._candidates.values[cell, self._attribute(limit)]:
            # One device of each value: a pipe of capacity 1.
            network.pipe(need, ("value", limit, value), 1)
            network.pipe(("only", limit, value), ("cell", cell), 1)
            network.limit(("value", limit, value), ("only", limit, value), 1)

    def _capacity_of(self, cell: int, consumes: Sequence[Quantities | None]) -> int:
        """The number of times the devices of the cell could be picked by the need that consumes least."""
        if consumes[0] is None:
            return self._count(cell, None, admin=False)
        # Several needs may consume different amounts. The one that consumes least tells how often at most.
        different = {id(amounts): amounts for amounts in consumes}
        key = cell, *different
        if key not in self._capacities:
            members = self._candidates.members[cell]
            self._capacities[key] = sum(
                max(self._attempt.shares(device, amounts) for amounts in different.values()) for device in members
            )
        return self._capacities[key]


# Counters and capacities


class AmountBounds:
    """Compares the least consumption of requests, summed up, with the counters and capacities left.

    A bin is the range of one sum: a counter set of a pool (one card), or one shareable device. It counts with the most
    that the requested sizes can fill of it, not with all that is left in it: shares of 6 leave 4 of 10 unused.
    """

    def __init__(self, cells: CandidateCells, attempt: Attempt):
        self._candidates = cells
        self._attempt = attempt
        self._drawn = [_drawn(devices) for devices in cells.members]
        """Per cell, the draws of its devices: only the measures that all of them draw on."""
        self._bins: dict[tuple[Measure, frozenset[int]], Sequence[Sequence[tuple[Pool, int]]]] = {}

    def suffice(self, needs: Iterable[_Need]) -> bool:
        """True if the needs together may fit into the amounts left."""
        merged: dict[Hashable, tuple[_Need, int]] = {}
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

    def _sizes(self, alternatives: Iterable[_Alternative]) -> Sizes:
        """The consumption of a need, by the measures that all its alternatives consume."""
        found: Sizes | None = None
        for alternative in alternatives:
            for cell in alternative.cells:
                consumes = alternative.offer[cell]
                # Only what every candidate consumes is certain to be consumed. Slices of memory differ between the
                # partitions of a card, their total does not: for this there is the measure of all counters of equal
                # total.
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
        # Two programs that allocated may have overdrawn a counter. That takes nothing from the other counters of its
        # bin.
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
    # What a device draws on several sets is one sum here, and no set alone has to hold it: then all are one bin.
    several = any(len({device.pool.counters[index].counter_set for index, _ in device.draws}) > 1 for device in devices)
    for device in devices:
        for index, _ in device.draws:
            if measure in _measures(device.pool, index):
                key = None if several else (device.pool, device.pool.counters[index].counter_set)
                found.setdefault(key, {})[device.pool, index] = None
    return [list(counters) for counters in found.values()]


def fillable(left: int, asked: DemandSizes) -> int:
    """The largest sum of requested sizes that is at most ``left``; ``left`` if there are too many sums to compute."""
    # What can be filled is a question of subset sums: shares of 6 fill 6 of 10, shares of 6 and 4 all of it
    # (``test_what_fills_a_bin_best_is_the_largest_sum_that_fits``).
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
