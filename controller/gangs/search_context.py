"""Inputs of a search in one domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.allocation import NodeDeviceCounts
from controller.gangs.bounds import Counts
from controller.gangs.levels import GroupNumber, Reach, Tier
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The levels that hold in one attempt, and the places, their bounds and devices: the same for all domains.

    Attributes:
        devices: devices of each place, if units of several shapes compete for them; else None.
    """

    tier: Tier
    places: DomainNodes
    counts: Counts
    devices: Sequence[NodeDeviceCounts] | None = None


@dataclass(frozen=True, slots=True)
class PackingRules:
    """Rules of one search.

    Attributes:
        most_children: most sub-domains that may be used; None for any number.
        anchors: the domains of groups with members that have a place.
        reach: places for members without devices; None if these are those of the others.
        close: the leader and rank 0, to be placed close to each other if that is easy.
        leader_first: whether the leader is placed before the others, so that there is more room close to it.
    """

    most_children: int | None
    anchors: Mapping[tuple[int, GroupNumber], Path]
    reach: Reach | None = None
    close: tuple[CoLocatedMembers, CoLocatedMembers] | None = None
    leader_first: bool = False
