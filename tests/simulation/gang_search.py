"""Whether a gang fits, found by trying every node for every member: what a refusal must agree with in small clusters.

It shares nothing with how gangs are decided but what one pod may have on one node. What it finds is a way to place the
gang; that it finds none proves nothing, because every pod takes the first devices that fit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.allocation import Fleet
from controller.gangs import Gang, Level, Member, natural
from controller.gangs.budget import Budget
from controller.placement import Nodes, Placement, Trial

MOST_MEMBERS: Final = 5
_MOST_TRIES: Final = 2_000


Group = tuple[int, tuple[int, ...]]
"""A level by its depth, and which of its groups."""


@dataclass(frozen=True, slots=True)
class Held:
    """A level that has to hold for each group of ``size``, inside groups of ``outer``; 0 for the whole gang."""

    depth: int
    size: int
    outer: int

    def group(self, position: int) -> Group:
        """The group of the member at this position."""
        if self.outer:
            return self.depth, (position // self.outer, position % self.outer // self.size)
        return self.depth, (position // self.size,) if self.size else ()


def fits(gang: Gang, fleet: Fleet, nodes: Nodes) -> bool:
    """Whether all members of a gang that has not started can be placed at once, with the levels that are required.

    False, too, if that is not found out: for gangs of which members stand, share claims, form sub-groups or are too
    many, and for levels that are attributes.
    """
    uids = [claim.uid for member in gang.members for claim in member.demand.claims]
    known = all(level.kind == "nodeLabel" for level in gang.levels)
    few = max(1, gang.minimum) <= len(gang.members) <= MOST_MEMBERS
    if gang.standing or gang.sub_groups or not few or len(set(uids)) < len(uids) or not known:
        return False
    with Trial(fleet, nodes) as trial:
        return _place(gang, gang.members, {}, nodes, trial, Budget(_MOST_TRIES))


def required(levels: Sequence[Level]) -> Iterator[Held]:
    """The levels that have to hold in any case. Inside a level with groups, a level holds for each group."""
    outer = 0
    for depth, level in enumerate(levels, start=1):
        size = min(level.group_size or outer, outer) if outer else level.group_size
        if level.per_sub_group:
            # Which sub-groups there are is not known here.
            return
        if level.required:
            yield Held(depth, size, outer)
        outer = size or outer


def positions(ranks: Mapping[str, int], leaders: Collection[str]) -> Mapping[str, int]:
    """The place of each pod by which groups are counted; leaders are in the first group."""
    others = {pod: rank for pod, rank in ranks.items() if pod not in leaders}
    if len(set(others.values())) < len(others):
        ordered = sorted(others, key=lambda pod: (ranks[pod], natural(pod)))
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
    nodes: Nodes,
    trial: Trial,
    tries: Budget,
) -> bool:
    if not left:
        return True
    demand = left[0].demand
    leaders = [member.demand.key for member in gang.members if member.leader]
    places = positions({member.demand.key: member.rank for member in gang.members}, leaders)
    groups = [held.group(places[demand.key]) for held in required(gang.levels)]
    for node in nodes:
        tries.spend()
        if tries.is_overdrawn:
            return False
        if demand.among is not None and node not in demand.among:
            continue
        labels = nodes.labels_of(node)
        inside = {group: domain_of(labels, gang.levels[: group[0]]) for group in groups}
        if any(not path or domains.get(group, path) != path for group, path in inside.items()):
            continue
        found = trial.find(replace(demand, among=(node,)))
        if not isinstance(found, Placement):
            continue
        trial.count(demand, found)
        if _place(gang, left[1:], {**domains, **inside}, nodes, trial, tries):
            return True
        trial.undo()
    return False
