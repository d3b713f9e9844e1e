"""Requests that have not got all they want, and the devices they could have, counted in cells.

The devices of one cell serve the same requests, which take the same of each, and have the same values where constraints
look.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from controller.allocation.amounts import Amounts
from controller.allocation.attempt import Attempt, Candidate
from controller.allocation.constraints import Values, values_of
from controller.allocation.demand import Choice
from controller.allocation.pools import Unit
from controller.allocation.search_task import Task
from controller.allocation.symmetry import Symmetry

Cells = Mapping[int, int]
"""Cell to how many of its devices could be had."""
Offer = Mapping[int, Amounts | None]
"""Cell to what a pick of one of its devices takes: capacities of a share, or None for the whole."""
Limit = tuple[int, int]
"""A constraint: claim, and its number there."""


@dataclass(frozen=True, slots=True)
class Begun:
    """How far a request has got: its option, from which position candidates may be taken, and how many still are."""

    number: int
    start: int
    left: int


@dataclass(frozen=True, slots=True)
class Way:
    """One choice that is still open."""

    choice: Choice
    wanted: int
    cells: Cells
    offer: Offer

    @property
    def open(self) -> bool:
        """Whether there are as many devices as it wants."""
        return sum(self.cells.values()) >= self.wanted


@dataclass(frozen=True)
class Need:
    """A request and the ways in which it can still be satisfied."""

    claim: int
    ways: Sequence[Way]

    @cached_property
    def least(self) -> int:
        """How many devices it needs in any case."""
        return min(way.wanted for way in self.ways)

    @cached_property
    def plain(self) -> bool:
        """Whether it takes the devices it gets; admin access does not."""
        return not any(way.choice.want.admin_access for way in self.ways)

    @cached_property
    def limits(self) -> Sequence[Limit]:
        """The constraints that hold whichever way is gone."""
        first, *others = (way.choice.constraints for way in self.ways)
        return [(self.claim, number) for number in first if all(number in other for other in others)]

    @cached_property
    def form(self) -> tuple[tuple[int, int], ...]:
        """Equal for needs of as many of the same devices, as long as both exist."""
        return tuple((id(way.cells), way.wanted) for way in self.ways)


class Ground:
    """The cells of the devices that some tasks may take. It does not change while they are searched for."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt, symmetry: Symmetry):
        names = sorted({tracker.attribute for trackers in attempt.trackers for tracker in trackers})
        self.members: list[list[Unit]] = []
        """The devices of each cell."""
        self.cell: dict[Unit, int] = {}
        numbers: dict[Hashable, int] = {}
        for unit, kind in symmetry.kinds.items():
            key = kind, tuple(values_of(unit.device, name) for name in names)
            cell = self.cell[unit] = numbers.setdefault(key, len(numbers))
            if cell == len(self.members):
                self.members.append([])
            self.members[cell].append(unit)
        self.values: Mapping[tuple[int, str], Values] = {
            (cell, name): values_of(units[0].device, name) for cell, units in enumerate(self.members) for name in names
        }
        self._known: dict[Hashable, Offer] = {}
        self.offers = [[self.offer(option.candidates) for option in task.options] for task in tasks]
        """Per task and option."""

    def offer(self, candidates: Sequence[Candidate]) -> Offer:
        """The cells of the candidates; the same object for equal offers."""
        found = {self.cell[one.unit]: one.takes for one in candidates}
        key = tuple((cell, None if takes is None else tuple(takes.items())) for cell, takes in found.items())
        return self._known.setdefault(key, found)
