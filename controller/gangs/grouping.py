"""Groups of members that have to be in one domain of a level. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.gangs.gang import Level
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
