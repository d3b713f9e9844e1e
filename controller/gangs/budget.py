"""What a search may spend, and which members it may leave out. Pure."""

from collections import Counter
from collections.abc import Mapping

from controller.gangs.units import Kind


class Slack:
    """How many members may be left out: in all, and of each task that has a minimum."""

    def __init__(self, members: int, of_tasks: Mapping[str, int]):
        self._members = members
        self._of_tasks = dict(of_tasks)

    def units(self, kind: Kind) -> int:
        """How many units of the kind may be left out."""
        counted = Counter(task for task in kind.tasks if task in self._of_tasks)
        return min(
            [self._members // len(kind.pods), *(self._of_tasks[task] // count for task, count in counted.items())]
        )

    def use(self, kind: Kind, units: int) -> None:
        """So many units of the kind are left out; fewer than none are taken back."""
        self._members -= units * len(kind.pods)
        for task in kind.tasks:
            if task in self._of_tasks:
                self._of_tasks[task] -= units


class OutOfSteps(Exception):
    """The budget of the search ran out."""


class Budget:
    """Steps of searches that may be wrong: what is put on a place and does not fit, or is taken back."""

    def __init__(self, steps: int):
        self.left = steps

    def part(self, divisor: int) -> "Budget":
        """A part of what is left, taken from this budget."""
        steps = self.left // divisor
        self.left -= steps
        return Budget(steps)

    def spend(self) -> None:
        """Count a step."""
        self.left -= 1

    @property
    def is_overdrawn(self) -> bool:
        """Whether more steps were counted than there were."""
        return self.left < 0
