"""Turns the places of a gang's plan into a decision about each member. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from controller.placement import Placement
from controller.reconcile.decisions import PlacePod
from controller.reconcile.examined import NeedsDevices
from controller.reconcile.pods import place
from controller.state import State
from driver.model import Consumer


def places(state: State, members: Mapping[str, NeedsDevices], placements: Iterable[Placement]) -> dict[str, PlacePod]:
    """Return the placement of each member, gated members first.

    The first of the members that share a claim gets it for all of them.
    """
    gate = state.names.gate
    chosen = sorted(placements, key=lambda one: gate not in members[one.pod].pod.gates)
    users: dict[str, dict[Consumer, None]] = {}
    for one in chosen:
        found = members[one.pod]
        for record in found.unallocated:
            consumer = state.consumer(found.pod, record.claim.key)
            users.setdefault(record.claim.key, {})[consumer] = None
    decisions: dict[str, PlacePod] = {}
    given: set[str] = set()
    for one in chosen:
        decision = place(state, members[one.pod], one)
        own = tuple((key, value) for key, value in decision.allocations if key not in given)
        sharers = tuple((key, tuple(users[key])[1:]) for key, _ in own if len(users[key]) > 1)
        given |= {key for key, _ in own}
        decisions[one.pod] = replace(decision, allocations=own, sharers=sharers)
    return decisions
