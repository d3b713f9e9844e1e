"""Open requests and their candidates, counted in cells.

The devices of one cell are candidates of the same requests, with the same consumption, and have the same values of the
attributes in constraints.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from controller.allocation.devices.pools import PoolDevice
from controller.allocation.requests import RequestChoice
from controller.allocation.rules import Quantities, Values, values_of
from controller.allocation.search.attempt import Attempt, Candidate, Task
from controller.allocation.search.symmetry import Symmetry

Cells = Mapping[int, int]
"""The number of available devices by cell."""
CellOffer = Mapping[int, Quantities | None]
"""The consumption of a pick by cell: the capacities of a share, or None for the whole device."""
Limit = tuple[int, int]
"""A constraint: the number of the claim, and its number in the claim."""


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """The progress of a request: its option, the position of the next candidate, and the number of devices left."""

    number: int
    start: int
    left: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One choice of a request that is not satisfied yet."""

    choice: RequestChoice
    wanted: int
    cells: Cells
    offer: CellOffer

    @property
    def possible(self) -> bool:
        """True if as many devices are available as it wants."""
        return sum(self.cells.values()) >= self.wanted


class Need:
    """A request and the alternatives that can still satisfy it.

    Attributes:
        least: the least number of devices over all alternatives.
        consuming: whether it uses its devices; admin access does not.
        limits: the constraints of every alternative.
        form: a key that is equal for needs of the same number of the same devices, as long as both exist.
    """

    __slots__ = ("alternatives", "claim", "consuming", "form", "least", "limits")

    def __init__(self, claim: int, alternatives: Sequence[Alternative]):
        self.claim = claim
        self.alternatives = alternatives
        self.least = min([alternative.wanted for alternative in alternatives])
        self.consuming = not any(alternative.choice.want.admin_access for alternative in alternatives)
        common = alternatives[0].choice.constraints
        for alternative in alternatives[1:]:
            common = tuple([number for number in common if number in alternative.choice.constraints])
        self.limits: Sequence[Limit] = [(claim, number) for number in common]
        self.form = tuple([(id(alternative.cells), alternative.wanted) for alternative in alternatives])


class CandidateCells:
    """The cells of all candidates of some tasks. They do not change during a search."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt, symmetry: Symmetry):
        names = sorted({tracker.attribute for trackers in attempt.trackers for tracker in trackers})
        self.members: list[list[PoolDevice]] = []
        """The devices of each cell."""
        self.cell: dict[PoolDevice, int] = {}
        # Groups do not matter here, as they do for symmetry: counting asks how many devices there are, not which.
        numbers: dict[Hashable, int] = {}
        for device, kind in symmetry.kinds.items():
            key = kind, tuple(values_of(device.spec, name) for name in names)
            cell = self.cell[device] = numbers.setdefault(key, len(numbers))
            if cell == len(self.members):
                self.members.append([])
            self.members[cell].append(device)
        self.shareable = frozenset(cell for cell, devices in enumerate(self.members) if devices[0].spec.allow_multiple)
        self.values: Mapping[tuple[int, str], Values] = {
            (cell, name): values_of(devices[0].spec, name)
            for cell, devices in enumerate(self.members)
            for name in names
        }
        self.having: Mapping[str, dict[object, list[int]]] = {name: {} for name in names}
        """Per attribute and value, the cells that have it."""
        for (cell, name), values in self.values.items():
            for value in values:
                self.having[name].setdefault(value, []).append(cell)
        self._known: dict[Hashable, CellOffer] = {}
        self.of_option = [[self._offer(option.candidates) for option in task.options] for task in tasks]
        """Per task and option, the cells of its candidates."""

    def _offer(self, candidates: Sequence[Candidate]) -> CellOffer:
        """The cells of the candidates; the same object for equal offers."""
        found = {self.cell[candidate.device]: candidate.consumes for candidate in candidates}
        key = tuple((cell, None if consumes is None else tuple(consumes.items())) for cell, consumes in found.items())
        return self._known.setdefault(key, found)
