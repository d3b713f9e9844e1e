"""Whether a gang fits, found by trying every node for every member: what a refusal must agree with in small clusters.

It shares nothing with how gangs are decided but what one pod may have on one node. What it finds is a way to place the
gang; that it finds none proves nothing, because every pod takes the first devices that fit.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from controller.cluster import Cluster, WhatIf
from controller.gangs import Gang, Level, Member, SubGroup, natural_sort_key
from controller.gangs.exact_packing import StepBudget
from controller.placement import Placement, find_place

MOST_MEMBERS: Final = 6
_MOST_TRIES: Final = 2_000


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

    False, too, if that is not found out: for gangs of which members stand, share claims or are too many, and for levels
    that are attributes.
    """
    uids = [claim.uid for member in gang.members for claim in member.demand.claims]
    known = all(level.kind == "nodeLabel" for level in gang.levels)
    if gang.standing or len(gang.members) > MOST_MEMBERS or len(set(uids)) < len(uids) or not known:
        return False
    with cluster.what_if() as trial:
        tries = StepBudget(_MOST_TRIES)
        return any(_place(gang, members, {}, cluster, trial, tries) for members in enough(gang))


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


def _place(
    gang: Gang,
    left: Sequence[Member],
    domains: Mapping[Group, tuple[str, ...]],
    cluster: Cluster,
    trial: WhatIf,
    tries: StepBudget,
) -> bool:
    if not left:
        return True
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
        found = find_place(replace(demand, among=(node,)), cluster.devices, cluster.nodes)
        if not isinstance(found, Placement):
            continue
        depth = trial.depth
        trial.place(demand, found)
        if _place(gang, left[1:], {**domains, **inside}, cluster, trial, tries):
            return True
        trial.undo(depth)
    return False
