"""Limits of a search: the steps that it may take, and the members that it may leave out. Pure."""

from collections.abc import Mapping
from typing import Final

from controller.gangs.gang import SubGroup
from controller.gangs.units import CoLocatedMembers, UnitShape

Owed = tuple[SubGroup, ...]
"""The sub-groups of a unit that have to become whole."""
_EVERY_MEMBER: Final[SubGroup] = (-1, "")
"""Stands for all sub-groups that need each of their members."""


class Slack:
    """Counts the members that may be left out: in all, of each task with a minimum, and of each sub-group.

    Args:
        of_sub_groups: numbers for the sub-groups that have to become whole. Others may be left out with all members.
    """

    def __init__(self, members: int, of_tasks: Mapping[str, int], of_sub_groups: Mapping[SubGroup, int]):
        self._members = members
        self._of_tasks = dict(of_tasks)
        self._of_sub_groups = {**of_sub_groups, _EVERY_MEMBER: 0}

    @property
    def is_possible(self) -> bool:
        """Whether there are enough members."""
        return min([self._members, *self._of_tasks.values(), *self._of_sub_groups.values()]) >= 0

    def owed(self, unit: CoLocatedMembers) -> Owed:
        """The sub-groups that need the unit. If this is equal for two units, as many of both may be left out."""
        found = tuple([one for one in unit.sub_groups if one in self._of_sub_groups])
        return found if all(self._of_sub_groups[one] for one in found) else (_EVERY_MEMBER,)

    def units(self, shape: UnitShape, owed: Owed) -> int:
        """Number of units of the shape that may be left out."""
        tasks = shape.tasks
        of_tasks = [self._of_tasks[task] // tasks.count(task) for task in tasks if task in self._of_tasks]
        of_sub_groups = [self._of_sub_groups[one] // owed.count(one) for one in owed]
        return min([self._members // len(shape.pods), *of_tasks, *of_sub_groups])

    def use(self, shape: UnitShape, owed: Owed, units: int) -> None:
        """Use slack for ``units`` units that are left out; a negative number gives it back."""
        self._members -= units * len(shape.pods)
        for task in shape.tasks:
            if task in self._of_tasks:
                self._of_tasks[task] -= units
        for one in owed:
            self._of_sub_groups[one] -= units


class OutOfSteps(Exception):
    """The budget of the search ran out."""


class StepBudget:
    """A limit on the placements of a search that fail or are undone."""

    def __init__(self, steps: int):
        self.left = steps

    def part(self, divisor: int) -> "StepBudget":
        """Split off a part of the steps that are left: one in ``divisor``."""
        steps = self.left // divisor
        self.left -= steps
        return StepBudget(steps)

    def spend(self) -> None:
        """Count a step."""
        self.left -= 1

    @property
    def is_overdrawn(self) -> bool:
        """Whether more steps were counted than there were."""
        return self.left < 0
