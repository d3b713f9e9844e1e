"""Claims that members share and whose devices several nodes reach: such members may be on different nodes. Pure.

Members that share a claim are on one node if its devices are of one node (``units``). A device that several nodes
reach, such as a channel of a rack, asks only that they are on nodes that reach it. So the device is chosen first, and
then the members are placed among the nodes that reach it, as if they did not have the claim:

    rack r1: nodes n1, n2, channel c1        rack r2: nodes n3, n4, channel c2

Two members with a card each share a claim for a channel. On n1 and n2 the claim would get c1, on n3 and n4 c2: there
are two *reaches*. n1 and n2 have one free card together, so the first one is in vain. In the second one the members
have their places on n3 and n4, and the claim has c2 for both.

What kube-scheduler will allocate it chooses itself, on the node of the first member that it binds. So a reach for
claims of other drivers is the nodes on which it would choose the same. Of claims that are allocated here, it is all
nodes that reach the device. A device that is the first choice on no node is not considered: its reach would have to
overlap with two others without being inside either.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.allocation import CompiledRequest
from controller.cluster import Cluster
from controller.gangs.gang import Gang, GangPlan, Member, TriedDomains
from controller.gangs.units import claims_of, distinct, sharing
from controller.placement import Placement
from controller.refusal import Refusal
from driver.model import Allocation, Claim, DeviceId

_MOST_TRIES: Final = 256
"""The most combinations of reaches that are tried for claims that do not belong together. All reaches of one are."""


@dataclass(frozen=True, slots=True)
class FarClaims:
    """Claims for devices of several nodes that members share: those that some member has together are here together.

    Attributes:
        chosen_here: whether all of them are allocated here, and none by kube-scheduler.
    """

    claims: tuple[Claim, ...]
    chosen_here: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """What claims would get, and the nodes on which members may be that share them."""

    allocations: Mapping[str, Allocation]
    """By UID."""
    nodes: Mapping[str, None]


def shared_claims(members: Sequence[Member], cluster: Cluster) -> Sequence[FarClaims]:
    """The claims of several members that can get devices of several nodes."""
    if not cluster.devices.shares_devices:
        return ()
    shared = _of_several(members)
    far = {claim.uid for claim in shared if _may_reach_several(claim, cluster)}
    ours = {claim.uid for member in members for claim in member.demand.claims}
    groups = (
        distinct(claim for member in group for claim in claims_of(member) if claim.uid in far)
        for group in (sharing(members, far) if far else ())
    )
    return [FarClaims(claims, all(claim.uid in ours for claim in claims)) for claims in groups if claims]


Ask = Callable[[Gang], GangPlan | Refusal[TriedDomains]]
"""Decides about a gang in which the shared claims are left out, while what they get is in use."""


def first_plan(
    shared: Sequence[FarClaims], cluster: Cluster, gang: Gang, ask: Ask
) -> GangPlan | Refusal[TriedDomains] | None:
    """The first plan for the gang with a reach for each of the claims; else the first refusal.

    None if there is no reach for some of them.
    """
    # Reaches multiply: of four claims that do not belong together, four of each are 256 tries. The first of each are
    # those of most nodes, so what is not tried are the narrow ones.
    most = None if len(shared) == 1 else max(1, int(_MOST_TRIES ** (1 / len(shared))))

    def with_reaches(chosen: tuple[Reach, ...]) -> GangPlan | Refusal[TriedDomains] | None:
        if len(chosen) == len(shared):
            answer = ask(_confined(gang, chosen))
            return _completed(answer, gang, chosen) if isinstance(answer, GangPlan) else answer
        first = None
        for reach in _reaches(shared[len(chosen)], cluster)[:most]:
            # In use before the next claims look for theirs: else two claims would be promised one device.
            with cluster.what_if() as trial:
                for uid, allocation in reach.allocations.items():
                    trial.use(uid, allocation)
                found = with_reaches((*chosen, reach))
            if isinstance(found, GangPlan):
                return found
            first = first or found
        return first

    return with_reaches(())


def _reaches(shared: FarClaims, cluster: Cluster) -> Sequence[Reach]:
    """What the claims can get for several nodes, each once; that of most nodes first, then in the order of nodes."""
    devices, nodes = cluster.devices, cluster.nodes
    request = devices.compile(shared.claims)
    assert isinstance(request, CompiledRequest), "each claim compiles (shared_claims)"
    chosen_on: dict[tuple[DeviceId, ...], tuple[Sequence[Allocation], dict[str, None]]] = {}
    for name in nodes:
        slot = devices.slot(name, nodes.labels_of(name))
        if fitting := devices.fit(slot, request, shared.claims):
            held = tuple([result.device for allocation in fitting for result in allocation.results])
            chosen_on.setdefault(held, (fitting, {}))[1][name] = None
    found = []
    for allocations, at in chosen_on.values():
        # kube-scheduler chooses again on the node of the member that it binds first, and would get another device on
        # nodes that merely reach this one. Only an allocation that is written here holds for all of them.
        if shared.chosen_here:
            selectors = [allocation.nodes for allocation in allocations if allocation.nodes]
            at = nodes.selected(selectors)
        if len(at) > 1:
            by_claim = {claim.uid: allocation for claim, allocation in zip(shared.claims, allocations, strict=True)}
            found.append(Reach(by_claim, at))
    return sorted(found, key=lambda reach: -len(reach.nodes))


def _confined(gang: Gang, chosen: Sequence[Reach]) -> Gang:
    """The gang whose members are to be placed on the nodes of their claims' reaches, and ask for the other claims."""
    return replace(gang, members=tuple(_confined_member(member, chosen) for member in gang.members))


def _completed(plan: GangPlan, gang: Gang, chosen: Sequence[Reach]) -> GangPlan:
    """The plan for ``_confined(gang, chosen)`` as one for the gang: with what the shared claims get."""
    given = {uid: allocation for reach in chosen for uid, allocation in reach.allocations.items()}
    demands = {member.demand.key: member.demand for member in gang.members}

    def with_given(placement: Placement) -> Placement:
        demand = demands[placement.pod]
        ours, others = (
            _merged(claims, allocations, given)
            for claims, allocations in (
                (demand.claims, placement.allocations),
                (demand.other_drivers_claims, placement.other_drivers_allocations),
            )
        )
        return replace(placement, allocations=ours, other_drivers_allocations=others)

    return replace(plan, placements=tuple(map(with_given, plan.placements)))


def lacking_claims(members: Sequence[Member], cluster: Cluster) -> tuple[str, ...]:
    """The keys of claims for which no node has devices (``TriedDomains.lacking``), sorted: members have no order."""
    asked = _of_several(members, {claim.uid for member in members for claim in member.demand.other_drivers_claims})
    devices, fits, found = cluster.devices, dict[CompiledRequest, bool](), list[str]()
    for claim in asked:
        request = devices.compile([claim])
        if not isinstance(request, CompiledRequest):
            continue
        if request not in fits:
            fits[request] = any(
                devices.fit(slot, request, [claim]) is not None or devices.is_undecided(slot, request)
                for slot in devices.candidates(request)
            )
        if not fits[request]:
            found.append(claim.key)
    return tuple(sorted(found))


def _of_several(members: Sequence[Member], also: Collection[str] = ()) -> tuple[Claim, ...]:
    """The claims that several members use, and those of these UIDs."""
    users = Counter(claim.uid for member in members for claim in claims_of(member))
    return distinct(
        claim for member in members for claim in claims_of(member) if users[claim.uid] > 1 or claim.uid in also
    )


def _may_reach_several(claim: Claim, cluster: Cluster) -> bool:
    if claim.aligned:
        # Its devices are chosen together with those of the member's other claims, on one node.
        return False
    request = cluster.devices.compile([claim])
    return isinstance(request, CompiledRequest) and cluster.devices.selects_shared(request)


def _confined_member(member: Member, chosen: Sequence[Reach]) -> Member:
    demand = member.demand
    # Shared claims that a member has together have one reach.
    own = (reach for reach in chosen if any(claim.uid in reach.allocations for claim in claims_of(member)))
    if (reach := next(own, None)) is None:
        return member
    claims, others = (
        tuple(claim for claim in some if claim.uid not in reach.allocations)
        for some in (demand.claims, demand.other_drivers_claims)
    )
    nodes = reach.nodes if demand.among is None else dict.fromkeys(name for name in demand.among if name in reach.nodes)
    return replace(member, demand=replace(demand, claims=claims, other_drivers_claims=others, among=nodes))


def _merged(
    claims: Sequence[Claim], allocations: Sequence[Allocation], given: Mapping[str, Allocation]
) -> tuple[Allocation, ...]:
    """The allocation of each claim: the one that is given, or the next of the others."""
    rest = iter(allocations)
    return tuple(given[claim.uid] if claim.uid in given else next(rest) for claim in claims)
