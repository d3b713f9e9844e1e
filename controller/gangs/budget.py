"""What a search may spend, and which members it may leave out. Pure."""

from collections.abc import Mapping
from typing import Final

from controller.gangs.gang import SubGroup
from controller.gangs.units import CoLocatedMembers, UnitShape

Owed = tuple[SubGroup, ...]
"""The sub-groups that have to become whole of which the members of a unit are."""
_EVERY_MEMBER: Final[SubGroup] = (-1, "")
"""Stands for sub-groups of which each member is needed."""


class Slack:
    """How many members may be left out: in all, of each task that has a minimum, and of each sub-group.

    Args:
        of_sub_groups: of those that have to become whole. Of others, all may be left out.
    """

    def __init__(self, members: int, of_tasks: Mapping[str, int], of_sub_groups: Mapping[SubGroup, int]):
        self._members = members
        self._of_tasks = dict(of_tasks)
        self._of_sub_groups = {**of_sub_groups, _EVERY_MEMBER: 0}

    @property
    def is_possible(self) -> bool:
        """Whether as many members are there as are needed."""
        return min([self._members, *self._of_tasks.values(), *self._of_sub_groups.values()]) >= 0

    def owed(self, unit: CoLocatedMembers) -> Owed:
        """The sub-groups that the unit is needed for. Equal for units of which as many may be left out."""
        found = tuple([one for one in unit.sub_groups if one in self._of_sub_groups])
        return found if all(self._of_sub_groups[one] for one in found) else (_EVERY_MEMBER,)

    def units(self, shape: UnitShape, owed: Owed) -> int:
        """How many units of the shape may be left out."""
        tasks = shape.tasks
        of_tasks = [self._of_tasks[task] // tasks.count(task) for task in tasks if task in self._of_tasks]
        of_sub_groups = [self._of_sub_groups[one] // owed.count(one) for one in owed]
        return min([self._members // len(shape.pods), *of_tasks, *of_sub_groups])

    def use(self, shape: UnitShape, owed: Owed, units: int) -> None:
        """So many units of the shape are left out; fewer than none are taken back."""
        self._members -= units * len(shape.pods)
        for task in shape.tasks:
            if task in self._of_tasks:
                self._of_tasks[task] -= units
        for one in owed:
            self._of_sub_groups[one] -= units


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
