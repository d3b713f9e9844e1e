"""Groups members into units that must share a node, and like units into shapes. Pure.

Members that share a claim share its devices, so they are on one node: they are one unit. Claims for devices that
several nodes reach are chosen before (``shared_claims``), and join nobody. Most units are one member.
Units that ask for the same are of one shape, and then only their number matters: a node takes 3 of them, whichever they
are. What is found out about a shape holds for all of its units, so 1,000 like members are one question for each node.
"""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from controller.allocation import CompiledRequest, Fleet
from controller.gangs.gang import Gang, Level, Member, SubGroup
from controller.placement import Needs, Nodes, PodDemand, PodLabels
from driver.errors import Fault
from driver.model import Claim

_NO_LABELS = PodLabels()
_NUMBERS = re.compile(r"([0-9]+)")
_SEEN = attrgetter(*(name for name in Needs.__dataclass_fields__ if name not in ("requests", "pod")))
"""Reads the needs of a pod other than amounts, all of them hashable."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitShape:
    """The shape of units: units of one shape fit the same nodes, in the same number.

    Attributes:
        key: equal for like shapes of other gangs.
        pods: pods of one such unit.
        counted: needs of each pod, without affinity and spread terms that select other members. Bounds are found with
            these: such a term may be met by a member that has no place yet, so no node may be ruled out for it.
        request: request of the claims.
        other_drivers_request: request of the claims of other drivers.
        tasks: task of each pod if it has a minimum, else "".
        depends_on_members: whether the places of other members matter for the unit.
        ordered: whether the order in which members are placed matters, too.
    """

    number: int
    key: Hashable
    pods: tuple[PodDemand, ...]
    counted: tuple[Needs, ...]
    request: CompiledRequest
    other_drivers_request: CompiledRequest
    tasks: tuple[str, ...]
    depends_on_members: bool
    ordered: bool

    @property
    def has_devices(self) -> bool:
        """Whether it asks for devices of ours."""
        return bool(self.request.demands)

    @property
    def bound_to(self) -> str:
        """The node that a pod of the unit is bound to; "" for none."""
        return next((pod.bound_to for pod in self.pods if pod.bound_to), "")

    @property
    def needs_together(self) -> Needs:
        """The needs of all pods of a unit as if they were one pod."""
        every = self.counted
        amounts = sum((Counter(needs.requests) for needs in every), Counter[str]())
        return replace(every[0], requests=amounts, ports=tuple(port for needs in every for port in needs.ports))

    @property
    def is_confined(self) -> bool:
        """Whether its pods may be placed on some nodes only."""
        return any(pod.bound_to or pod.avoid or pod.among is not None for pod in self.pods)

    def named(self, nodes: Nodes) -> Collection[str] | None:
        """The only nodes that the pods can be on; None if the pods do not name nodes."""
        if self.bound_to:
            return (self.bound_to,)
        each = [pod.among if pod.among is not None else nodes.named_by(pod.needs) for pod in self.pods]
        return next((names for names in each if names is not None), None)

    def may_use(self, node: str) -> bool:
        """Whether the pods may be placed on the node."""
        if self.bound_to and node != self.bound_to:
            return False
        return all(node not in pod.avoid and (pod.among is None or node in pod.among) for pod in self.pods)

    def keeps_apart(self, labels: Mapping[str, str], nodes: Nodes) -> bool:
        """Whether a node with these labels takes only one unit, because of anti-affinity between like units."""
        return any(
            term.topology_key in labels and nodes.pods.selects((term.pods,), pod.needs.pod)
            for pod in self.pods
            for term in pod.needs.pod_anti_affinity
        )


class MemberPosition(NamedTuple):
    """The position of a member, which determines its groups.

    Attributes:
        in_gang: position in the gang, from 0 (``Level.group_size``).
        sub_group: number of the sub-group; None if the member is in none.
        in_sub_group: position in the sub-group, from 0.
        task_groups: for each level, the number of the group that the member is in by its task; None for none.
    """

    in_gang: int
    sub_group: int | None = None
    in_sub_group: int = 0
    task_groups: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CoLocatedMembers:
    """A unit: members that must share a node because they share a claim. Most units are one member.

    Attributes:
        members: members in the order of ranks.
        claims: their claims, each once.
        other_drivers_claims: their claims of other drivers, each once.
        order: position of the unit in the order of ranks, the leader first.
        positions: position of each member.
    """

    shape: UnitShape
    members: tuple[Member, ...]
    claims: tuple[Claim, ...]
    other_drivers_claims: tuple[Claim, ...]
    order: int
    positions: tuple[MemberPosition, ...]

    @property
    def sub_groups(self) -> tuple[SubGroup, ...]:
        """The sub-group of each member that is in one."""
        return tuple([member.sub_group for member in self.members if member.sub_group is not None])


def units_of(gang: Gang, fleet: Fleet, nodes: Nodes) -> Sequence[CoLocatedMembers] | tuple[Fault, ...]:
    """Group the members to place into units, or return all faults of their claims.

    Members must be in the order of ranks (``in_order``). The units are in the same order.
    """
    positions = positions_of(gang)
    every = [member.demand.needs for member in gang.members]
    ordered = any(needs.pod_affinity or needs.spread for needs in every)
    depends_on_members = ordered or any(needs.pod_anti_affinity or needs.volumes for needs in every)
    keys = _Keys(nodes, depends_on_members)
    wanted_tasks = {task for task, _ in gang.task_minimums}
    shapes: dict[Hashable, UnitShape] = {}
    units: list[CoLocatedMembers] = []
    faults: dict[Fault, None] = {}
    for order, members in enumerate(sharing(gang.members)):
        claims = distinct(claim for member in members for claim in member.demand.claims)
        other_claims = distinct(claim for member in members for claim in member.demand.other_drivers_claims)
        ours, others = fleet.compile(claims), fleet.compile(other_claims)
        if isinstance(ours, tuple) or isinstance(others, tuple):
            wrong = [fault for request in (ours, others) if isinstance(request, tuple) for fault in request]
            faults.update(dict.fromkeys(wrong))
            continue
        tasks = tuple([member.task if member.task in wanted_tasks else "" for member in members])
        # Tasks are not in the key of the shape: what a node takes does not depend on them, and other gangs have others.
        key = ours, others, tuple([keys.key_of(member.demand) for member in members])
        shape = shapes.get((key, tasks))
        if shape is None:
            pods = tuple(member.demand for member in members)
            counted = tuple(_without_terms_members_satisfy(pod.needs, every, nodes) for pod in pods)
            dropped = tuple(needs is not pod.needs for needs, pod in zip(counted, pods, strict=True))
            shape = UnitShape(
                number=len(shapes),
                key=(key, dropped),
                pods=pods,
                counted=counted,
                request=ours,
                other_drivers_request=others,
                tasks=tasks,
                depends_on_members=depends_on_members,
                ordered=ordered,
            )
            shapes[key, tasks] = shape
        of_members = tuple([positions[member.demand.key] for member in members])
        units.append(CoLocatedMembers(shape, members, claims, other_claims, order=order, positions=of_members))
    return tuple(faults) or units


def leader_and_first(units: Sequence[CoLocatedMembers]) -> tuple[CoLocatedMembers, CoLocatedMembers] | None:
    """The units of leader and rank 0, if both are to be placed and neither has other members."""
    # Units are in the order of ranks with the leader first, so the first one that is no leader's is that of rank 0.
    leader = next((unit for unit in units if unit.members[0].leader), None)
    first = next((unit for unit in units if not unit.members[0].leader), None)
    if leader is None or first is None or len(leader.members) + len(first.members) > 2:
        return None
    return leader, first


def merged_unit(one: CoLocatedMembers, other: CoLocatedMembers, fleet: Fleet) -> CoLocatedMembers:
    """Merge two units into one, so that they are placed on one node."""
    claims = distinct((*one.claims, *other.claims))
    other_claims = distinct((*one.other_drivers_claims, *other.other_drivers_claims))
    ours, others = fleet.compile(claims), fleet.compile(other_claims)
    # Each compiled alone (``units_of``), so both together do.
    assert isinstance(ours, CompiledRequest)
    assert isinstance(others, CompiledRequest)
    shapes = one.shape, other.shape
    # No shape of the gang has this number: the merged unit is part of one search only (``Searches._with_leader``).
    shape = UnitShape(
        number=-1,
        key=tuple(shape.key for shape in shapes),
        pods=tuple(pod for shape in shapes for pod in shape.pods),
        counted=tuple(needs for shape in shapes for needs in shape.counted),
        request=ours,
        other_drivers_request=others,
        tasks=tuple(task for shape in shapes for task in shape.tasks),
        depends_on_members=one.shape.depends_on_members,
        ordered=one.shape.ordered,
    )
    members, positions = (*one.members, *other.members), (*one.positions, *other.positions)
    return CoLocatedMembers(
        shape, members, claims, other_claims, order=min(one.order, other.order), positions=positions
    )


def in_order(members: Iterable[Member]) -> list[Member]:
    """The members in the order of ranks, the leader first."""
    return sorted(members, key=lambda member: (not member.leader, member.rank, natural_sort_key(member.demand.key)))


def positions_of(gang: Gang) -> Mapping[str, MemberPosition]:
    """The position of each pod, with a place or without."""
    every = [(one.pod, one.leader, one.rank, one.task, one.sub_group) for one in gang.standing]
    every += [(one.demand.key, one.leader, one.rank, one.task, one.sub_group) for one in gang.members]
    in_gang, by_task = _ranks_or_order(gang), _TaskGroups(gang.levels)
    if not gang.sub_groups:
        return {pod: MemberPosition(in_gang[pod], task_groups=by_task.of(task)) for pod, _, _, task, _ in every}
    tasks = {pod: task for pod, _, _, task, _ in every}
    pods_of: dict[SubGroup | None, list[tuple[bool, int, object, str]]] = {}
    for pod, leader, rank, _, sub_group in every:
        pods_of.setdefault(sub_group, []).append((not leader, rank, natural_sort_key(pod), pod))
    names = [name for name in pods_of if name is not None]
    names.sort(key=lambda name: (name[0], natural_sort_key(name[1])))
    numbers = {name: number for number, name in enumerate(names)}
    positions = {}
    for sub_group, pods in pods_of.items():
        number = numbers.get(sub_group) if sub_group is not None else None
        for in_sub_group, (*_, pod) in enumerate(sorted(pods)):
            positions[pod] = MemberPosition(in_gang[pod], number, in_sub_group, by_task.of(tasks[pod]))
    return positions


class _TaskGroups:
    """Numbers the groups of tasks of each level (``Level.task_groups``)."""

    def __init__(self, levels: Sequence[Level]):
        some = any(level.task_groups for level in levels)
        self._of_levels = [dict(level.task_groups) for level in levels] if some else []
        self._numbers: dict[str, int] = {}
        self._known: dict[str, tuple[int | None, ...]] = {}

    def of(self, task: str) -> tuple[int | None, ...]:
        """For each level, the number of the group that the task is in; () if no level has any."""
        known = self._known.get(task)
        if known is None:
            groups = [of_level.get(task) for of_level in self._of_levels]
            known = tuple(
                [None if group is None else self._numbers.setdefault(group, len(self._numbers)) for group in groups]
            )
            self._known[task] = known
        return known


def _ranks_or_order(gang: Gang) -> Mapping[str, int]:
    """Position of each pod for forming groups: the rank if ranks are unique, else the order by rank and name.

    The leader has position 0, and takes no position from others.
    """
    # Ranks may have gaps: if ranks 2 and 3 have ended, ranks 4 and 5 are still the third group of two. So ranks are
    # positions as they are. They are no use if pods share one, such as the Jobs of a set whose pods all begin at 0.
    ranks = {standing.pod: standing.rank for standing in gang.standing if not standing.leader}
    ranks |= {member.demand.key: member.rank for member in gang.members if not member.leader}
    if len(set(ranks.values())) < len(ranks):
        ordered = sorted(ranks, key=lambda pod: (ranks[pod], natural_sort_key(pod)))
        ranks = {pod: position for position, pod in enumerate(ordered)}
    leaders = [member.demand.key for member in gang.members if member.leader]
    leaders += [standing.pod for standing in gang.standing if standing.leader]
    return {**ranks, **dict.fromkeys(leaders, 0)}


def natural_sort_key(name: str) -> tuple[str | int, ...]:
    """A key to sort names by, with numbers in them as numbers: worker-2 comes before worker-10."""
    # Texts and numbers in turn, beginning with a text, so that no text is compared with a number.
    parts: list[str | int] = [*_NUMBERS.split(name)]
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts)


def sharing(members: Sequence[Member], among: Collection[str] | None = None) -> list[tuple[Member, ...]]:
    """Group members that share claims, directly or through other members.

    Args:
        among: UIDs of the claims that count; None for all.
    """
    group_of: dict[str, list[Member]] = {}
    groups: dict[int, list[Member]] = {}
    for member in members:
        group = [member]
        for uid in _uids_of(member, among):
            # The union of two groups goes into one list, and the other is forgotten, so each claim leads to one group.
            other = group_of.get(uid)
            if other is not None and other is not group:
                groups.pop(id(group), None)
                other += group
                group = other
            group_of[uid] = group
        for uid in [uid for sharer in group for uid in _uids_of(sharer, among)]:
            group_of[uid] = group
        groups[id(group)] = group
    return [tuple(group) for group in groups.values()]


def _uids_of(member: Member, among: Collection[str] | None) -> Iterable[str]:
    return [claim.uid for claim in claims_of(member) if among is None or claim.uid in among]


def claims_of(member: Member) -> tuple[Claim, ...]:
    """The claims of the member that have to be allocated, those of other drivers included."""
    return (*member.demand.claims, *member.demand.other_drivers_claims)


def distinct(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Each claim once."""
    return tuple({claim.uid: claim for claim in claims}.values())


def _without_terms_members_satisfy(needs: Needs, members: Sequence[Needs], nodes: Nodes) -> Needs:
    """Drop affinity and spread terms that select other members."""
    # All terms of a kind are dropped, not only the one that selects a member: a bound may be too high, not too low. The
    # search checks all of them when units are added (``Staging``), with what is on the nodes by then.
    affinity = tuple(term.pods for term in needs.pod_affinity)
    spread = [(constraint.pods,) for constraint in needs.spread]
    if affinity and any(nodes.pods.selects(affinity, other.pod) for other in members):
        needs = replace(needs, pod_affinity=())
    if spread and any(nodes.pods.selects(pods, other.pod) for pods in spread for other in members):
        needs = replace(needs, spread=())
    return needs


class _Keys:
    """Keys of members: equal if they fit the same nodes, apart from their claims.

    Members with equal needs share one value (``controller.state.SharedPods``), so each value is read once.
    """

    def __init__(self, nodes: Nodes, depends_on_members: bool):
        self._nodes = nodes
        self._depends_on_members = depends_on_members
        self._needs: dict[int, Hashable] = {}
        """Keys by the identity of the needs. Members keep these alive."""
        self._among: dict[int, frozenset[str]] = {}

    def key_of(self, demand: PodDemand) -> Hashable:
        needs, among = demand.needs, demand.among
        of_needs = self._needs.get(id(needs))
        if of_needs is None:
            of_needs = self._needs[id(needs)] = self._of_needs(needs)
        if among is not None and id(among) not in self._among:
            self._among[id(among)] = frozenset(among)
        nodes = None if among is None else self._among[id(among)]
        return of_needs, nodes, demand.avoid, demand.last, demand.bound_to, self._nodes.node_of(demand.key)

    def _of_needs(self, needs: Needs) -> Hashable:
        # Labels matter only to terms that select them: of pods that run, and of other members. Else each member of a
        # StatefulSet, which has a label with its own name, would be of a shape of its own.
        against = frozenset(term for term, _ in self._nodes.pods.terms_against(needs.pod))
        seen = needs.pod if self._depends_on_members else _NO_LABELS
        return tuple(sorted(needs.requests.items())), seen, _SEEN(needs), against
