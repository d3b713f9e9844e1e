"""Everybody who has a place, by pod, node and claim: those that hold devices of ours, and their gangs. Pure.

``occupancy_of`` finds them in the state at once. ``Occupants`` keeps the same up to date as the state changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation import DevicePosition, NodeSlot
from controller.gangs import SubGroup, SubGroups, TaskMinimums
from controller.membership import GangTerms, Quorum
from controller.reconcile.gangmembers import known_gang
from controller.reconcile.lettinggo import is_bound_by_nobody
from controller.state import PodView, State, epoch_seconds
from controller.state.changes import Touched
from driver.model import Claim

Kind = tuple[tuple[float, ...], tuple[tuple[DevicePosition, ...], ...], bool]
"""What makes pods of two nodes alike as victims: the price but for the age, the places of the devices of each claim
among those of the node, and whether the pod counts on the node."""
_OVERDUE_SECONDS: Final = 60.0
"""Time after the end of its grace period from which a pod that still exists is not counted on any more, and after which
one that nobody binds should have given its devices back."""
_OVERDUE: Final = "outlast their grace period"
_RANK_SECONDS: Final = 1e-6
_MOST_RANKS: Final = 500_000
UNBOUND: Final = "have not started yet"
"""Why a pod is no victim that kube-scheduler may be binding."""


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


@dataclass(frozen=True, slots=True)
class VictimLimits:
    """What keeps pods from being victims, besides what the API says of them.

    Attributes:
        longest_grace: seconds. A pod that takes longer to end is no victim, and if it is being deleted, nobody waits
            for it: it holds its devices as if it ran on.
        spared: pods (UIDs) that are no victims now, each with the reason, as a clause about pods.
    """

    longest_grace: float = 600
    spared: Mapping[str, str] = field(default_factory=dict)


_NO_LIMITS: Final = VictimLimits()
"""The default of the setting, and nobody spared."""


class Occupants:
    """The occupancy of a state, always as ``occupancy_of`` finds it.

    Args:
        state: nothing is known to it yet.
        follow: whether anybody is going to ask. Then PodDisruptionBudgets are watched, too.
    """

    def __init__(self, state: State, *, follow: bool):
        self.state = state
        self._touched = state.follow_budgets() if follow else Touched()
        self._gangs: dict[str, RunningGang] = {}
        self._occupancy = Occupancy(gangs=self._gangs, drivers=state.names.allocated_drivers)
        self._uids: dict[str, str] = {}
        """The UIDs of the pods that are holders, by key."""
        self._members: dict[str, dict[str, None]] = {}
        """Keys of the holders of each gang."""
        self._restless: dict[str, None] = {}
        """Keys of the holders that may count otherwise as time goes by: being deleted, not bound yet, or spared."""
        self._left: dict[str, dict[str, str]] = {}
        """By key of a pod that is gone: the claims that it holds, each with the UID of the pod."""
        self._left_of: dict[str, Collection[tuple[str, str]]] = {}
        """The same by claim."""
        self._selections = -1
        """``Budgets.selections`` as of the last look."""

    def at(self, now: float, limits: VictimLimits) -> Occupancy:
        """Return who has a place at ``now`` (as of ``State.at``); valid until the state changes."""
        state, occupancy, touched = self.state, self._occupancy, self._touched.take()
        if self._selections != state.budgets.selections:
            self._selections = state.budgets.selections
            touched.pods.update(dict.fromkeys(state.pods))
        spared = [occupancy.by_uid[uid].pod for uid in limits.spared if uid in occupancy.by_uid]
        # No event tells when a grace period has passed, a pod should have been bound, or one is spared no longer: these
        # pods are looked at each time (test_who_has_a_place_is_known_after_any_events).
        pods = dict.fromkeys((*touched.pods, *self._restless, *spared, *self._of_gangs(touched)))
        holding = [pod for key in pods if (pod := self._holding(key)) is not None]
        for key in pods:
            self._forget(key, state.pods.get(key))
        for key in dict.fromkeys((*touched.claims, *self._claims_of(touched.pods))):
            self._look_at_claim(key)
        for pod in holding:
            holder = _holder_of(state, pod, now, limits)
            occupancy.add(holder)
            self._uids[pod.key] = pod.uid
            if holder.gang:
                self._members.setdefault(holder.gang, {})[pod.key] = None
            if pod.deleting or not pod.node_name or pod.uid in limits.spared:
                self._restless[pod.key] = None
        occupancy.budgets = state.budgets.allowed
        return occupancy

    def _holding(self, key: str) -> PodView | None:
        """The pod, if it is a holder."""
        pod = self.state.pods.get(key)
        if pod is None or not self.state.nodes.node_of(key):
            return None
        return pod if _has_devices(self.state, pod) or self.state.gangs.gang_of(key) in self._gangs else None

    def _of_gangs(self, touched: Touched) -> Iterable[str]:
        """Look at the gangs that are touched; return the pods that are in them, or were."""
        state, occupancy = self.state, self._occupancy
        before = [occupancy.by_uid[self._uids[key]].gang for key in touched.pods if key in self._uids]
        found: dict[str, None] = {}
        for gang in dict.fromkeys((*touched.gangs, *before, *map(state.gangs.gang_of, touched.pods))):
            members = state.gangs.members(gang) if gang else ()
            if any(_has_devices(state, state.pods[key]) for key in members):
                self._gangs[gang] = _running_gang(state, gang)
            else:
                self._gangs.pop(gang, None)
            found.update(dict.fromkeys((*members, *self._members.get(gang, ()))))
        return found

    def _claims_of(self, pods: Iterable[str]) -> Iterable[str]:
        """The claims that these pods hold, or held when they were gone."""
        for key in pods:
            pod = self.state.pods.get(key)
            yield from pod.claim_keys if pod else ()
            yield from self._left.get(key, ())

    def _forget(self, key: str, pod: PodView | None) -> None:
        """Forget what is known of a pod that may be no holder any more."""
        uid = self._uids.pop(key, "")
        self._restless.pop(key, None)
        known = self._occupancy.by_uid.get(uid)
        if known is None:
            return
        if known.gang:
            members = self._members[known.gang]
            members.pop(key, None)
            if not members:
                del self._members[known.gang]
        if pod is None or pod.uid != uid or self._holding(key) is None:
            self._occupancy.remove(uid)

    def _look_at_claim(self, key: str) -> None:
        """Find the pods that are gone, but still hold the claim."""
        before, record = self._left_of.pop(key, ()), self.state.claims.get(key)
        now = () if record is None else tuple(_users_left_behind(self.state, record.claim))
        for pod, _ in before:
            self._left[pod].pop(key, None)
            if not self._left[pod]:
                del self._left[pod]
        for pod, uid in now:
            self._left.setdefault(pod, {})[key] = uid
        if now:
            self._left_of[key] = now
        # A pod of the same name may have come since: both are looked at by their UIDs.
        for pod, uid in {*before, *now}:
            claims = [self.state.claims[one].claim for one, its in self._left.get(pod, {}).items() if its == uid]
            if claims:
                self._occupancy.add(_holder_left_behind(pod, uid, claims))
            elif pod not in self._uids or self._uids[pod] != uid:
                self._occupancy.remove(uid)


def occupancy_of(state: State, now: float, limits: VictimLimits = _NO_LIMITS) -> Occupancy:
    """Return who has a place at ``now`` (as of ``State.at``): the pods with devices of ours, and their gangs."""
    known = {pod.key: pod for pod in state.pods.values() if _has_devices(state, pod)}
    gangs = dict.fromkeys(gang for key in known if (gang := state.gangs.gang_of(key)))
    for gang in gangs:
        known.update((key, state.pods[key]) for key in state.gangs.members(gang) if state.nodes.node_of(key))
    left: dict[tuple[str, str], list[Claim]] = {}
    for record in state.claims.values():
        for user in _users_left_behind(state, record.claim):
            left.setdefault(user, []).append(record.claim)
    behind = (_holder_left_behind(*user, claims) for user, claims in left.items())
    holders = (*(_holder_of(state, pod, now, limits) for pod in known.values()), *behind)
    running = {gang: _running_gang(state, gang) for gang in gangs}
    return Occupancy(holders, running, state.budgets.allowed, state.names.allocated_drivers)


def _is_overdue(state: State, pod: PodView, now: float) -> bool:
    """Return whether the pod still exists although its grace period has long been over at ``now`` (``State.at``)."""
    return pod.deleting and now >= overdue_at(state, pod)


def overdue_at(state: State, pod: PodView) -> float:
    """Return the time (as of ``State.at``) from which a pod that is being deleted is not counted on any more."""
    return state.at(pod.asked_to_end) + pod.grace_seconds + _OVERDUE_SECONDS


def _is_late(state: State, pod: PodView, now: float, longest: float) -> bool:
    """Return whether it takes too long until the pod has ended, if it is told to now or was told before.

    A victim has at most the longest grace. The API server's clock may be ahead of ours, so it gets some time more.
    """
    return (
        overdue_at(state, pod) - now > longest + 2 * _OVERDUE_SECONDS if pod.deleting else pod.grace_seconds > longest
    )


def _has_devices(state: State, pod: PodView) -> bool:
    """Return whether the pod has a place with devices of ours."""
    return bool(pod.references and state.nodes.node_of(pod.key)) and any(_ours(state, pod.claim_keys))


def _users_left_behind(state: State, claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield key and UID of the pods that are gone, but for which the claim still holds devices of ours.

    The resource-claim-controller takes them back once it has seen it.
    """
    if claim.allocation is None or not state.holds_ours(claim):
        return
    for user in claim.reserved_for:
        key = f"{claim.namespace}/{user.name}"
        if user.resource == "pods" and ((pod := state.pods.get(key)) is None or pod.uid != user.uid):
            yield key, user.uid


def _holder_left_behind(pod: str, uid: str, claims: Sequence[Claim]) -> Holder:
    """Return a pod (key) that is gone as a holder of these claims, of which there is one."""
    node = next(claim.allocation.node_name for claim in claims if claim.allocation is not None)
    return Holder(pod=pod, uid=uid, node=node, priority=0, created=0, claims=tuple(claims), going=True)


def _ours(state: State, claims: Iterable[str]) -> Iterator[str]:
    records = (state.claims.get(key) for key in claims)
    return (record.claim.key for record in records if record is not None and state.holds_ours(record.claim))


def _holder_of(state: State, pod: PodView, now: float, limits: VictimLimits) -> Holder:
    """Return a pod with a place as a holder at ``now``."""
    records = (state.claims.get(key) for key in pod.claim_keys)
    overdue, late = _is_overdue(state, pod, now), _is_late(state, pod, now, limits.longest_grace)
    kept = limits.spared.get(pod.uid, "")
    if pod.is_static:
        kept = "are static pods, which no eviction ends"
    elif overdue:
        kept = _OVERDUE
    elif late:
        kept = f"take longer than {limits.longest_grace:g} seconds to end"
    elif not pod.node_name and not pod.deleting and not is_bound_by_nobody(state, pod, now - _OVERDUE_SECONDS):
        # What nobody binds gives its devices back by itself: nobody has to be evicted for them.
        kept = UNBOUND
    return Holder(
        pod=pod.key,
        uid=pod.uid,
        node=state.nodes.node_of(pod.key),
        priority=pod.priority,
        created=epoch_seconds(pod.created) + _younger(state, pod.key),
        claims=tuple([one.claim for one in records if one is not None and one.claim.allocation is not None]),
        gang=state.gangs.gang_of(pod.key),
        budgets=budgets_of(state, pod),
        kept=kept,
        going=pod.deleting and not overdue and not late,
    )


def _younger(state: State, pod: str) -> float:
    """Return by how much less than a second a member of a gang counts as younger: of one age, the last rank goes first,
    and the leader last."""
    if not state.gangs.gang_of(pod) or state.gangs.leads(pod):
        return 0
    return min(state.gangs.rank(pod) + 1, _MOST_RANKS) * _RANK_SECONDS


def budgets_of(state: State, pod: PodView) -> tuple[str, ...]:
    """Return the budgets that count for the eviction of the pod, as the Eviction API reads them.

    They do not count for a pod that has not started. One for which ``unhealthyPodEvictionPolicy`` lets it go counts
    only beside others: several refuse every eviction.
    """
    if pod.starting:
        return ()
    found = state.budgets.selecting(pod.namespace, dict(pod.needs.pod.labels))
    return () if len(found) == 1 and not pod.ready and state.budgets.lets_unhealthy_go(found[0]) else found


def _running_gang(state: State, key: str) -> RunningGang:
    """Return the gang ``key`` as far as its members have a place."""
    gang = known_gang(state, key)
    placed = [one for one in gang.members if state.nodes.node_of(one.pod)]
    members = tuple([GangMember(state.pods[one.pod].uid, one.task, one.sub_group) for one in placed])
    if not isinstance(gang.terms, GangTerms):
        # Nobody can say how many it needs.
        return RunningGang(key, members, len(members))
    return RunningGang(
        key,
        members,
        minimum=gang.terms.minimum - gang.ended,
        task_minimums=tuple(
            (task, least - gang.ended_of_tasks.get(task, 0)) for task, least in gang.terms.task_minimums
        ),
        sub_groups=tuple(SubGroups(one.size, one.minimum) for one in gang.terms.sub_groups),
        succeeded=tuple(sorted(gang.ended_of_sub_groups.items())),
        quorum=gang.terms.quorum.without(gang.ended_of_tasks) if gang.terms.quorum else None,
    )
