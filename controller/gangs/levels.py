"""Levels that have to hold in one attempt, and the groups of members that each of them keeps in one domain.

A decision makes one attempt after another: with all levels, then without the innermost preferred one, and so on
outwards. A level holds for the whole gang, or for each group of it: ranks 0 to 3, 4 to 7, ... (``Level.group_size``),
each sub-group (``Level.per_sub_group``), or some tasks together (``Level.task_groups``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.gangs.gang import Gang, Level
from controller.gangs.topology import Path
from controller.gangs.units import MemberPosition

GroupNumber = tuple[int, ...]
"""Number of a group: equal for all of its members; () for a member in no group."""
GroupKey = tuple[int, GroupNumber]
"""A group of one level: the depth of the level, and the number of the group."""
GroupDomains = dict[GroupKey, Path]
"""The domain of each group that has one already."""


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """A level that keeps each group of ``size`` members in one domain; the whole gang if ``size`` is 0.

    Attributes:
        depth: number of levels from the outermost to this one.
        outer: size of the groups around, which its groups never cross; 0 if there are none.
        per_sub_group: whether its groups are sub-groups, or parts of these.
        by_task: whether the task of a member says its group.
    """

    depth: int
    size: int
    outer: int = 0
    per_sub_group: bool = False
    by_task: bool = False

    @property
    def is_of_gang(self) -> bool:
        """Whether the whole gang stays in one domain."""
        return not (self.size or self.per_sub_group or self.by_task)

    @property
    def is_of_sub_groups(self) -> bool:
        """Whether each sub-group stays in one domain."""
        return self.per_sub_group and not self.size

    def group_of(self, member: MemberPosition) -> GroupNumber:
        """The number of a member's group."""
        if self.by_task:
            number = member.task_groups[self.depth - 1]
            return () if number is None else (number,)
        if self.per_sub_group and member.sub_group is None:
            return ()
        base = () if member.sub_group is None or not self.per_sub_group else (member.sub_group,)
        position = member.in_sub_group if self.per_sub_group else member.in_gang
        if self.outer:
            # Counted anew in each outer group: groups of 4 in groups of 6 are 4 and 2 members, then 4 and 2 again.
            outer, inside = divmod(position, self.outer)
            return (*base, outer, inside // self.size)
        return (*base, position // self.size) if self.size else base


@dataclass(frozen=True, slots=True)
class WiderDomain:
    """Where members without devices may be, if that is more than the domain of the others (``deviceless_depth``).

    Attributes:
        depth: depth of the innermost level that holds for them.
        inside: indexes of the nodes, in order.
    """

    depth: int
    inside: Sequence[int]


def deviceless_depth(levels: Sequence[Level]) -> int:
    """Number of levels, from the outermost on, that hold for members without devices, too: those outside any attribute.

    A domain of an attribute is a set of devices. A member without devices need not be close to them.
    """
    return next((number for number, level in enumerate(levels) if level.kind == "attribute"), len(levels))


@dataclass(frozen=True, slots=True)
class EnforcedLevels:
    """The levels that have to hold in one attempt.

    Attributes:
        of_gang: depths of the levels that keep the whole gang in one domain, outermost first.
        of_groups: levels that keep each group in one domain, outermost first.
    """

    of_gang: tuple[int, ...]
    of_groups: tuple[GroupLevel, ...]

    @classmethod
    def from_levels(cls, levels: Sequence[GroupLevel]) -> "EnforcedLevels":
        """Divide levels into those of the gang and those of groups."""
        of_gang = tuple([level.depth for level in levels if level.is_of_gang])
        return cls(of_gang, tuple([level for level in levels if not level.is_of_gang]))

    @property
    def depth(self) -> int:
        """Depth of the innermost level that keeps the whole gang in one domain."""
        return max(self.of_gang, default=0)

    def down_to(self, depth: int) -> "EnforcedLevels":
        """The same without the levels below ``depth``."""
        of_groups = tuple([level for level in self.of_groups if level.depth <= depth])
        return EnforcedLevels(tuple([level for level in self.of_gang if level <= depth]), of_groups)

    @property
    def deepest(self) -> int:
        """Depth of the innermost level that has to hold."""
        return max([self.depth, *(level.depth for level in self.of_groups)])


def levels_to_try(gang: Gang) -> Iterator[EnforcedLevels]:
    """The levels of each attempt: all of them first, then without the innermost preferred one, and so on outwards."""
    kept = _group_levels(gang.levels)
    yield EnforcedLevels.from_levels(kept)
    for level, entry in reversed([*zip(gang.levels, kept, strict=True)]):
        if not level.required and not is_awaited(level, gang):
            kept.remove(entry)
            yield EnforcedLevels.from_levels(kept)


def _group_levels(levels: Sequence[Level]) -> list[GroupLevel]:
    """Groups of each level. Inside a level with groups, a level holds for each of them, even if that is given up."""
    # The groups are those of all levels, not of the enforced ones: that an outer level is given up must not make the
    # groups of an inner one larger. ``test_laws_of_groups`` says the same for itself (``exhaustive.levels_of``).
    grouped, outer, per_sub_group = list[GroupLevel](), 0, False
    for depth, level in enumerate(levels, start=1):
        if level.per_sub_group and not per_sub_group:
            # A sub-group stays together, whatever groups of ranks its members are in.
            outer, per_sub_group = 0, True
        size = min(level.group_size or outer, outer) if outer else level.group_size
        grouped.append(GroupLevel(depth, size, outer, per_sub_group, by_task=bool(level.task_groups)))
        outer = size or outer
    return grouped


def is_awaited(level: Level, gang: Gang) -> bool:
    """Whether the gang still waits for one domain of a preferred level (``Level.wait_seconds``)."""
    return not level.required and gang.elapsed < level.wait_seconds
