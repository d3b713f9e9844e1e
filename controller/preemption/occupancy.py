"""Everybody who has a place, by pod, node and claim, and what was found out about the pods of each node. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.allocation import DevicePosition, NodeSlot
from controller.gangs import Quorum, SubGroup, SubGroups, TaskMinimums
from driver.model import Claim

Kind = tuple[tuple[float, ...], tuple[tuple[DevicePosition, ...], ...], bool]
"""What makes pods of two nodes alike as victims: the price but for the age, the places of the devices of each claim
among those of the node, and whether the pod counts on the node."""


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
        quorum: what of a gang of groups needs a place; None for other gangs.
    """

    key: str
    members: tuple[GangMember, ...]
    minimum: int = 1
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroups, ...] = ()
    succeeded: tuple[tuple[SubGroup, int], ...] = ()
    quorum: Quorum | None = None


@dataclass(frozen=True, slots=True)
class Residents:
    """The pods of a node that are not being deleted, whoever asks.

    Attributes:
        slot, made, shared: the devices of the node, as of when this was found out.
        pods: kind and UID of each pod, in the order of kinds.
        kinds: the same without the UIDs.
        cheapest: the price of the cheapest pod; none if there is no pod.
        ages: the rest of each price, the youngest pod first.
        highest: the highest priority.
        are_kept: whether one may not go whoever asks.
        is_bound: whether the end of one can make others go, or keep others from going.
    """

    slot: NodeSlot | None
    made: int
    shared: int
    pods: tuple[tuple[Kind, str], ...]
    kinds: tuple[Kind, ...]
    cheapest: tuple[float, ...]
    ages: tuple[tuple[float, ...], ...]
    highest: float
    are_kept: bool
    is_bound: bool


class Occupancy:
    """Everybody who has a place. Its owner keeps it up to date.

    Args:
        holders: the pods with devices of ours, and others whose end may make room, such as members of their gangs.

    Attributes:
        gangs: the gangs of holders, by key.
        budgets: the number of disruptions that each PodDisruptionBudget allows now. One that is not here allows none.
        drivers: the drivers whose devices we allocate.
        by_uid: the holders by UID.
        going: those that are being deleted, by UID.
        residents: what was found out about nodes. What ``add`` and ``remove`` may change is forgotten.
    """

    def __init__(
        self,
        holders: Iterable[Holder] = (),
        gangs: Mapping[str, RunningGang] | None = None,
        budgets: Mapping[str, int] | None = None,
        drivers: Collection[str] = ("lode.dev",),
    ):
        self.gangs: Mapping[str, RunningGang] = {} if gangs is None else gangs
        self.budgets: Mapping[str, int] = budgets or {}
        self.drivers = drivers
        self.by_uid: dict[str, Holder] = {}
        self.going: dict[str, Holder] = {}
        self.residents: dict[str, Residents] = {}
        self._on: dict[str, dict[str, Holder]] = {}
        self._users: dict[str, dict[str, None]] = {}
        for holder in holders:
            self.add(holder)

    @property
    def holders(self) -> Collection[Holder]:
        """All of them."""
        return self.by_uid.values()

    @property
    def nodes(self) -> Collection[str]:
        """The nodes with holders."""
        return self._on.keys()

    def on(self, node: str) -> Collection[Holder]:
        """Those on a node."""
        return self._on[node].values() if node in self._on else ()

    def users(self, claim: str) -> Collection[str]:
        """The holders (UIDs) of a claim (UID)."""
        return self._users.get(claim, ())

    def is_bound(self, holder: Holder) -> bool:
        """Whether its end can make others go, or keep others from going."""
        if holder.budgets or holder.gang:
            return True
        return any([len(self._users[claim.uid]) > 1 for claim in holder.claims])

    def add(self, holder: Holder) -> None:
        """Add a holder, or replace the one of its UID."""
        # Most events about a pod change nothing that matters here, and what is known of its node stays known.
        if self.by_uid.get(holder.uid) == holder:
            return
        self.remove(holder.uid)
        self.by_uid[holder.uid] = holder
        self._on.setdefault(holder.node, {})[holder.uid] = holder
        if holder.going:
            self.going[holder.uid] = holder
        for claim in holder.claims:
            self._users.setdefault(claim.uid, {})[holder.uid] = None
        self._forget(holder)

    def remove(self, uid: str) -> None:
        """Remove the holder of this UID, if there is one."""
        holder = self.by_uid.pop(uid, None)
        if holder is None:
            return
        self._forget(holder)
        self.going.pop(uid, None)
        on = self._on[holder.node]
        del on[uid]
        if not on:
            del self._on[holder.node]
        for claim in holder.claims:
            users = self._users[claim.uid]
            users.pop(uid, None)
            if not users:
                del self._users[claim.uid]

    def _forget(self, holder: Holder) -> None:
        """Forget what was found out about its node, and those of the pods that share its claims."""
        self.residents.pop(holder.node, None)
        for claim in holder.claims:
            for user in self._users.get(claim.uid, ()):
                if (other := self.by_uid.get(user)) is not None:
                    self.residents.pop(other.node, None)
