"""Terms on which a gang starts: those of the gang, and those of each member. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.gangs.gang import Level, SubGroup, TaskMinimums
from driver.errors import Fault
from driver.label_selectors import LabelSelector
from driver.parameters import PlacementPolicy


class Source(StrEnum):
    """Sources of a pod's membership in a gang, in their order: the first that is found counts."""

    CLAIM = "gang.name in the PlacementConfig of a claim"
    POD_GROUP = "PodGroup of scheduling.k8s.io"
    VOLCANO = "PodGroup of scheduling.volcano.sh"
    COSCHEDULING = "PodGroup of scheduling.x-k8s.io"
    KUEUE = "pod group of Kueue"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Forms sub-groups of members, each of which starts whole or not at all.

    Attributes:
        keys: label keys. Members with the same values of all keys are one sub-group; members without one of the keys
            are in none.
        size: number of members with which a sub-group is whole.
        minimum: number of whole sub-groups that have to start together.
        selector: selects the members that the policy applies to; None for all.
    """

    keys: tuple[str, ...]
    size: int
    minimum: int = 0
    selector: LabelSelector | None = None

    @property
    def members(self) -> int:
        """Number of members that have to start together because of the policy."""
        return self.size * self.minimum

    def name_of(self, labels: Mapping[str, str]) -> str | None:
        """The sub-group of a member with these labels; None if it is in none."""
        values = [labels.get(key, "") for key in self.keys]
        selected = self.selector is None or self.selector.selects(labels)
        return "/".join(values) if selected and all(values) else None


def sub_group_of(policies: Sequence[SubGroupPolicy], labels: Mapping[str, str]) -> SubGroup | None:
    """The sub-group of a member with these labels, by the first policy that has one; None if it is in none."""
    found = ((number, policy.name_of(labels)) for number, policy in enumerate(policies))
    return next(((number, name) for number, name in found if name is not None), None)


@dataclass(frozen=True, slots=True)
class GangTerms:
    """Terms on which a gang starts, agreed by all members.

    Attributes:
        key: ``namespace/name``.
        uid: uid of the group or owner; the key if the gang has no object.
        source: the source of membership.
        minimum: number of members that have to start together; succeeded members count.
        size: number of members of the whole gang; None if it is not known. Then the gang is complete at its minimum.
        levels: topology levels, outermost first.
        moves: whether later members go to another domain when that of the gang is gone; if not, they wait.
        task_minimums: the same as ``minimum`` for single tasks.
        sub_groups: policies that form sub-groups.
        awaited: objects that have to exist before the size is known, as text; "" for none.
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
    """Terms of one member. None leaves a term to other members.

    Attributes:
        origin: the object or field that names the gang, for messages.
        problems: faults that keep the gang from starting.
        needs_minimum: faults that keep all members from starting together, unless a member has a minimum.
        awaited: objects that have to exist before the size is known, as text; not needed if a member has a minimum.
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
    """The gang of a pod.

    Attributes:
        gang: ``namespace/name``; "" if the pod is in none because of problems of its terms.
        rank: place of the pod in the order of the members; 0 if only its name has one.
        leader: whether it is the leader, which goes beside rank 0.
        run: equal for pods that replace each other; "" if nothing replaces the pod.
        task: the task of the pod in the gang; "" for none.
    """

    gang: str
    terms: MemberTerms
    rank: int = 0
    leader: bool = False
    run: str = ""
    task: str = ""
