"""The protocol of everything that the loop of the controller runs, and what all of it uses."""

from dataclasses import dataclass

from controller.refusal import AskedInVain
from controller.state import Changes, State
from controller.worker.metrics import ControllerMetrics
from controller.worker.queue import Turns
from controller.worker.writes_in_flight import WritesInFlight
from controller.writing import WriteResult, Writes
from driver.clock import Clock
from driver.observe import Logger
from driver.settings import ControllerSettings


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all workers of a term of leadership use.

    Attributes:
        queue: what is to be decided about.
        writes: carries out reports, and whatever else gives no device to a claim.
        in_flight: carries out decisions about pods and claims.
        in_vain: the shapes of pods that every node refused, as of ``Nodes.generation``.
    """

    state: State
    queue: Turns
    writes: Writes
    in_flight: WritesInFlight
    in_vain: AskedInVain
    clock: Clock
    metrics: ControllerMetrics
    log: Logger
    settings: ControllerSettings


class Worker:
    """A part of the controller with work of its own: it takes in what changes, and says when it has something to do.

    Workers are made anew for each term of leadership. The controller asks them one after the other, in the order of its
    list, and does one piece of work at a time. What a worker does not define here, it does not need.
    """

    def __init__(self, shared: Shared):
        self._state = shared.state
        self._queue = shared.queue
        self._writes = shared.writes
        self._in_flight = shared.in_flight
        self._clock = shared.clock
        self._metrics = shared.metrics
        self._log = shared.log

    def restore(self) -> None:
        """Find what there is to do, at the start of a term."""

    def note(self, changes: Changes) -> None:
        """Take in what has changed, after each report, each result and each decision."""

    def next_due(self) -> float | None:
        """Return when ``work`` has something to do (monotonic seconds); None if only a change can give it something."""
        return None

    def work(self) -> bool:
        """Do the next piece of work that is due; return False if none is."""
        return False

    def written(self, result: WriteResult, changes: Changes) -> None:
        """Take in the result of a sequence that this worker is the author of (``Author.written``)."""
