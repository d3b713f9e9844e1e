"""Everybody who has a place, as the choice of victims takes it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.gangs import GangTerms, SubGroups
from controller.preemption import GangMember, Holder, Occupancy, RunningGang
from controller.reconcile.gangprogress import known_gang
from controller.reconcile.unbound import is_bound_by_nobody
from controller.state import PodView, State, epoch_seconds
from driver.model import Claim

OVERDUE_SECONDS: Final = 60.0
"""Time after the end of its grace period from which a pod that still exists is not counted on any more, and after which
one that nobody binds should have given its devices back."""
_OVERDUE: Final = "outlast their grace period"
_RANK_SECONDS: Final = 1e-6
_MOST_RANKS: Final = 500_000
UNBOUND: Final = "have not started yet"
"""Why a pod is no victim that kube-scheduler may be binding."""


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


NO_LIMITS: Final = VictimLimits()
"""The default of the setting, and nobody spared."""


def occupancy_of(state: State, now: float, limits: VictimLimits = NO_LIMITS) -> Occupancy:
    """Return who has a place at ``now`` (as of ``State.at``): the pods with devices of ours, and their gangs."""
    known = {pod.key: pod for pod in state.pods.values() if has_devices(state, pod)}
    gangs = dict.fromkeys(gang for key in known if (gang := state.gangs.of(key)))
    for gang in gangs:
        known.update((key, state.pods[key]) for key in state.gangs.members(gang) if state.nodes.node_of(key))
    left: dict[tuple[str, str], list[Claim]] = {}
    for record in state.claims.values():
        for user in users_left_behind(state, record.claim):
            left.setdefault(user, []).append(record.claim)
    behind = (holder_left_behind(*user, claims) for user, claims in left.items())
    holders = (*(holder_of(state, pod, now, limits) for pod in known.values()), *behind)
    running = {gang: running_gang(state, gang) for gang in gangs}
    return Occupancy(holders, running, state.budgets.allowed, state.names.driver)


def is_overdue(state: State, pod: PodView, now: float) -> bool:
    """Return whether the pod still exists although its grace period has long been over at ``now`` (``State.at``)."""
    return pod.deleting and now >= overdue_at(state, pod)


def overdue_at(state: State, pod: PodView) -> float:
    """Return the time (as of ``State.at``) from which a pod that is being deleted is not counted on any more."""
    return state.at(pod.asked_to_end) + pod.grace_seconds + OVERDUE_SECONDS


def _is_late(state: State, pod: PodView, now: float, longest: float) -> bool:
    """Return whether it takes too long until the pod has ended, if it is told to now or was told before.

    A victim has at most the longest grace. The API server's clock may be ahead of ours, so it gets some time more.
    """
    return overdue_at(state, pod) - now > longest + 2 * OVERDUE_SECONDS if pod.deleting else pod.grace_seconds > longest


def has_devices(state: State, pod: PodView) -> bool:
    """Return whether the pod has a place with devices of ours."""
    return bool(pod.references and state.nodes.node_of(pod.key)) and any(_ours(state, pod.claim_keys))


def users_left_behind(state: State, claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield key and UID of the pods that are gone, but for which the claim still holds devices of ours.

    The resource-claim-controller takes them back once it has seen it.
    """
    if claim.allocation is None or not state.holds_ours(claim):
        return
    for user in claim.reserved_for:
        key = f"{claim.namespace}/{user.name}"
        if user.resource == "pods" and ((pod := state.pods.get(key)) is None or pod.uid != user.uid):
            yield key, user.uid


def holder_left_behind(pod: str, uid: str, claims: Sequence[Claim]) -> Holder:
    """Return a pod (key) that is gone as a holder of these claims, of which there is one."""
    node = next(claim.allocation.node_name for claim in claims if claim.allocation is not None)
    return Holder(pod=pod, uid=uid, node=node, priority=0, created=0, claims=tuple(claims), going=True)


def _ours(state: State, claims: Iterable[str]) -> Iterator[str]:
    records = (state.claims.get(key) for key in claims)
    return (record.claim.key for record in records if record is not None and state.holds_ours(record.claim))


def holder_of(state: State, pod: PodView, now: float, limits: VictimLimits) -> Holder:
    """Return a pod with a place as a holder at ``now``."""
    records = (state.claims.get(key) for key in pod.claim_keys)
    overdue, late = is_overdue(state, pod, now), _is_late(state, pod, now, limits.longest_grace)
    kept = limits.spared.get(pod.uid, "")
    if pod.is_static:
        kept = "are static pods, which no eviction ends"
    elif overdue:
        kept = _OVERDUE
    elif late:
        kept = f"take longer than {limits.longest_grace:g} seconds to end"
    elif not pod.node_name and not pod.deleting and not is_bound_by_nobody(state, pod, now - OVERDUE_SECONDS):
        # What nobody binds gives its devices back by itself: nobody has to be evicted for them.
        kept = UNBOUND
    return Holder(
        pod=pod.key,
        uid=pod.uid,
        node=state.nodes.node_of(pod.key),
        priority=pod.priority,
        created=epoch_seconds(pod.created) + _younger(state, pod.key),
        claims=tuple([one.claim for one in records if one is not None and one.claim.allocation is not None]),
        gang=state.gangs.of(pod.key),
        budgets=budgets_of(state, pod),
        kept=kept,
        going=pod.deleting and not overdue and not late,
    )


def _younger(state: State, pod: str) -> float:
    """Return by how much less than a second a member of a gang counts as younger: of one age, the last rank goes first,
    and the leader last."""
    if not state.gangs.of(pod) or state.gangs.leads(pod):
        return 0
    return min(state.gangs.rank(pod) + 1, _MOST_RANKS) * _RANK_SECONDS


def budgets_of(state: State, pod: PodView) -> tuple[str, ...]:
    """Return the budgets that count for the eviction of the pod, as the Eviction API reads them.

    They do not count for a pod that has not started. One for which ``unhealthyPodEvictionPolicy`` lets it go counts
    only beside others: several refuse every eviction.
    """
    if pod.starting:
        return ()
    found = state.budgets.of(pod.namespace, dict(pod.needs.pod.labels))
    return () if len(found) == 1 and not pod.ready and state.budgets.lets_unhealthy_go(found[0]) else found


def running_gang(state: State, key: str) -> RunningGang:
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
    )
