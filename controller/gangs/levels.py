"""Levels that have to hold: all of them at first, then fewer and fewer preferred ones, the innermost left out first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.gangs.gang import Gang, Level
from controller.gangs.topology import Path
from controller.gangs.units import Seat

GroupNumber = tuple[int, ...]
"""Number of a group: equal for all of its members; () for a member in no group."""
Anchors = dict[tuple[int, GroupNumber], Path]
"""The domain of each group, by the depth of the level and the number of the group."""


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """A level that keeps each group of ``size`` members in one domain; the whole gang if ``size`` is 0.

    Attributes:
        depth: number of levels from the outermost to this one.
        outer: size of the groups around, which its groups never cross; 0 if there are none.
        per_sub_group: whether its groups are sub-groups, or parts of these.
    """

    depth: int
    size: int
    outer: int = 0
    per_sub_group: bool = False

    @property
    def is_of_all(self) -> bool:
        """Whether the whole gang stays in one domain."""
        return not (self.size or self.per_sub_group)

    @property
    def is_of_sub_groups(self) -> bool:
        """Whether each sub-group stays in one domain."""
        return self.per_sub_group and not self.size

    def number(self, seat: Seat) -> GroupNumber:
        """The number of a member's group."""
        if self.per_sub_group and seat.sub_group is None:
            return ()
        base = () if seat.sub_group is None or not self.per_sub_group else (seat.sub_group,)
        position = seat.within if self.per_sub_group else seat.position
        if self.outer:
            around, inner = divmod(position, self.outer)
            return (*base, around, inner // self.size)
        return (*base, position // self.size) if self.size else base


@dataclass(frozen=True, slots=True)
class Reach:
    """The places for members without devices, if these may be outside the domain of the others.

    Attributes:
        depth: depth of the innermost level that holds for them (``levels_of_all``).
        places: indexes of places, in order.
    """

    depth: int
    places: Sequence[int]


def levels_of_all(levels: Sequence[Level]) -> int:
    """Number of levels, from the outermost on, that hold for members without devices, too: those outside any attribute.

    A domain of an attribute is a set of devices. A member without devices need not be close to them.
    """
    return next((number for number, level in enumerate(levels) if level.kind == "attribute"), len(levels))


@dataclass(frozen=True, slots=True)
class Tier:
    """The levels that have to hold in one attempt.

    Attributes:
        of_all: depths of the levels that keep the whole gang in one domain, outermost first.
        groups: levels that keep each group in one domain, outermost first.
    """

    of_all: tuple[int, ...]
    groups: tuple[GroupLevel, ...]

    @classmethod
    def of(cls, levels: Sequence[GroupLevel]) -> "Tier":
        """The tier of these levels."""
        of_all = tuple([level.depth for level in levels if level.is_of_all])
        return cls(of_all, tuple([level for level in levels if not level.is_of_all]))

    @property
    def depth(self) -> int:
        """Depth of the innermost level that keeps the whole gang in one domain."""
        return max(self.of_all, default=0)

    def down_to(self, depth: int) -> "Tier":
        """The same without the levels below ``depth``."""
        groups = tuple([level for level in self.groups if level.depth <= depth])
        return Tier(tuple([level for level in self.of_all if level <= depth]), groups)

    @property
    def deepest(self) -> int:
        """Depth of the innermost level that has to hold."""
        return max([self.depth, *(group.depth for group in self.groups)])


def tiers_of(gang: Gang) -> Iterator[Tier]:
    """The tiers to try: with every level first, then without the innermost preferred one, and so on outwards."""
    kept = _grouped(gang.levels)
    yield Tier.of(kept)
    for level, entry in reversed([*zip(gang.levels, kept, strict=True)]):
        if not level.required and not is_awaited(level, gang):
            kept.remove(entry)
            yield Tier.of(kept)


def _grouped(levels: Sequence[Level]) -> list[GroupLevel]:
    """Groups of each level. Inside a level with groups, a level holds for each of them, even if that is given up."""
    found, outer, per_sub_group = list[GroupLevel](), 0, False
    for depth, level in enumerate(levels, start=1):
        if level.per_sub_group and not per_sub_group:
            # A sub-group stays together, whatever groups of ranks its members are in.
            outer, per_sub_group = 0, True
        size = min(level.group_size or outer, outer) if outer else level.group_size
        found.append(GroupLevel(depth, size, outer, per_sub_group))
        outer = size or outer
    return found


def is_awaited(level: Level, gang: Gang) -> bool:
    """Whether the gang still waits for one domain of a preferred level (``Level.wait_seconds``)."""
    return not level.required and gang.elapsed < level.wait_seconds
