"""The protocol of everything that the loop of the controller runs."""

from controller.state import Changes
from controller.writing import WriteResult


class Worker:
    """A part of the controller with work of its own: it takes in what changes, and says when it has something to do.

    Workers are made anew for each term of leadership. The controller asks them one after the other, in the order of its
    list, and does one piece of work at a time. What a worker does not define here, it does not need.
    """

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
