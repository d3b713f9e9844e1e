"""Who holds devices, who would have to go for whom, and why nobody can, as values. Pure."""

from dataclasses import dataclass

from controller.allocation import ClaimFault
from controller.gangs import SubGroup, SubGroups, TaskMinimums
from controller.placement import Placement
from driver.model import Claim


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that counts on a node (``controller.placement.Nodes``), with the devices that it holds.

    Attributes:
        pod: ``namespace/name``.
        created: seconds since any fixed time; the larger, the younger.
        claims: all of its claims that hold devices, as the fleet counts them. A claim that several pods use is in each
            of them.
        gang: key of its gang in ``Occupancy.gangs``; "" for none.
        budgets: keys of the PodDisruptionBudgets that select it, if they count for its eviction.
        kept: why it is never a victim, as a clause about pods ("hold devices of other drivers"); "" if it may be one.
        going: whether it is being deleted, so that what it holds counts as free.
    """

    pod: str
    uid: str
    node: str
    priority: int
    created: float
    claims: tuple[Claim, ...] = ()
    gang: str = ""
    budgets: tuple[str, ...] = ()
    kept: str = ""
    going: bool = False


@dataclass(frozen=True, slots=True)
class GangMember:
    """A member of a gang that has a place.

    Attributes:
        task: the part of the gang that it belongs to; "" for none.
        sub_group: its sub-group; None for none.
    """

    uid: str
    task: str = ""
    sub_group: SubGroup | None = None


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang with members that have a place, and how many of them it needs.

    Attributes:
        key: ``namespace/name``.
        members: all members with a place. Each has to be a holder; without one, the gang cannot go as a whole.
        minimum: number of members with a place that it needs; those that have succeeded are not counted in.
        task_minimums: the same for single tasks.
        sub_groups: kinds of sub-groups, by ``SubGroup``.
        succeeded: sub-groups with the number of their members that have succeeded; these count.
    """

    key: str
    members: tuple[GangMember, ...]
    minimum: int = 1
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroups, ...] = ()
    succeeded: tuple[tuple[SubGroup, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that has to go, or is going.

    Attributes:
        claims: keys of its claims that are free when it and the others are gone.
        gang: key of its gang; "" for none.
    """

    pod: str
    uid: str
    node: str
    priority: int
    claims: tuple[str, ...] = ()
    gang: str = ""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A way to place the pods.

    Attributes:
        placements: node and devices of each pod once the others are gone, in the order of the pods. Members of a gang
            beyond its minimum may have none.
        victims: the pods to evict, in this order; none if there is room without. Those come first whose end makes no
            room, and who go only because others do; so the room is not there before all are asked to go. Otherwise, the
            lowest priority comes first, then the youngest.
        awaited: pods that are being deleted already, on whose nodes or claims the placements rely.
        least: whether no other set of victims is better. If not, the search ended early; then still none of the victims
            could be spared in these places.
    """

    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...] = ()
    awaited: tuple[Victim, ...] = ()
    least: bool = True


@dataclass(frozen=True, slots=True)
class KeptPods:
    """Pods that are not evicted, for one reason.

    Attributes:
        reason: a clause about pods, such as "do not have a lower priority".
        pods: how many they are.
        some: keys of the first ones.
    """

    reason: str
    pods: int
    some: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """No eviction that is allowed makes room.

    Attributes:
        kept: the pods that are not evicted, by reason, the most frequent reason first.
        in_vain: number of pods that could be evicted, but whose end makes no room.
        never: why the pod or gang preempts nobody, whoever there is; "" if it may.
        faults: faults of the claims, with which no node can ever fit.
        decided: False if the search ended early, so that there may be a way.
    """

    kept: tuple[KeptPods, ...] = ()
    in_vain: int = 0
    never: str = ""
    faults: tuple[ClaimFault, ...] = ()
    decided: bool = True
