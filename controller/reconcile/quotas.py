"""Decides whether the quotas of a namespace allow what a pod or gang would get. Pure."""

from collections.abc import Hashable, Iterable, Mapping

from controller.placement import Placement
from controller.quotas import render
from controller.reconcile.decisions import PlacePod, Reason, Wait
from controller.state import State
from driver.model import Allocation


def quota_wait(
    state: State, namespace: str, allocations: Iterable[Allocation], group: Hashable = None, subject: str = ""
) -> Wait | None:
    """Return why the namespace may not have these allocations beside what it has; None if it may.

    A pod for which it may not waits. No node helps it, so nobody is preempted and no node is made for it: whoever plans
    that asks here with the allocations of the plan.

    Args:
        allocations: not promised yet.
        group: as ``Wait.group``.
        subject: begins the message, such as the name of a gang; "" for nothing.
    """
    beyond = state.quotas.beyond(namespace, allocations)
    if beyond is None:
        return None
    reason, why = Reason.QUOTA_INVALID if beyond.faults else Reason.QUOTA_EXCEEDED, render(beyond)
    return Wait(reason, f"{subject}: {why}" if subject else why, group=group)


def members_beyond_quota(
    state: State, gang: str, placed: Mapping[str, PlacePod], to_come: Iterable[Placement], *, together: bool
) -> Mapping[str, Wait]:
    """Return the members of a gang that the quotas of its namespace do not allow to be placed, each with the reason.

    Args:
        gang: key (namespace/name).
        placed: the decisions about members that have a place in the plan, in order.
        to_come: the places of members that do not exist yet.
        together: whether all are allowed or none; otherwise the first ones may be, and members to come do not count.
    """
    namespace, subject = gang.partition("/")[0], f"gang {gang}"
    if not state.quotas.limits(namespace):
        return {}
    wanted = {key: [allocation for _, allocation in one.allocations] for key, one in placed.items()}
    if together:
        given = [allocation for one in to_come for allocation in one.allocations]
        given += [allocation for own in wanted.values() for allocation in own]
        wait = quota_wait(state, namespace, given, gang, subject)
        return dict.fromkeys(placed, wait) if wait else {}
    given, beyond = [], {}
    for key, own in wanted.items():
        if own and (wait := quota_wait(state, namespace, [*given, *own], gang, subject)):
            beyond[key] = wait
        else:
            given += own
    return beyond
