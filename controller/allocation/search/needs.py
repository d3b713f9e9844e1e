"""Requests that have not got all they want, and the devices they could have, counted in cells.

The devices of one cell serve the same requests, which take the same of each, and have the same values where constraints
look.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from controller.allocation.requests.demand import Choice
from controller.allocation.search.attempt import Attempt, Candidate
from controller.allocation.search.constraints import Values, values_of
from controller.allocation.search.search_task import Task
from controller.allocation.search.symmetry import Symmetry
from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.pools import Unit

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


class Need:
    """A request and the ways in which it can still be satisfied.

    Attributes:
        least: how many devices it needs in any case.
        plain: whether it takes the devices it gets; admin access does not.
        limits: the constraints that hold whichever way is gone.
        form: equal for needs of as many of the same devices, as long as both exist.
    """

    __slots__ = ("claim", "form", "least", "limits", "plain", "ways")

    def __init__(self, claim: int, ways: Sequence[Way]):
        self.claim = claim
        self.ways = ways
        self.least = min([way.wanted for way in ways])
        self.plain = not any(way.choice.want.admin_access for way in ways)
        common = ways[0].choice.constraints
        for way in ways[1:]:
            common = tuple([number for number in common if number in way.choice.constraints])
        self.limits: Sequence[Limit] = [(claim, number) for number in common]
        self.form = tuple([(id(way.cells), way.wanted) for way in ways])


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
        self.shareable = frozenset(cell for cell, units in enumerate(self.members) if units[0].device.allow_multiple)
        self.values: Mapping[tuple[int, str], Values] = {
            (cell, name): values_of(units[0].device, name) for cell, units in enumerate(self.members) for name in names
        }
        self.having: Mapping[str, dict[object, list[int]]] = {name: {} for name in names}
        """Per attribute and value, the cells that have it."""
        for (cell, name), values in self.values.items():
            for value in values:
                self.having[name].setdefault(value, []).append(cell)
        self._known: dict[Hashable, Offer] = {}
        self.offers = [[self.offer(option.candidates) for option in task.options] for task in tasks]
        """Per task and option."""

    def offer(self, candidates: Sequence[Candidate]) -> Offer:
        """The cells of the candidates; the same object for equal offers."""
        found = {self.cell[one.unit]: one.takes for one in candidates}
        key = tuple((cell, None if takes is None else tuple(takes.items())) for cell, takes in found.items())
        return self._known.setdefault(key, found)
