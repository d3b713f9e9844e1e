"""Keeps searches that ran out of steps, so that the next decision about the gang continues them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.cluster import Cluster
from controller.gangs.exact_packing import Packing
from controller.gangs.gang import Gang
from controller.gangs.staging import Staging
from controller.gangs.topology import DomainNodes
from controller.gangs.units import CoLocatedMembers

_MOST: Final = 16
"""Most searches that are kept. Others start anew."""


@dataclass(frozen=True, slots=True)
class UnfinishedSearch:
    """A search in one domain, with the units that are on places."""

    staging: Staging
    packing: Packing


@dataclass(frozen=True, slots=True)
class _Kept:
    places: DomainNodes
    version: Hashable
    search: UnfinishedSearch | None
    """None if the search has found that there is no way."""


class Unfinished:
    """Searches for one gang. They are valid while the gang asks for the same and the domain has not changed.

    Attributes:
        tries: number of decisions that ended undecided.
    """

    def __init__(self) -> None:
        self.tries = 0
        self._asked: object = None
        self._depends_on_members = False
        self._kept: dict[Hashable, _Kept] = {}

    def ask(self, gang: Gang, units: Sequence[CoLocatedMembers], cluster: Cluster) -> bool:
        """Forget searches for other questions. Returns False if searches for this question cannot be kept."""
        if cluster.nodes.on_trial:
            return False
        asked = replace(gang, elapsed=0.0), [unit.shape.key for unit in units]
        if asked != self._asked:
            self._kept.clear()
            self._asked = asked
        self._depends_on_members = any(unit.shape.depends_on_members for unit in units)
        return True

    def take(
        self, key: Hashable, places: DomainNodes, inside: Sequence[int], cluster: Cluster
    ) -> UnfinishedSearch | bool:
        """The search ``key`` in a domain, to continue it. If there is none: whether there may be a way."""
        kept = self._kept.pop(key, None)
        if kept is None or kept.places is not places or kept.version != self._version(places, inside, cluster):
            return True
        if kept.search is None:
            self._kept[key] = kept
            return False
        return kept.search

    def keep(
        self,
        key: Hashable,
        search: UnfinishedSearch | None,
        places: DomainNodes,
        inside: Sequence[int],
        cluster: Cluster,
    ) -> None:
        """Keep a search that ran out of steps; None stands for a search that has found no way."""
        if search is None or sum(one.search is not None for one in self._kept.values()) < _MOST:
            self._kept[key] = _Kept(places, self._version(places, inside, cluster), search)

    def _version(self, places: DomainNodes, inside: Sequence[int], cluster: Cluster) -> Hashable:
        """A version that changes with everything that can change the result."""
        nodes = cluster.nodes
        everywhere = nodes.generation if self._depends_on_members else 0
        stamps = places.stamps()
        return nodes.common_version, cluster.devices.shared_usage, everywhere, tuple([stamps[at] for at in inside])
