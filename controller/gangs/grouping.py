"""Which members of a gang have to be in one domain of a level. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.gangs.gang import Level
from controller.gangs.topology import Path
from controller.gangs.units import Seat

GroupNumber = tuple[int, ...]
"""Equal for members of a group; () for a member in none."""
Anchors = dict[tuple[int, GroupNumber], Path]
"""The domain that a group of members is in: depth of the level and number of the group to the path."""


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """A level of which each group of ``size`` members stays in one domain; the whole gang if that is 0.

    Attributes:
        depth: counts the levels down to it.
        outer: the size of the groups around it, which its groups never cross; 0 if there are none.
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
        """The group of a member."""
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
    """Where members without devices may be, other than those with devices.

    Attributes:
        depth: levels down to the innermost that holds for them (``levels_of_all``).
        places: in order.
    """

    depth: int
    places: Sequence[int]


def levels_of_all(levels: Sequence[Level]) -> int:
    """How many levels, from the outermost on, hold for members without devices, too: those outside any attribute.

    A domain of an attribute is a set of devices, which a member without devices has no need to be close to.
    """
    return next((number for number, level in enumerate(levels) if level.kind == "attribute"), len(levels))
