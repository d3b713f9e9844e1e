"""The members of a gang as what is placed: those that share a claim are one unit, and units that are alike one kind."""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from controller.allocation import ClaimFault, CompiledRequest, Fleet
from controller.gangs.gang import Gang, Member, SubGroup
from controller.placement import Needs, Nodes, PodDemand, PodLabels
from driver.model import Claim

_NO_LABELS = PodLabels()
_NUMBERS = re.compile(r"([0-9]+)")
_SEEN = attrgetter(*(name for name in Needs.__dataclass_fields__ if name not in ("requests", "pod")))
"""What a pod needs of a node besides amounts; all of it is hashable."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What units that are alike have in common: they fit the same nodes, as often.

    Attributes:
        key: equal for kinds of other gangs that are alike.
        pods: those of one such unit.
        counted: what each asks of a node whatever other members do: without affinity and spread that look at these.
        request: what its claims ask for.
        other_drivers_request: what its claims of other drivers ask for.
        tasks: the task of each of these pods, if some tasks of the gang have a minimum.
        social: whether where other members are decides where it may be.
        ordered: whether it also matters which of them is placed first.
    """

    number: int
    key: Hashable
    pods: tuple[PodDemand, ...]
    counted: tuple[Needs, ...]
    request: CompiledRequest
    other_drivers_request: CompiledRequest
    tasks: tuple[str, ...]
    social: bool
    ordered: bool

    @property
    def has_devices(self) -> bool:
        """Whether it asks for devices of ours."""
        return bool(self.request.demands)

    @property
    def bound_to(self) -> str:
        """The node that a pod of it is bound to; "" for none."""
        return next((pod.bound_to for pod in self.pods if pod.bound_to), "")

    @property
    def needs_together(self) -> Needs:
        """What all pods of a unit ask of their node, as if they were one pod."""
        every = self.counted
        amounts = sum((Counter(needs.requests) for needs in every), Counter[str]())
        return replace(every[0], requests=amounts, ports=tuple(port for needs in every for port in needs.ports))

    @property
    def is_confined(self) -> bool:
        """Whether its pods may be placed on some nodes only."""
        return any(pod.bound_to or pod.avoid or pod.among is not None for pod in self.pods)

    def named(self, nodes: Nodes) -> Collection[str] | None:
        """The only nodes that its pods can be on, if these are named; None if not."""
        if self.bound_to:
            return (self.bound_to,)
        each = [pod.among if pod.among is not None else nodes.named_by(pod.needs) for pod in self.pods]
        return next((names for names in each if names is not None), None)

    def may_use(self, node: str) -> bool:
        """Whether the node is one of those that its pods may be placed on."""
        if self.bound_to and node != self.bound_to:
            return False
        return all(node not in pod.avoid and (pod.among is None or node in pod.among) for pod in self.pods)

    def keeps_apart(self, labels: Mapping[str, str], nodes: Nodes) -> bool:
        """Whether a node with these labels takes only one, because its anti-affinity excludes others like it."""
        return any(
            term.topology_key in labels and nodes.pods.selects((term.pods,), pod.needs.pod)
            for pod in self.pods
            for term in pod.needs.pod_anti_affinity
        )


class Seat(NamedTuple):
    """What says in which groups a member is.

    Attributes:
        position: its place in the gang, from 0 (``Level.group_size``).
        sub_group: a number for its sub-group; None if it is in none.
        within: its place in the sub-group, from 0.
    """

    position: int
    sub_group: int | None = None
    within: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Members that have to be on one node, because they share a claim; mostly a single one. In the order of ranks.

    Attributes:
        claims: their claims, each once.
        other_drivers_claims: those of other drivers.
        order: the place in the order of ranks, the leader first.
        seats: what says in which groups each member is.
    """

    kind: Kind
    members: tuple[Member, ...]
    claims: tuple[Claim, ...]
    other_drivers_claims: tuple[Claim, ...]
    order: int
    seats: tuple[Seat, ...]

    @property
    def sub_groups(self) -> tuple[SubGroup, ...]:
        """Of each member that is in one."""
        return tuple([member.sub_group for member in self.members if member.sub_group is not None])


def units_of(gang: Gang, fleet: Fleet, nodes: Nodes) -> Sequence[Unit] | tuple[ClaimFault, ...]:
    """The units of the members to place, or everything that is wrong with their claims.

    The members have to be in the order of ranks (``in_order``), and the units are.
    """
    seats = seats_of(gang)
    every = [member.demand.needs for member in gang.members]
    ordered = any(needs.pod_affinity or needs.spread for needs in every)
    social = ordered or any(needs.pod_anti_affinity or needs.volumes for needs in every)
    keys = _Keys(nodes, social)
    wanted_tasks = {task for task, _ in gang.task_minimums}
    kinds: dict[Hashable, Kind] = {}
    found: list[Unit] = []
    faults: dict[ClaimFault, None] = {}
    for order, members in enumerate(_sharing(gang.members)):
        claims = _once(claim for member in members for claim in member.demand.claims)
        other_claims = _once(claim for member in members for claim in member.demand.other_drivers_claims)
        ours, others = fleet.compile(claims), fleet.compile(other_claims)
        if isinstance(ours, tuple) or isinstance(others, tuple):
            wrong = [fault for request in (ours, others) if isinstance(request, tuple) for fault in request]
            faults.update(dict.fromkeys(wrong))
            continue
        tasks = tuple([member.task if member.task in wanted_tasks else "" for member in members])
        key = ours, others, tuple([keys.of(member.demand) for member in members])
        kind = kinds.get((key, tasks))
        if kind is None:
            pods = tuple(member.demand for member in members)
            counted = tuple(_whatever_others_do(pod.needs, every, nodes) for pod in pods)
            dropped = tuple(needs is not pod.needs for needs, pod in zip(counted, pods, strict=True))
            kind = Kind(len(kinds), (key, dropped), pods, counted, ours, others, tasks, social, ordered)
            kinds[key, tasks] = kind
        placed = tuple([seats[member.demand.key] for member in members])
        found.append(Unit(kind, members, claims, other_claims, order, placed))
    return tuple(faults) or found


def leader_and_first(units: Sequence[Unit]) -> tuple[Unit, Unit] | None:
    """The leader and rank 0, if both are to be placed and no other member has to be with one of them."""
    leader = next((unit for unit in units if unit.members[0].leader), None)
    first = next((unit for unit in units if not unit.members[0].leader), None)
    if leader is None or first is None or len(leader.members) + len(first.members) > 2:
        return None
    return leader, first


def together(one: Unit, other: Unit, fleet: Fleet) -> Unit:
    """Both as one unit, so that they are placed on one node."""
    claims = _once((*one.claims, *other.claims))
    other_claims = _once((*one.other_drivers_claims, *other.other_drivers_claims))
    ours, others = fleet.compile(claims), fleet.compile(other_claims)
    assert isinstance(ours, CompiledRequest)
    assert isinstance(others, CompiledRequest)
    kinds = one.kind, other.kind
    kind = Kind(
        -1,
        tuple(kind.key for kind in kinds),
        tuple(pod for kind in kinds for pod in kind.pods),
        tuple(needs for kind in kinds for needs in kind.counted),
        ours,
        others,
        tuple(task for kind in kinds for task in kind.tasks),
        one.kind.social,
        one.kind.ordered,
    )
    seats = (*one.seats, *other.seats)
    return Unit(kind, (*one.members, *other.members), claims, other_claims, min(one.order, other.order), seats)


def in_order(members: Iterable[Member]) -> list[Member]:
    """The members in the order of ranks, the leader first."""
    return sorted(members, key=lambda member: (not member.leader, member.rank, natural(member.demand.key)))


def seats_of(gang: Gang) -> Mapping[str, Seat]:
    """What says in which groups each pod is, standing or not."""
    every = [(one.pod, one.leader, one.rank, one.sub_group) for one in gang.standing]
    every += [(one.demand.key, one.leader, one.rank, one.sub_group) for one in gang.members]
    positions = _positions_of(gang)
    if not gang.sub_groups:
        return {pod: Seat(positions[pod]) for pod, *_ in every}
    inside: dict[SubGroup | None, list[tuple[bool, int, object, str]]] = {}
    for pod, leader, rank, sub_group in every:
        inside.setdefault(sub_group, []).append((not leader, rank, natural(pod), pod))
    found = {}
    named = sorted((one for one in inside if one is not None), key=lambda one: (one[0], natural(one[1])))
    numbers = {sub_group: number for number, sub_group in enumerate(named)}
    for sub_group, pods in inside.items():
        number = numbers.get(sub_group) if sub_group is not None else None
        found.update({pod: Seat(positions[pod], number, at) for at, (*_, pod) in enumerate(sorted(pods))})
    return found


def _positions_of(gang: Gang) -> Mapping[str, int]:
    """The place of each pod, standing or not, by which groups are counted: its rank if each has another.

    The leader is in the first group and counts as none of its members.
    """
    ranks = {standing.pod: standing.rank for standing in gang.standing if not standing.leader}
    ranks |= {member.demand.key: member.rank for member in gang.members if not member.leader}
    if len(set(ranks.values())) < len(ranks):
        ordered = sorted(ranks, key=lambda pod: (ranks[pod], natural(pod)))
        ranks = {pod: position for position, pod in enumerate(ordered)}
    leaders = [member.demand.key for member in gang.members if member.leader]
    leaders += [standing.pod for standing in gang.standing if standing.leader]
    return {**ranks, **dict.fromkeys(leaders, 0)}


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """A key by which names are sorted with numbers in them as numbers: worker-2 comes before worker-10."""
    parts = _NUMBERS.split(name)
    return tuple((text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "0"], strict=True))


def _sharing(members: Sequence[Member]) -> list[tuple[Member, ...]]:
    """The members, those together that share a claim, directly or through others."""
    group_of: dict[str, list[Member]] = {}
    groups: dict[int, list[Member]] = {}
    for member in members:
        group = [member]
        for claim in _claims_of(member):
            other = group_of.get(claim.uid)
            if other is not None and other is not group:
                groups.pop(id(group), None)
                other += group
                group = other
            group_of[claim.uid] = group
        for uid in [claim.uid for one in group for claim in _claims_of(one)]:
            group_of[uid] = group
        groups[id(group)] = group
    return [tuple(group) for group in groups.values()]


def _claims_of(member: Member) -> Iterable[Claim]:
    return (*member.demand.claims, *member.demand.other_drivers_claims)


def _once(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    return tuple({claim.uid: claim for claim in claims}.values())


def _whatever_others_do(needs: Needs, members: Sequence[Needs], nodes: Nodes) -> Needs:
    """The needs without affinity and spread that other members, once they are placed, may satisfy."""
    affinity = tuple(term.pods for term in needs.pod_affinity)
    spread = [(constraint.pods,) for constraint in needs.spread]
    if affinity and any(nodes.pods.selects(affinity, other.pod) for other in members):
        needs = replace(needs, pod_affinity=())
    if spread and any(nodes.pods.selects(pods, other.pod) for pods in spread for other in members):
        needs = replace(needs, spread=())
    return needs


class _Keys:
    """Everything that tells members apart as to where they fit, except their claims.

    Members that ask for the same share what they ask for (``controller.state.SharedPods``), so it is read once.
    """

    def __init__(self, nodes: Nodes, social: bool):
        self._nodes = nodes
        self._social = social
        self._needs: dict[int, Hashable] = {}
        """By identity; the members keep the needs alive."""
        self._among: dict[int, frozenset[str]] = {}

    def of(self, demand: PodDemand) -> Hashable:
        needs, among = demand.needs, demand.among
        known = self._needs.get(id(needs))
        if known is None:
            known = self._needs[id(needs)] = self._of_needs(needs)
        if among is not None and id(among) not in self._among:
            self._among[id(among)] = frozenset(among)
        nodes = None if among is None else self._among[id(among)]
        return known, nodes, demand.avoid, demand.last, demand.bound_to, self._nodes.node_of(demand.key)

    def _of_needs(self, needs: Needs) -> Hashable:
        against = frozenset(term for term, _ in self._nodes.pods.terms_against(needs.pod))
        seen = needs.pod if self._social else _NO_LABELS
        return tuple(sorted(needs.requests.items())), seen, _SEEN(needs), against
