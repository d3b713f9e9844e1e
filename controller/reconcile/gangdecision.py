"""The decisions about all members of a gang, as a value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from controller.gangs import Gang, GangPlan, GangRefusal
from controller.reconcile.decisions import Decision, MakeRoom, Unallocatable


@dataclass(frozen=True, slots=True)
class GangDecision:
    """The decisions about all members of a gang.

    Attributes:
        members: by key, in the order in which it is carried out.
        lacking: members that wait for room, one for each shape.
        after: seconds after which the gang is decided again although nothing has changed; None if only a change helps.
        decided: False if the search for a domain ended before everything was tried, so a longer one may find one.
    """

    members: Mapping[str, Decision]
    lacking: tuple[Unallocatable, ...] = ()
    after: float | None = None
    decided: bool = True
    plan: GangPlan | None = None
    """The places of members that had none yet, and of members that do not exist yet."""
    asked: Gang | None = None
    """The gang as a place was looked for; None if none was."""
    refusal: GangRefusal | None = None
    """The reason why no domain takes the gang."""
    started: bool = False
    """True if as many members have or get their place as have to start."""

    @property
    def makes_room(self) -> bool:
        """Whether others are evicted for members, or have been told to end."""
        return any(isinstance(one, MakeRoom) for one in self.members.values())
