"""The demands of gang members that do not exist yet, so that room is found for all members at once. Pure.

Their requests are in the JobSet that makes them, and in the ResourceClaimTemplates that it names. Changes by admission,
such as the overhead of a runtime class, are not known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from controller.allocation import CompiledRequest
from controller.gangs import LaterPart, Member, Part, PodTemplate
from controller.placement import PodDemand
from controller.reconcile.decisions import Reason, Wait
from controller.reconcile.demand import NodeRestrictions, reachable_nodes
from controller.reconcile.gangprogress import KnownGang
from controller.reconcile.podclaims import (
    alignments_among,
    claim_of_template,
    faults_of,
    measured_by_driver,
    wait_for_template,
)
from controller.state import ClaimRecord, State
from driver.errors import InvalidInput
from driver.model import Claim

MOST_LATER: Final = 1000
"""Members that room is found for before they exist. A JobSet of a few lines can promise any number of them."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The claims that the pods of a part will have: each with its entry in the pod template."""

    ours: Sequence[tuple[str, ClaimRecord]]
    other_drivers: Sequence[tuple[str, ClaimRecord]]
    held: Sequence[tuple[str, ClaimRecord]]
    """Claims that are allocated already."""


def later_members(
    state: State, gang: KnownGang, most: int, restrictions: NodeRestrictions, priority: int
) -> Sequence[Member] | Wait:
    """Return the members to come, in the order of ranks; a wait if their claims are not known yet.

    Members are left out if their claims are faulty, so that they could not start whatever room there is, and if this
    program may not read their templates.

    Args:
        most: the most members that are returned.
        restrictions: the nodes that are held back from the gang.
        priority: of the members that exist.
    """
    found: list[Member] = []
    taken = {member.rank for member in gang.members}
    for later in gang.coming.later if gang.coming else ():
        left = min(most, MOST_LATER) - len(found)
        if left <= 0 or later.part.template is None:
            break
        asked = _asked_by(state, gang, later.part, later.part.template)
        if isinstance(asked, Wait):
            return asked
        if asked is not None:
            reachable = reachable_nodes(state, [record for _, record in asked.held])
            needs = replace(later.part.template.needs, priority=priority)
            for rank, key in islice(_places(gang, later, taken), min(left, later.count)):
                other_claims = [_made(key, entry, one) for entry, one in asked.other_drivers]
                demand = PodDemand(
                    key,
                    needs,
                    _aligned(state, key, asked),
                    reachable,
                    frozenset(restrictions.held),
                    other_drivers_claims=tuple(other_claims),
                )
                found.append(Member(demand, rank, task=later.part.name))
    return found


def _places(gang: KnownGang, later: LaterPart, taken: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the ranks that no member has, each with a key that no pod can have."""
    name = gang.key.replace("/JobSet/", "/")
    for rank, job, index in later.part.ranks():
        if rank not in taken:
            yield rank, f"{name}-{later.part.name}-{job}-{index} (to come)"


def _made(pod: str, entry: str, record: ClaimRecord) -> Claim:
    """Return the claim of a pod. One that is made from a template, which has no uid, is made for this pod."""
    claim = record.claim
    return claim if claim.uid else replace(claim, name=f"{pod} {entry}", uid=f"{pod} {entry}")


def _aligned(state: State, pod: str, asked: _Asked) -> tuple[Claim, ...]:
    """Return the claims of ours of a pod to come, with what they must have in common.

    Raises:
        InvalidInput: an alignment names a claim that it cannot mean.
    """
    made = {entry: _made(pod, entry, record) for entry, record in (*asked.ours, *asked.other_drivers, *asked.held)}
    others = [made[entry] for entry, _ in asked.other_drivers]
    found = alignments_among(state, made, others)
    claims = [made[entry] for entry, _ in asked.ours]
    return tuple(replace(claim, aligned=found[claim.uid]) if claim.uid in found else claim for claim in claims)


def _asked_by(state: State, gang: KnownGang, part: Part, template: PodTemplate) -> _Asked | Wait | None:
    """Return the claims of the pods of the part; None if these cannot start, or their claims cannot be known."""
    namespace, known, missing = gang.key.partition("/")[0], list[tuple[str, ClaimRecord]](), list[str]()
    for use in template.claims:
        if use.template and not state.templates.readable:
            return None
        kind, key = ("ResourceClaim", use.claim) if use.claim else ("ResourceClaimTemplate", use.template)
        named = f"{namespace}/{key}"
        record = state.claims.get(named) if use.claim else claim_of_template(state, named)
        if any(record is one for _, one in known) and use.claim:
            continue
        if record is None and use.template and wait_for_template(state, namespace, key):
            return None
        if record is None:
            missing.append(f"{kind} {namespace}/{key}")
        else:
            known.append((use.entry, record))
    if missing:
        text = f"{', '.join(missing)}: does not exist; members of {part.name} ask for it, which start later; create it"
        return Wait(Reason.GANG_INCOMPLETE, f"gang {gang.key}: {text}")
    split = measured_by_driver(state, [record for _, record in known])
    if isinstance(split, Wait):
        return split
    ours, others = ({id(record) for record in some} for some in (split.ours, split.others))
    claims = [record.claim for _, record in known if record.claim.allocation is None]
    if split.problems or faults_of(state, split.ours) or not isinstance(state.devices.compile(claims), CompiledRequest):
        return None
    asked = _Asked(
        [one for one in known if id(one[1]) in ours and one[1].claim.allocation is None],
        [one for one in known if id(one[1]) in others and state.devices.publishes(one[1].claim)],
        [one for one in known if one[1].claim.allocation is not None],
    )
    try:
        _aligned(state, "", asked)
    except InvalidInput:
        return None
    return asked
