"""Which levels have to hold: all of them at first, and then without preferred ones, the innermost first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.gangs.gang import Gang, Level
from controller.gangs.packing import GroupLevel


@dataclass(frozen=True, slots=True)
class Tier:
    """The levels that have to hold in one attempt.

    Attributes:
        depth: levels down to the innermost of which the whole gang stays in one domain.
        groups: the levels of which each group stays in one domain, outermost first.
    """

    depth: int
    groups: tuple[GroupLevel, ...]

    @classmethod
    def of(cls, levels: Sequence[tuple[int, Level]]) -> "Tier":
        """The tier of these levels, each with its depth."""
        depth, groups, outer = 0, list[GroupLevel](), 0
        for at, level in levels:
            # Inside a level of groups, a level holds for each of these groups.
            size = min(level.group_size or outer, outer) if outer else level.group_size
            if size:
                groups.append(GroupLevel(at, size, outer))
                outer = size
            else:
                depth = at
        return cls(depth, tuple(groups))

    @property
    def deepest(self) -> int:
        """Levels down to the innermost that has to hold."""
        return max([self.depth, *(group.depth for group in self.groups)])


def tiers_of(gang: Gang) -> Iterator[Tier]:
    """What has to hold: every level first, then without the innermost preferred one, and so on outwards."""
    kept = list(enumerate(gang.levels, start=1))
    yield Tier.of(kept)
    for entry in reversed(tuple(kept)):
        if not entry[1].required and not is_awaited(entry[1], gang):
            kept.remove(entry)
            yield Tier.of(kept)


def is_awaited(level: Level, gang: Gang) -> bool:
    """Whether the gang still waits for one domain of a preferred level (``Level.wait_seconds``)."""
    return not level.required and gang.elapsed < level.wait_seconds
