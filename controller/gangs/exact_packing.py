"""Puts units on the places of one domain by exact search, with backtracking.

Units of one shape and group are counted, not permuted: the search chooses a number of them for each place. All units of
a place get their devices together (``Staging``), so a member never gets devices that keep another one away.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from controller.gangs.budget import OutOfSteps, Owed, Slack, StepBudget
from controller.gangs.fitting import best_fit
from controller.gangs.free_units import FreeUnits
from controller.gangs.levels import Anchors, GroupLevel, GroupNumber
from controller.gangs.search_context import PackingRules, SearchContext
from controller.gangs.staging import Staging
from controller.gangs.topology import DomainNode, Path, by_path
from controller.gangs.units import CoLocatedMembers, Seat, UnitShape
from controller.gangs.wholes import SubGroupCandidate, Wholes

_Steps = Iterator["_Steps | None"]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Units of one shape in the same groups, in the order of ranks.

    Attributes:
        groups: for each level with groups, the groups of a unit: mostly one; none if the level does not hold for it.
        owed: the sub-groups that need the units.
    """

    shape: UnitShape
    groups: tuple[tuple[GroupNumber, ...], ...]
    owed: Owed
    units: tuple[CoLocatedMembers, ...]


class _Order(NamedTuple):
    """Places in an order, and the most units on the places from each position on."""

    places: Sequence[int]
    rooms: Sequence[int]


class Packing:
    """Puts units on places of a domain.

    Args:
        wholes: chooses sub-groups, and with them the members that may be left out.
        inside: the places of the domain.
    """

    def __init__(
        self,
        units: Sequence[CoLocatedMembers],
        wholes: Wholes,
        context: SearchContext,
        inside: Sequence[int],
        staging: Staging,
        rules: PackingRules,
    ):
        places, groups, reach, close = context.places, context.tier.groups, rules.reach, rules.close
        self._places = places
        self._inside = inside
        self._counts = context.counts
        self._groups = groups
        self._staging = staging
        self._budget = StepBudget(0)
        self._wholes = wholes
        self._slack = Slack(0, {}, {})
        self._anchors: Anchors = dict(rules.anchors)
        self._reach = reach
        self._within = frozenset(inside) if reach else frozenset[int]()
        self._close = close
        self._first = close[0] if close and rules.leader_first else None
        self._child_depth = context.tier.depth + 1
        self._most_children = rules.most_children
        self._children: dict[Path, int] = {}
        self._depends_on_members = any(unit.shape.depends_on_members for unit in units)
        self._independent = not self._depends_on_members and not (staging.shares_devices and any(map(_combines, units)))
        """Whether as many of the last units as possible on one place never keeps one of them from another place."""
        self._ordered = any(unit.shape.ordered for unit in units)
        self._free = FreeUnits(context)
        self._below = {depth: by_path([places[at] for at in inside], depth) for depth in {g.depth for g in groups}}
        self._units = units
        self._in_group: Counter[tuple[int, GroupNumber]] | None = None
        """Number of units of each group of a level; None until it is needed."""
        self._choices: list[_Steps] = [self._choose()]

    def run(self, budget: StepBudget) -> bool:
        """Put enough units on places; False, with none on places, if there is no way.

        A search that ran out of steps continues where it ended. The budget is checked between two choices only, so each
        run makes progress.

        Raises:
            OutOfSteps: the budget ran out; units may be on places.
        """
        self._budget = budget
        while self._choices:
            if budget.is_overdrawn:
                raise OutOfSteps
            try:
                following = next(self._choices[-1])
            except StopIteration:
                self._choices.pop()
                continue
            if following is None:
                return True
            self._choices.append(following)
        return False

    def _batched(self, units: Sequence[CoLocatedMembers]) -> tuple[_Batch, ...]:
        """Batch the units, hard ones first. Units whose order matters stay single, in the order of ranks."""
        found: dict[object, list[CoLocatedMembers]] = {}
        for unit in units:
            key = unit if self._ordered else (unit.shape, self._groups_of(unit), self._slack.owed(unit))
            found.setdefault(key, []).append(unit)
        batches = [
            _Batch(some[0].shape, self._groups_of(some[0]), self._slack.owed(some[0]), tuple(some))
            for some in found.values()
        ]
        if not self._ordered:
            shapes = {unit.shape: None for unit in units}
            rooms = {shape: self._counts.room(shape, self._places_of(shape)) for shape in shapes}

            def difficulty(batch: _Batch) -> tuple[Any, ...]:
                is_later = self._first not in batch.units
                return is_later, rooms[batch.shape], batch.shape.number, batch.groups, batch.owed

            batches.sort(key=difficulty)
        return tuple(batches)

    def _groups_of(self, unit: CoLocatedMembers) -> tuple[tuple[GroupNumber, ...], ...]:
        return tuple(
            [tuple(sorted({level.number(seat) for seat in self._held(level, unit)} - {()})) for level in self._groups]
        )

    def _held(self, level: GroupLevel, unit: CoLocatedMembers) -> Sequence[Seat]:
        """The seats of a unit's members; none if the level does not hold for the unit."""
        holds = self._reach is None or unit.shape.has_devices or level.depth <= self._reach.depth
        return unit.seats if holds else ()

    def _keys_of(self, unit: CoLocatedMembers) -> Iterator[tuple[int, GroupNumber]]:
        """The groups of the unit, each as the depth of the level and a number."""
        for level, groups in zip(self._groups, self._groups_of(unit), strict=True):
            yield from [(level.depth, group) for group in groups]

    def _reaches_out(self, shape: UnitShape) -> bool:
        """Whether units of the shape may be outside the domain."""
        return self._reach is not None and not shape.has_devices

    def _places_of(self, shape: UnitShape) -> Sequence[int]:
        """The places for units of the shape."""
        return self._reach.places if self._reach is not None and not shape.has_devices else self._inside

    # The search. Each generator makes one choice after another, and yields what has to be decided on top of it.

    def _choose(self) -> _Steps:
        """Choose the sub-groups that become whole."""
        # All sub-groups are asked about before a unit is on a place, so the room of a shape stays the same.
        room = cache(lambda shape: self._counts.room(shape, self._places_of(shape)))
        for choice in self._wholes.choices(
            self._alike, lambda one: _may_fit(one, room), lambda unit: (unit.shape, self._groups_of(unit))
        ):
            if choice is None:
                # Lets ``run`` check the budget.
                yield iter(())
            else:
                self._slack = choice.slack
                yield self._next(self._batched(choice.units))
            self._budget.spend()

    def _alike(self, one: SubGroupCandidate) -> Hashable:
        """A key that is equal for sub-groups of which either can take the place of the other.

        They ask for the same, and share groups only among their own members, in the same pattern.
        """
        if self._in_group is None:
            self._in_group = Counter(key for unit in self._units for key in self._keys_of(unit))
        in_group = self._in_group
        own = Counter(key for unit in one.units for key in self._keys_of(unit))
        if any(in_group[key] > count or key in self._anchors for key, count in own.items()):
            return one
        numbers: dict[object, int] = {}
        pattern = [
            (unit.shape.number, *(numbers.setdefault(key, len(numbers)) for key in self._keys_of(unit)))
            for unit in sorted(one.units, key=lambda unit: (unit.shape.number, unit.order))
        ]
        return one.name[0], one.lack, tuple(pattern)

    def _next(self, left: tuple[_Batch, ...]) -> _Steps:
        """Choose the next batch; yields None if all units are on places."""
        if not left:
            yield None
            return
        tried: set[object] = set()
        for number, batch in enumerate(left if self._ordered else left[:1]):
            if (key := (batch.shape, batch.groups, batch.owed)) not in tried:
                tried.add(key)
                yield self._open(batch, (*left[:number], *left[number + 1 :]), 0, ())
        batch = left[0]
        yield from self._leave_out(batch, len(batch.units), left[1:])

    def _open(self, batch: _Batch, rest: tuple[_Batch, ...], level: int, path: Path) -> _Steps:
        """Choose the domains for the groups of the batch."""
        if level == len(self._groups):
            inside = self._below[len(path)][path] if path else self._places_of(batch.shape)
            order = self._in_order(batch, inside)
            yield self._fill(batch, rest, _Order(order, self._free.rooms_from(batch.shape, order)), 0, 0)
            return
        if not batch.groups[level]:
            yield self._open(batch, rest, level + 1, path)
            return
        depth = self._groups[level].depth
        keys = [(depth, group) for group in batch.groups[level]]
        anchors = {self._anchors[key] for key in keys if key in self._anchors}
        # Who shares a claim is on one node, and with that the groups of all who share it.
        new = [key for key in keys if key not in self._anchors]
        options = self._options(batch, rest, path, depth) if not anchors else anchors if len(anchors) == 1 else ()
        for option in options:
            if option[: len(path)] == path and option in self._below[depth]:
                self._anchors.update(dict.fromkeys(new, option))
                yield self._open(batch, rest, level + 1, option)
                for key in new:
                    del self._anchors[key]

    def _options(self, batch: _Batch, rest: tuple[_Batch, ...], path: Path, depth: int) -> Sequence[Path]:
        """Order the domains of a level for a group: the tightest with enough room, then the others.

        If the number of sub-domains is limited, those in use come first, and then, unless this is the last batch, the
        largest.
        """
        least, want = len(batch.units) - self._slack.units(batch.shape, batch.owed), len(batch.units)
        rooms = {
            option: self._free.room(batch.shape, places)
            for option, places in self._below[depth].items()
            if option[: len(path)] == path
        }
        possible = [option for option, room in rooms.items() if room >= max(least, 1)]
        possible.sort(key=lambda option: (rooms[option] < want, rooms[option], option))
        if self._most_children is not None:
            of_children = Counter[Path]()
            for option in possible if rest else ():
                of_children[option[: self._child_depth]] += rooms[option]
            children = {option: option[: self._child_depth] for option in possible}
            possible.sort(key=lambda option: (children[option] not in self._children, -of_children[children[option]]))
        return possible

    def _fill(self, batch: _Batch, rest: tuple[_Batch, ...], order: _Order, start: int, done: int) -> _Steps:
        """Choose places for the units from number ``done`` on, from position ``start`` of the order on."""
        left = len(batch.units) - done
        if not left:
            yield self._next(rest)
            return
        at, places = start, order.places
        while at < len(places) and order.rooms[at] >= left - self._slack.units(batch.shape, batch.owed):
            place = places[at]
            at += 1
            child = self._counted_child(batch, place)
            fresh = child is not None and child not in self._children
            if fresh and self._most_children is not None and len(self._children) >= self._most_children:
                continue
            put = self._put_most(batch, place, done)
            if not put:
                continue
            self._count(child)
            for count in range(put, 0, -1):
                if count < put and not self._put(batch, place, done, count):
                    continue
                yield self._fill(batch, rest, order, at, done + count)
                self._staging.take(place)
                self._free.put(batch.shape, place, -count)
                self._budget.spend()
                if not rest and self._independent:
                    break
            self._uncount(child)
            if not rest and self._independent:
                # Nothing else needs the place, so to use it less cannot help; to use another child can.
                if not fresh or self._most_children is None:
                    break
                while at < len(places) and self._child(places[at]) == child:
                    at += 1
        if done:
            yield from self._leave_out(batch, left, rest)

    def _leave_out(self, batch: _Batch, count: int, rest: tuple[_Batch, ...]) -> _Steps:
        """Continue without ``count`` units of the batch, if that leaves enough members."""
        if count <= self._slack.units(batch.shape, batch.owed):
            self._slack.use(batch.shape, batch.owed, count)
            yield self._next(rest)
            self._slack.use(batch.shape, batch.owed, -count)

    def _put_most(self, batch: _Batch, place: int, done: int) -> int:
        """Put as many units as the place takes; returns how many."""
        for count in range(min(self._free.of(batch.shape)[place], len(batch.units) - done), 0, -1):
            if self._put(batch, place, done, count):
                return count
            if not self._depends_on_members and self._staging.is_alone(place):
                # Whatever else is where, the place does not take so many.
                self._counts.learn(batch.shape, place, count - 1)
                self._free.limit(batch.shape, place, count - 1)
        return 0

    def _put(self, batch: _Batch, place: int, done: int, count: int) -> bool:
        if self._staging.put(place, batch.units[done : done + count]):
            self._free.put(batch.shape, place, count)
            return True
        self._budget.spend()
        return False

    @property
    def children(self) -> int:
        """Number of sub-domains in use."""
        return len(self._children)

    def _child(self, place: int) -> Path:
        return self._places[place].below[: self._child_depth]

    def _counted_child(self, batch: _Batch, place: int) -> Path | None:
        """The sub-domain that counts as used; None for units that may be outside the domain."""
        return None if self._reaches_out(batch.shape) else self._child(place)

    def _count(self, child: Path | None) -> None:
        if child is not None:
            self._children[child] = self._children.get(child, 0) + 1

    def _uncount(self, child: Path | None) -> None:
        if child is not None:
            self._children[child] -= 1
            if not self._children[child]:
                del self._children[child]

    # Bounds and order

    def _in_order(self, batch: _Batch, inside: Sequence[int]) -> Sequence[int]:
        """Best-fit order of the places, grouped by sub-domain. Nodes to try last are at the end."""
        free = self._free.of(batch.shape)
        last = {name: number for pod in batch.shape.pods for number, name in enumerate(pod.last, 1)}
        usable = [place for place in inside if free[place]]
        children: dict[Path, list[int]] = {}
        for place in usable:
            children.setdefault(self._child(place), []).append(place)
        rooms = {child: self._free.room(batch.shape, places) for child, places in children.items()}
        found: list[int] = []
        left = len(batch.units)
        for child in best_fit(rooms, left):
            found += best_fit({place: free[place] for place in children[child]}, left)
            left = max(0, left - rooms[child])
        if self._reaches_out(batch.shape):
            found.sort(key=lambda place: place not in self._within)
        if near := self._near(batch):
            found.sort(key=lambda place: self._distance(self._places[place], near))
        if any(pod.needs.spread for pod in batch.shape.pods):
            found.sort(key=lambda place: len(self._staging.units(place)))
        if last:
            found.sort(key=lambda place: last.get(self._places[place].node, 0))
        return found

    def _near(self, batch: _Batch) -> DomainNode | None:
        """The place that a unit of the batch should be close to: of rank 0 for the leader, and vice versa."""
        for one, other in (self._close, self._close[::-1]) if self._close else ():
            if one in batch.units:
                return self._staging.place_of(other)
        return None

    def _distance(self, place: DomainNode, other: DomainNode) -> int:
        """Distance of two places: 0 on one node, and the smaller, the smaller the domain that both share."""
        same = [one == another for one, another in zip(place.below, other.below, strict=False)]
        return 0 if place.node == other.node else 1 + len(same) - (same.index(False) if False in same else len(same))


def _may_fit(one: SubGroupCandidate, room: Callable[[UnitShape], int]) -> bool:
    """Whether there is room for the sub-group, shape by shape, if nothing else is placed.

    Args:
        room: most units of a shape.
    """
    shapes, spare = Counter(unit.shape for unit in one.units), one.spare
    return all(room(shape) >= units - spare for shape, units in shapes.items())


def _combines(unit: CoLocatedMembers) -> bool:
    """Whether the unit needs several devices at once, so that a greedy choice can block the next unit."""
    return any(
        request.total_devices > 1 or not request.single_choice
        for request in (unit.shape.request, unit.shape.other_drivers_request)
    )
