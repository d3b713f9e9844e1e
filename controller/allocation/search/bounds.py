"""What can be told to be impossible without trying: too few devices, values, counters or capacity for all that is left.

Every test is necessary for a solution, none is sufficient: a search that stops where one fails loses no solution.

- Per request: as many devices as it wants.
- Per matchAttribute: a value of which all its requests together have enough devices. Only devices with such a value
  are counted from then on. Of constraints of the same form, no more than the devices of all values serve at once.
- All requests at once: a flow from requests, over values of distinctAttribute, to devices.
- Per counter and capacity: what the requests take at least, against what is left (``volumes``).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from controller.allocation.requests.demand import RESULTS_LIMIT, Choice
from controller.allocation.search.attempt import Attempt
from controller.allocation.search.constraints import Values
from controller.allocation.search.flow import SINK, SOURCE, Network
from controller.allocation.search.needs import Begun, Cells, Ground, Limit, Need, Offer, Way
from controller.allocation.search.search_task import Option, Task
from controller.allocation.search.symmetry import Symmetry
from controller.allocation.search.volumes import Volumes
from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.pools import Unit

Restriction = tuple[str, bool, Values | None]
"""An attribute, whether it must be distinct, and the values that it may, or may not have; None for any."""
_MOST_ROUNDS: Final = 4


class Bounds:
    """Tells what cannot be satisfied any more, given what an attempt has picked."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt, symmetry: Symmetry):
        self._tasks = tasks
        self._attempt = attempt
        self._ground = Ground(tasks, attempt, symmetry)
        self._volumes = Volumes(self._ground, attempt)

    def possible(self, index: int, end: int, begun: Begun) -> frozenset[int] | None:
        """The cells from which the task at ``index`` may take its next device; None if nothing can succeed.

        Only the tasks before ``end`` are looked at.
        """
        check = _Check(self._ground, self._attempt, self._tasks[index:end], self._ground.offers[index:end], begun)
        needs = check.needs()
        if needs is None or not check.enough_at_once(needs) or not self._volumes.suffice(n for n in needs if n.plain):
            return None
        return frozenset(needs[0].ways[0].cells)

    def cell(self, unit: Unit) -> int:
        """The cell of a device that one of the tasks may take."""
        return self._ground.cell[unit]


class _Check:
    """One look at what is left to be satisfied. The first task is begun."""

    def __init__(
        self,
        ground: Ground,
        attempt: Attempt,
        tasks: Sequence[Task],
        offers: Sequence[Sequence[Offer]],
        begun: Begun,
    ):
        self._ground = ground
        self._attempt = attempt
        self._tasks = tasks
        self._offers = offers
        self._begun = begun
        self._counts: dict[tuple[int, int], int] = {}
        self._cells: dict[Hashable, Cells] = {}
        self._allowed: dict[Limit, Values] = {}
        self._viable: dict[Hashable, Values] = {}
        self._rooms: dict[tuple[int, ...], int] = {}

    def needs(self) -> Sequence[Need] | None:
        """What is needed, with the devices that could be had for it; None if one need cannot be met."""
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
                ways = [
                    Way(option.choice, option.wanted, self._open(claim, option, offer), offer)
                    for option, offer in pairs
                ]
            else:
                ways = [self._begun_way(claim)]
            ways = [way for way in ways if way.open]
            if not ways:
                return None
            need = Need(claim, ways)
            totals[claim] += need.least
            if totals[claim] > RESULTS_LIMIT:
                return None
            found.append(need)
        return found

    def _begun_way(self, claim: int) -> Way:
        option, start = self._tasks[0].options[self._begun.number], self._begun.start
        restrictions = self._restrictions(claim, option.choice)
        key = "begun", restrictions
        if key not in self._cells:
            counts: Counter[int] = Counter()
            for one in option.candidates[start:]:
                cell = self._ground.cell[one.unit]
                if self._admitted(cell, restrictions) and (
                    option.choice.want.admin_access or self._attempt.shares(one.unit, one.takes)
                ):
                    counts[cell] += 1
            self._cells[key] = counts
        return Way(option.choice, self._begun.left, self._cells[key], self._offers[0][self._begun.number])

    def _open(self, claim: int, option: Option, offer: Offer) -> Cells:
        """How many devices of each cell the option could have, by itself; the same object where that is the same."""
        restrictions, admin = self._restrictions(claim, option.choice), option.choice.want.admin_access
        key = id(offer), restrictions, admin
        if key not in self._cells:
            admitted = {cell: takes for cell, takes in offer.items() if self._admitted(cell, restrictions)}
            counts = {cell: self._count(cell, takes, admin=admin) for cell, takes in admitted.items()}
            self._cells[key] = {cell: count for cell, count in counts.items() if count}
        return self._cells[key]

    def _count(self, cell: int, takes: Amounts | None, *, admin: bool) -> int:
        members = self._ground.members[cell]
        if admin:
            return len(members)
        key = cell, id(takes)
        if key not in self._counts:
            self._counts[key] = sum(1 for unit in members if self._attempt.shares(unit, takes))
        return self._counts[key]

    def _restrictions(self, claim: int, choice: Choice) -> Sequence[Restriction]:
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
            mine = self._ground.values[cell, attribute]
            if not mine or (values is not None and values.isdisjoint(mine) != distinct):
                return False
        return True

    # matchAttribute: values that can serve all requests of a constraint

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
        """Allow only values that can serve all needs of a constraint; False if that leaves none."""
        for limit, bound in self._matches(needs).items():
            key = self._form(limit, bound), self._state(limit)
            viable = self._viable.get(key)
            if viable is None:
                attribute, values = self._attribute(limit), self._state(limit)
                if values is None:
                    values = self._values(bound[0], attribute)
                served = (value for value in values if self._serves(bound, attribute, value))
                viable = self._viable[key] = frozenset(served)
            if not viable:
                return False
            self._allowed[limit] = viable
        return True

    def _form(self, limit: Limit, bound: Iterable[Need]) -> Hashable:
        """Equal for constraints that want the same devices in the same way."""
        others = [other for need in bound for other in need.limits if self._distinct(other)]
        return self._attribute(limit), tuple(sorted(need.form for need in bound)), tuple(others)

    def _values(self, need: Need, attribute: str) -> Values:
        cells = {cell for way in need.ways for cell in way.cells}
        return Values().union(*(self._ground.values[cell, attribute] for cell in cells))

    def _serves(self, needs: Iterable[Need], attribute: str, value: object, times: int = 1) -> bool:
        """Whether the devices of one value are enough for the needs, ``times`` over."""
        within: list[Need] = []
        for need in needs:
            ways = [way for way in (self._with_value(way, attribute, value) for way in need.ways) if way.open]
            if not ways:
                return False
            within.append(Need(need.claim, ways))
        return self._flows([need for need in within if need.plain], times)

    def _with_value(self, way: Way, attribute: str, value: object) -> Way:
        members = self._ground.having[attribute].get(value, ())
        cells = {cell: count for cell in members if (count := way.cells.get(cell))}
        return Way(way.choice, way.wanted, cells, way.offer)

    # All at once

    def enough_at_once(self, needs: Sequence[Need]) -> bool:
        """Whether there are devices for all needs, and values for all constraints of one form."""
        if not self._flows([need for need in needs if need.plain]):
            return False
        forms: dict[Hashable, list[Limit]] = {}
        matches = self._matches(needs)
        for limit, bound in matches.items():
            if all(need.plain and len(need.limits) == 1 for need in bound):
                forms.setdefault(self._form(limit, bound), []).append(limit)
        return all(self._values_suffice(alike, matches[alike[0]]) for alike in forms.values() if len(alike) > 1)

    def _values_suffice(self, alike: Sequence[Limit], bound: Sequence[Need]) -> bool:
        """Whether the values, each of which serves one of these constraints, serve them all; each counted by itself."""
        missing = len(alike)
        for value in self._state(alike[0]) or ():
            times = 1
            while times < missing and self._serves(bound, self._attribute(alike[0]), value, times + 1):
                times += 1
            missing -= times
            if not missing:
                return True
        return False

    def _flows(self, needs: Sequence[Need], times: int = 1) -> bool:
        """Whether there are devices for all needs at once, with values of their own where they must differ."""
        merged: dict[tuple[Hashable, Limit | None], tuple[Need, int]] = {}
        for need in needs:
            limit = next((limit for limit in need.limits if self._distinct(limit)), None)
            key = tuple(id(way.cells) for way in need.ways), limit
            merged[key] = need, merged.get(key, (need, 0))[1] + need.least * times
        apart = self._apart(merged)
        if apart is not None:
            return apart
        network = Network()
        rooms: dict[int, list[Amounts | None]] = {}
        for number, ((_, limit), (need, amount)) in enumerate(merged.items()):
            network.pipe(SOURCE, number, amount)
            for way in need.ways:
                for cell in way.cells:
                    rooms.setdefault(cell, []).append(way.offer[cell])
                    self._connect(network, number, cell, limit, amount)
        for cell, takes in rooms.items():
            network.pipe(("cell", cell), SINK, self._room(cell, takes))
        return network.carries(sum(amount for _, amount in merged.values()))

    def _apart(self, merged: Mapping[tuple[Hashable, Limit | None], tuple[Need, int]]) -> bool | None:
        """The answer where no two needs compete for a cell; None where they do, or it takes more than counting."""
        cells: set[int] = set()
        number = 0
        enough = True
        for (_, limit), (need, amount) in merged.items():
            if limit is not None or len(need.ways) > 1:
                return None
            mine = need.ways[0].cells
            number += len(mine)
            cells.update(mine)
            enough = enough and amount <= sum(mine.values())
        if number > len(cells):
            return None
        # A device that can be shared is counted once, but may serve several.
        return True if enough else None if self._ground.shareable.intersection(cells) else False

    def _connect(self, network: Network, need: Hashable, cell: int, limit: Limit | None, amount: int) -> None:
        if limit is None:
            network.pipe(need, ("cell", cell), amount)
            return
        for value in self._ground.values[cell, self._attribute(limit)]:
            # One device of each value: through a pipe of 1.
            network.pipe(need, ("value", limit, value), 1)
            network.pipe(("only", limit, value), ("cell", cell), 1)
            network.limit(("value", limit, value), ("only", limit, value), 1)

    def _room(self, cell: int, takes: Sequence[Amounts | None]) -> int:
        """How often the cell's devices could be picked, by the request that takes least."""
        if takes[0] is None:
            return self._count(cell, None, admin=False)
        different = {id(one): one for one in takes}
        key = cell, *different
        if key not in self._rooms:
            members = self._ground.members[cell]
            self._rooms[key] = sum(
                max(self._attempt.shares(unit, one) for one in different.values()) for unit in members
            )
        return self._rooms[key]
