"""Whether a gang fits, found by trying every node for every member: what a refusal must agree with in small clusters.

It shares nothing with how gangs are decided but what one pod may have on one node. What it finds is a way to place the
gang; that it finds none proves nothing, because every pod takes the first devices that fit.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import Final, NamedTuple

from controller.cluster import Cluster, WhatIf
from controller.gangs import Gang, Level, Member, SubGroup, natural_sort_key
from controller.gangs.exact_packing import StepBudget
from controller.placement import Placement, PodDemand, find_place
from driver.model import Request

MOST_MEMBERS: Final = 6
_MOST_TRIES: Final = 2_000
_MOST_SETS: Final = 64
"""Most combinations of values that are tried, the smallest sets first."""

Value = str | int
"""Of attributes whose values are compared here."""
Values = frozenset[Value]
_UNKNOWN: Final = ""


Group = tuple[int, tuple[int, ...] | SubGroup | str]
"""A level by its depth, and which of its groups."""


@dataclass(frozen=True, slots=True)
class Held:
    """A level that has to hold for each group of ``size``, inside groups of ``outer``; 0 for the whole gang.

    Attributes:
        per_sub_group: whether it has to hold for each sub-group instead.
        by_task: the group of each task for which it has to hold instead.
    """

    depth: int
    size: int
    outer: int
    per_sub_group: bool = False
    by_task: tuple[tuple[str, str], ...] = ()

    def group(self, position: int, sub_group: SubGroup | None = None, task: str = "") -> Group | None:
        """The group of the member at this position; None if the level need not hold for it."""
        if self.by_task:
            name = dict(self.by_task).get(task)
            return None if name is None else (self.depth, name)
        if self.per_sub_group:
            return (self.depth, sub_group) if sub_group is not None else None
        if self.outer:
            return self.depth, (position // self.outer, position % self.outer // self.size)
        return self.depth, (position // self.size,) if self.size else ()


def fits(gang: Gang, cluster: Cluster) -> bool:
    """Whether all members of a gang that has not started can be placed at once, with the levels that are required.

    Instead of all members, those of some whole sub-groups do, and those of none.

    What values devices have to have is said to the search for devices as selectors, value by value.

    False, too, if that is not found out: for gangs of which members stand, share claims or are too many, and for levels
    that are attributes.
    """
    uids = [claim.uid for member in gang.members for claim in member.demand.claims]
    known = all(level.kind == "nodeLabel" for level in gang.levels)
    if gang.standing or len(gang.members) > MOST_MEMBERS or len(set(uids)) < len(uids) or not known:
        return False
    with cluster.what_if() as trial:
        for wanted in islice(_wanted(gang, cluster), _MOST_SETS):
            search = _Search(cluster, trial, StepBudget(_MOST_TRIES))
            if any(_place(gang, members, {}, wanted, search) for members in enough(gang)):
                return True
    return False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values that every member has to have.

    Attributes:
        exactly: by attribute.
        taken: by attribute of which no two members may have a value, those of the members so far.
    """

    exactly: Mapping[str, Values]
    taken: Mapping[str, Values]

    def selectors(self) -> Iterator[str]:
        """What selects the devices that may help."""
        for attribute, values in (*self.exactly.items(), *self.taken.items()):
            domain, _, name = attribute.partition("/")
            own = f"device.attributes[{json.dumps(domain)}]"
            listed = json.dumps(sorted(values, key=str))
            among = f"{own}.{name} in {listed}"
            yield f"has({own}.{name}) && {among if attribute in self.exactly else f'!({among})'}"

    def beside(self, member: Mapping[str, Values]) -> "Wanted | None":
        """The same after a member with these values; None if it may not have them."""
        if any(member[attribute] != values for attribute, values in self.exactly.items()):
            return None
        return replace(self, taken={attribute: values | member[attribute] for attribute, values in self.taken.items()})


def _wanted(gang: Gang, cluster: Cluster) -> Iterator[Wanted]:
    """The values that may have to be the same, each combination of them."""
    constraints = [one for one in gang.constraints if one.required]
    taken = {one.attribute: Values([_UNKNOWN]) for one in constraints if one.kind == "distinct"}
    every = []
    for one in (one for one in constraints if one.kind != "distinct"):
        values = _published(cluster, one.attribute)
        sizes = range(1, 2 if one.kind == "same" else len(values) + 1)
        every.append([(one.attribute, Values(some)) for size in sizes for some in combinations(values, size)])
    return (Wanted(dict(exactly), taken) for exactly in product(*every))


def _published(cluster: Cluster, attribute: str) -> Sequence[Value]:
    """The values of devices on any node, without those that are not known."""
    slices = (part for node in cluster.nodes for part in cluster.devices.ledger.index.slices_of(node))
    values = {device.attributes.get(attribute) for part in slices for device in part.devices}
    return sorted((one for one in values if isinstance(one, Value) and one != _UNKNOWN), key=str)


def _values_of(found: Placement, cluster: Cluster, attributes: Collection[str]) -> Mapping[str, Values]:
    slices = cluster.devices.ledger.index.slices_of(found.node)
    published = {(part.driver, part.pool, device.name): device.attributes for part in slices for device in part.devices}
    given = [
        published[one.device.driver, one.device.pool, one.device.device]
        for allocation in found.allocations
        for one in allocation.results
    ]
    return {name: Values(value for one in given if isinstance(value := one.get(name), Value)) for name in attributes}


def _narrowed(demand: PodDemand, selectors: Sequence[str]) -> PodDemand:
    """The same with selectors in every request."""

    def narrow(request: Request) -> Request:
        wants = [replace(want, selectors=(*want.selectors, *selectors)) for want in request.wants]
        return replace(request, wants=tuple(wants))

    specs = [replace(one.spec, requests=tuple(map(narrow, one.spec.requests))) for one in demand.claims]
    claims = [replace(one, spec=spec) for one, spec in zip(demand.claims, specs, strict=True)]
    return replace(demand, claims=tuple(claims))


def enough(gang: Gang) -> Iterator[Sequence[Member]]:
    """Members that may start together: all, or those of some sub-groups and of none. Sub-groups have all or nobody."""
    names = sorted({member.sub_group for member in gang.members if member.sub_group is not None})
    for number in range(len(names), -1, -1):
        for chosen in combinations(names, number):
            members = [one for one in gang.members if one.sub_group is None or one.sub_group in chosen]
            if len(members) >= max(1, gang.minimum) and _is_whole(gang, members):
                yield members


def _is_whole(gang: Gang, members: Sequence[Member]) -> bool:
    """Whether each sub-group with members is whole, and as many as have to be, of sub-groups and of each task."""
    begun = Counter(one.sub_group for one in members if one.sub_group is not None)
    there, tasks = begun + Counter(dict(gang.succeeded)), Counter(one.task for one in members)
    whole = Counter(name[0] for name, count in there.items() if count >= gang.sub_groups[name[0]].size)
    return (
        all(there[name] >= gang.sub_groups[name[0]].size for name in begun)
        and all(whole[number] >= some.minimum for number, some in enumerate(gang.sub_groups))
        and all(tasks[task] >= least for task, least in gang.task_minimums)
    )


def required(levels: Sequence[Level]) -> Iterator[Held]:
    """The levels that have to hold in any case. Inside a level with groups, a level holds for each group."""
    outer, per_sub_group = 0, False
    for depth, level in enumerate(levels, start=1):
        size = min(level.group_size or outer, outer) if outer else level.group_size
        per_sub_group = per_sub_group or level.per_sub_group
        if level.required:
            yield Held(depth, size, outer, per_sub_group, tuple(sorted(level.task_groups)))
        outer = size or outer


def positions(ranks: Mapping[str, int], leaders: Collection[str]) -> Mapping[str, int]:
    """The place of each pod by which groups are counted; leaders are in the first group."""
    others = {pod: rank for pod, rank in ranks.items() if pod not in leaders}
    if len(set(others.values())) < len(others):
        ordered = sorted(others, key=lambda pod: (ranks[pod], natural_sort_key(pod)))
        others = {pod: at for at, pod in enumerate(ordered)}
    return {**others, **dict.fromkeys(leaders, 0)}


def domain_of(labels: Mapping[str, str], levels: Sequence[Level]) -> tuple[str, ...]:
    """The values of the levels; () if one of them is missing."""
    values = tuple([labels.get(level.key, "") for level in levels])
    return values if all(values) else ()


class _Search(NamedTuple):
    cluster: Cluster
    trial: WhatIf
    tries: StepBudget


def _place(
    gang: Gang,
    left: Sequence[Member],
    domains: Mapping[Group, tuple[str, ...]],
    wanted: Wanted,
    search: _Search,
) -> bool:
    if not left:
        return True
    cluster, trial, tries = search
    demand, sub_group = left[0].demand, left[0].sub_group
    leaders = [member.demand.key for member in gang.members if member.leader]
    places = positions({member.demand.key: member.rank for member in gang.members}, leaders)
    found_groups = [held.group(places[demand.key], sub_group, left[0].task) for held in required(gang.levels)]
    groups = [group for group in found_groups if group is not None]
    for node in cluster.nodes:
        tries.spend()
        if tries.is_overdrawn:
            return False
        if demand.among is not None and node not in demand.among:
            continue
        labels = cluster.nodes.labels_of(node)
        inside = {group: domain_of(labels, gang.levels[: group[0]]) for group in groups}
        if any(not path or domains.get(group, path) != path for group, path in inside.items()):
            continue
        narrowed = _narrowed(replace(demand, among=(node,)), [*wanted.selectors()])
        found = find_place(narrowed, cluster.devices, cluster.nodes)
        if not isinstance(found, Placement):
            continue
        beside = wanted.beside(_values_of(found, cluster, [*wanted.exactly, *wanted.taken]))
        if beside is None:
            continue
        depth = trial.depth
        trial.place(demand, found)
        if _place(gang, left[1:], {**domains, **inside}, beside, search):
            return True
        trial.undo(depth)
    return False
