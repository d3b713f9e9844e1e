"""On what a gang starts, and what each of its members says about that. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.gangs.gang import Level, SubGroup, TaskMinimums
from controller.placement import LabelSelector
from driver.errors import Fault
from driver.parameters import PlacementPolicy


class Source(StrEnum):
    """What says that a pod belongs to a gang, in the order in which it counts: the first that is found."""

    CLAIM = "gang.name in the PlacementConfig of a claim"
    POD_GROUP = "PodGroup of scheduling.k8s.io"
    VOLCANO = "PodGroup of scheduling.volcano.sh"
    COSCHEDULING = "PodGroup of scheduling.x-k8s.io"
    KUEUE = "pod group of Kueue"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Members that form sub-groups, each of which starts whole or not at all.

    Attributes:
        keys: of labels: members with the same values of all of them are one sub-group, and those that lack one are in
            none.
        size: with how many members a sub-group is whole.
        minimum: how many whole ones have to start together.
        selector: which members this is about; None for all.
    """

    keys: tuple[str, ...]
    size: int
    minimum: int = 0
    selector: LabelSelector | None = None

    @property
    def members(self) -> int:
        """How many members have to start together because of it."""
        return self.size * self.minimum

    def name_of(self, labels: Mapping[str, str]) -> str | None:
        """The sub-group of a member with these labels; None if it is in none."""
        values = [labels.get(key, "") for key in self.keys]
        selected = self.selector is None or self.selector.selects(labels)
        return "/".join(values) if selected and all(values) else None


def sub_group_of(policies: Sequence[SubGroupPolicy], labels: Mapping[str, str]) -> SubGroup | None:
    """The sub-group of a member with these labels: the first policy that has one for it counts."""
    found = ((number, policy.name_of(labels)) for number, policy in enumerate(policies))
    return next(((number, name) for number, name in found if name is not None), None)


@dataclass(frozen=True, slots=True)
class GangTerms:
    """On what a gang starts, as all of its members say.

    Attributes:
        key: ``namespace/name``.
        uid: of the group or owner; the key if the gang has no object.
        source: what says which pods are members.
        minimum: how many members have to start together; those that have succeeded count.
        size: how many members there will be; None if nothing says it. Then the gang is complete at its minimum.
        levels: outermost first.
        moves: whether later members go to another domain when that of the gang is gone; if not, they wait.
        task_minimums: how many members of some tasks have to start together; those that have succeeded count.
        sub_groups: which members form sub-groups.
        awaited: what has to exist before it is known how many members there will be; "" if nothing.
    """

    key: str
    uid: str
    source: Source
    minimum: int
    size: int | None = None
    levels: tuple[Level, ...] = ()
    policy: PlacementPolicy = "binpack"
    moves: bool = False
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    awaited: str = ""


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """What a member says about its gang. None is left to the others.

    Attributes:
        origin: what names the gang, for people.
        problems: why the gang cannot start as long as the member says so.
        needs_minimum: why all members cannot start together, so that a member has to say a minimum.
        awaited: what has to exist before the size is known, if no member says a minimum.
    """

    source: Source
    uid: str = ""
    origin: str = ""
    minimum: int | None = None
    size: int | None = None
    task_minimums: TaskMinimums | None = None
    sub_groups: tuple[SubGroupPolicy, ...] | None = None
    levels: tuple[Level, ...] | None = None
    policy: PlacementPolicy | None = None
    moves: bool | None = None
    problems: tuple[Fault, ...] = ()
    needs_minimum: tuple[Fault, ...] = ()
    awaited: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """To which gang a pod belongs.

    Attributes:
        gang: ``namespace/name``; "" if it belongs to none, because of the problems of its terms.
        rank: its place in the order of the members; 0 if only its name says one.
        leader: whether it is the leader, which stands beside rank 0.
        run: equal for pods that replace each other; "" if nothing replaces the pod.
        task: the part of the gang that it belongs to; "" for none.
    """

    gang: str
    terms: MemberTerms
    rank: int = 0
    leader: bool = False
    run: str = ""
    task: str = ""
