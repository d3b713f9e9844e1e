"""Prunes by counting: too few devices, values, counters or capacity for all requests that are left.

Each test is necessary for a solution and none is sufficient. A search that stops where a test fails loses no solution.

- Per request: as many devices as it wants.
- Per matchAttribute: a value with enough devices for all requests of the constraint together. From then on, only
  devices with such a value count. Of several constraints of the same form, the devices of all values limit how many
  are satisfied at once.
- All requests at once: a flow from requests, over the values of distinctAttribute, to devices.
- Per counter and capacity: the least consumption of the requests, compared with the amount left (``amount_bounds``).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from controller.allocation.devices.pools import PoolDevice
from controller.allocation.requests.demands import RESULTS_LIMIT, RequestChoice
from controller.allocation.rules.capacity import Quantities
from controller.allocation.rules.constraints import Values
from controller.allocation.search.amount_bounds import AmountBounds
from controller.allocation.search.attempt import Attempt
from controller.allocation.search.candidate_cells import (
    Alternative,
    CandidateCells,
    CellOffer,
    Cells,
    Limit,
    Need,
    RequestProgress,
)
from controller.allocation.search.flow import SINK, SOURCE, FlowNetwork
from controller.allocation.search.symmetry import Symmetry
from controller.allocation.search.tasks import Option, Task

Restriction = tuple[str, bool, Values | None]
"""An attribute, whether it must be distinct, and the values that it must (distinct: must not) have; None for any."""
_MOST_ROUNDS: Final = 4


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
        self._allowed: dict[Limit, Values] = {}
        self._viable: dict[Hashable, Values] = {}
        self._rooms: dict[tuple[int, ...], int] = {}

    def needs(self) -> Sequence[Need] | None:
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

    def _gather(self) -> list[Need] | None:
        totals = Counter(dict(enumerate(self._attempt.counts)))
        found: list[Need] = []
        for number, task in enumerate(self._tasks):
            claim = task.demand.claim
            if number:
                pairs = zip(task.options, self._offers[number], strict=True)
                alternatives = [
                    Alternative(option.choice, option.wanted, self._available(claim, option, offer), offer)
                    for option, offer in pairs
                ]
            else:
                alternatives = [self._current(claim)]
            alternatives = [alternative for alternative in alternatives if alternative.possible]
            if not alternatives:
                return None
            need = Need(claim, alternatives)
            totals[claim] += need.least
            if totals[claim] > RESULTS_LIMIT:
                return None
            found.append(need)
        return found

    def _current(self, claim: int) -> Alternative:
        """The chosen option of the first task."""
        option, start = self._tasks[0].options[self._progress.number], self._progress.start
        restrictions = self._restrictions(claim, option.choice)
        key = "current", restrictions
        if key not in self._cells:
            counts: Counter[int] = Counter()
            for candidate in option.candidates[start:]:
                cell = self._candidates.cell[candidate.device]
                if self._admitted(cell, restrictions) and (
                    option.choice.want.admin_access or self._attempt.shares(candidate.device, candidate.consumes)
                ):
                    counts[cell] += 1
            self._cells[key] = counts
        return Alternative(option.choice, self._progress.left, self._cells[key], self._offers[0][self._progress.number])

    def _available(self, claim: int, option: Option, offer: CellOffer) -> Cells:
        """The available devices of each cell for the option alone. Equal answers are the same object."""
        restrictions, admin = self._restrictions(claim, option.choice), option.choice.want.admin_access
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
            self._counts[key] = sum(1 for device in members if self._attempt.shares(device, consumes))
        return self._counts[key]

    def _restrictions(self, claim: int, choice: RequestChoice) -> Sequence[Restriction]:
        trackers = self._attempt.trackers[claim]
        return tuple(
            (trackers[number].attribute, trackers[number].distinct, self._state((claim, number)))
            for number in choice.constraints
        )

    def _state(self, limit: Limit) -> Values | None:
        found = self._allowed.get(limit)
        return self._attempt.trackers[limit[0]][limit[1]].state if found is None else found

    def _admitted(self, cell: int, restrictions: Iterable[Restriction]) -> bool:
        for attribute, distinct, values in restrictions:
            mine = self._candidates.values[cell, attribute]
            if not mine or (values is not None and values.isdisjoint(mine) != distinct):
                return False
        return True

    # matchAttribute: values that can satisfy all requests of a constraint

    def _matches(self, needs: Iterable[Need]) -> dict[Limit, list[Need]]:
        found: dict[Limit, list[Need]] = {}
        for need in needs:
            for limit in need.limits:
                if not self._distinct(limit):
                    found.setdefault(limit, []).append(need)
        return found

    def _distinct(self, limit: Limit) -> bool:
        return self._attempt.trackers[limit[0]][limit[1]].distinct

    def _attribute(self, limit: Limit) -> str:
        return self._attempt.trackers[limit[0]][limit[1]].attribute

    def _narrow(self, needs: Iterable[Need]) -> bool:
        """Keep only values that can satisfy all needs of a constraint; False if no value can."""
        for limit, bound in self._matches(needs).items():
            key = self._form(limit, bound), self._state(limit)
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

    def _form(self, limit: Limit, bound: Iterable[Need]) -> Hashable:
        """A key that is equal for constraints on the same devices in the same way."""
        others = [other for need in bound for other in need.limits if self._distinct(other)]
        return self._attribute(limit), tuple(sorted(need.form for need in bound)), tuple(others)

    def _values(self, need: Need, attribute: str) -> Values:
        cells = {cell for alternative in need.alternatives for cell in alternative.cells}
        return Values().union(*(self._candidates.values[cell, attribute] for cell in cells))

    def _satisfies(self, needs: Iterable[Need], attribute: str, value: object, times: int = 1) -> bool:
        """True if the devices of one value are sufficient for the needs, ``times`` times."""
        within: list[Need] = []
        for need in needs:
            restricted = (self._with_value(alternative, attribute, value) for alternative in need.alternatives)
            alternatives = [alternative for alternative in restricted if alternative.possible]
            if not alternatives:
                return False
            within.append(Need(need.claim, alternatives))
        return self._flows([need for need in within if need.consuming], times)

    def _with_value(self, alternative: Alternative, attribute: str, value: object) -> Alternative:
        members = self._candidates.having[attribute].get(value, ())
        cells = {cell: count for cell in members if (count := alternative.cells.get(cell))}
        return Alternative(alternative.choice, alternative.wanted, cells, alternative.offer)

    # All at once

    def enough_at_once(self, needs: Sequence[Need]) -> bool:
        """True if there are devices for all needs, and values for all constraints of the same form."""
        if not self._flows([need for need in needs if need.consuming]):
            return False
        forms: dict[Hashable, list[Limit]] = {}
        matches = self._matches(needs)
        for limit, bound in matches.items():
            if all(need.consuming and len(need.limits) == 1 for need in bound):
                forms.setdefault(self._form(limit, bound), []).append(limit)
        return all(self._values_suffice(similar, matches[similar[0]]) for similar in forms.values() if len(similar) > 1)

    def _values_suffice(self, similar: Sequence[Limit], bound: Sequence[Need]) -> bool:
        """True if the values together satisfy all these constraints; each value satisfies some of them alone."""
        missing = len(similar)
        for value in self._state(similar[0]) or ():
            times = 1
            while times < missing and self._satisfies(bound, self._attribute(similar[0]), value, times + 1):
                times += 1
            missing -= times
            if not missing:
                return True
        return False

    def _flows(self, needs: Sequence[Need], times: int = 1) -> bool:
        """True if there are devices for all needs at once, with different values where they must be distinct."""
        # Needs for the same devices are one node of the network, which keeps it small.
        merged: dict[tuple[Hashable, Limit | None], tuple[Need, int]] = {}
        for need in needs:
            limit = next((limit for limit in need.limits if self._distinct(limit)), None)
            key = tuple(id(alternative.cells) for alternative in need.alternatives), limit
            merged[key] = need, merged.get(key, (need, 0))[1] + need.least * times
        counted = self._counted(merged)
        if counted is not None:
            return counted
        network = FlowNetwork()
        rooms: dict[int, list[Quantities | None]] = {}
        for number, ((_, limit), (need, amount)) in enumerate(merged.items()):
            network.pipe(SOURCE, number, amount)
            for alternative in need.alternatives:
                for cell in alternative.cells:
                    rooms.setdefault(cell, []).append(alternative.offer[cell])
                    self._connect(network, number, cell, limit, amount)
        for cell, consumes in rooms.items():
            network.pipe(("cell", cell), SINK, self._room(cell, consumes))
        return network.carries(sum(amount for _, amount in merged.values()))

    def _counted(self, merged: Mapping[tuple[Hashable, Limit | None], tuple[Need, int]]) -> bool | None:
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

    def _connect(self, network: FlowNetwork, need: Hashable, cell: int, limit: Limit | None, amount: int) -> None:
        if limit is None:
            network.pipe(need, ("cell", cell), amount)
            return
        for value in self._candidates.values[cell, self._attribute(limit)]:
            # One device of each value: a pipe of capacity 1.
            network.pipe(need, ("value", limit, value), 1)
            network.pipe(("only", limit, value), ("cell", cell), 1)
            network.limit(("value", limit, value), ("only", limit, value), 1)

    def _room(self, cell: int, consumes: Sequence[Quantities | None]) -> int:
        """The number of times the devices of the cell could be picked by the need that consumes least."""
        if consumes[0] is None:
            return self._count(cell, None, admin=False)
        different = {id(amounts): amounts for amounts in consumes}
        key = cell, *different
        if key not in self._rooms:
            members = self._candidates.members[cell]
            self._rooms[key] = sum(
                max(self._attempt.shares(device, amounts) for amounts in different.values()) for device in members
            )
        return self._rooms[key]
