"""How much of a gang of groups has to be there before it starts. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from driver.limits import first_of

_MOST_NAMED: Final = 3
"""Most groups that a message names as incomplete."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Says how much of a group has to be there: members of it, or groups inside it that are complete themselves.

    All methods recurse: who makes one has to bound the depth.

    Attributes:
        name: as messages name the group.
        minimum: number of members, or of complete groups.
        task: the task of its members; "" for a group of groups.
        groups: the groups inside.
    """

    name: str
    minimum: int
    task: str = ""
    groups: tuple["Quorum", ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # The terms of each member have one, and are looked up by hash: that must not take longer with each group.
        object.__setattr__(self, "_hash", hash((self.name, self.minimum, self.task, self.groups)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def fewest(self) -> int:
        """Fewest members with which it is met."""
        if self.task:
            return self.minimum
        fewest = sorted(group.fewest for group in self.groups)
        # Groups that do not exist yet will have a member at least.
        return sum(fewest[: self.minimum]) + max(0, self.minimum - len(fewest))

    @property
    def tasks(self) -> Iterator[str]:
        """The tasks of all members that count."""
        if self.task:
            yield self.task
        for group in self.groups:
            yield from group.tasks

    def is_met(self, there: Mapping[str, int]) -> bool:
        """Whether so many members of each task are enough."""
        if self.task:
            return there.get(self.task, 0) >= self.minimum
        return sum(group.is_met(there) for group in self.groups) >= self.minimum

    def lacking(self, there: Mapping[str, int]) -> str:
        """What is missing if there are so many members of each task, as text; "" if nothing is."""
        if self.is_met(there):
            return ""
        if self.task:
            return f"{there.get(self.task, 0)} of {self.minimum} members of {self.name}"
        incomplete = [text for group in self.groups if (text := group.lacking(there))]
        inside = f" ({first_of(incomplete, _MOST_NAMED)})" if incomplete else ""
        return f"{len(self.groups) - len(incomplete)} of {self.minimum} groups of {self.name} complete{inside}"

    def without(self, members: Mapping[str, int]) -> "Quorum":
        """The same if so many members of each task need not be there any more."""
        if self.task:
            return replace(self, minimum=max(0, self.minimum - members.get(self.task, 0)))
        return replace(self, groups=tuple([group.without(members) for group in self.groups]))
