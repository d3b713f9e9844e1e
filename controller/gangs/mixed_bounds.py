"""Upper bounds for members of all shapes together, which compete for devices, CPU and memory.

By the bounds of single shapes (``bounds``), a node with 10 cards takes a member with 6 cards and another one with 5.
A domain with too low a bound needs no search, which could take very many steps to find that nothing fits.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from controller.allocation import NodeDeviceCounts
from controller.gangs.fitting import fewest
from controller.gangs.topology import DomainNodes, Path
from controller.gangs.units import CoLocatedMembers
from controller.placement import Nodes
from driver.quantity import NANO

_CARDS: Final = "devices"
"""Stands for devices. No resource of nodes has this name: theirs are qualified, or known ones."""
_PODS: Final = "pods"


class Competition:
    """Bounds all members together by the least amounts that any number of them asks for.

    Args:
        devices: devices of each place.
    """

    def __init__(
        self, units: Sequence[CoLocatedMembers], places: DomainNodes, devices: Sequence[NodeDeviceCounts], nodes: Nodes
    ):
        self._places = places
        self._devices = devices
        self._nodes = nodes
        pods = [pod for unit in units for pod in unit.shape.pods]
        self._members = len(pods)
        counted = any(member.demand.bound_to or nodes.node_of(member.demand.key) for u in units for member in u.members)
        asked: dict[str, list[int]] = {}
        if not counted:
            # What a pod takes already counts on its node, but not against itself.
            requests = [needs.requests for unit in units for needs in unit.shape.counted]
            names = sorted({name for one in requests for name in one})
            asked = {name: [one.get(name, 0) for one in requests] for name in names}
            asked[_PODS] = [NANO] * len(pods)
        if len(pods) == len(units):
            asked[_CARDS] = [unit.shape.request.total_devices for unit in units]
        self._sums: Mapping[str, Sequence[int]] = {name: [*accumulate(sorted(each))] for name, each in asked.items()}
        """For each resource, the request of the smallest member, of the smallest two together, and so on."""

    def members(self, inside: Sequence[int], rooms: Sequence[int]) -> int:
        """Most members on the places.

        Args:
            rooms: most members on each of the places, if shapes did not compete.
        """
        found = 0
        left: dict[str, int | None] = {}
        for at, room in zip(inside, rooms, strict=True):
            if not room:
                continue
            most = room
            for name, sums in self._sums.items():
                free, total = self._free(at, name), left.get(name, 0)
                left[name] = None if free is None or total is None else total + free
                if free is not None:
                    most = min(most, bisect_right(sums, free))
            found += most
        together = [bisect_right(self._sums[name], free) for name, free in left.items() if free is not None]
        return min([self._members, found, *together])

    def fewest_children(self, children: Mapping[Path, Sequence[int]], members: int) -> int:
        """Fewest domains of the next level that take so many members.

        Args:
            children: the places of each of these domains.
        """
        found = 1
        for name, sums in self._sums.items():
            rooms = {}
            for path, inside in children.items():
                free = [self._free(at, name) for at in inside]
                if None in free:
                    break
                rooms[path] = sum([amount for amount in free if amount is not None])
            else:
                found = max(found, fewest(rooms, sums[members - 1]))
        return found

    def _free(self, at: int, name: str) -> int | None:
        """Free amount of the resource on the place; None if the resource is no limit."""
        if name == _CARDS:
            devices = self._devices[at]
            return None if devices.shareable else devices.available
        view = self._nodes.view(self._places[at].node)
        total = view.facts.allocatable.get(name, 0) if view.facts else 0
        if name == _PODS:
            return max(0, total - view.pods * NANO)
        # Devices can stand for a resource that the node lacks.
        return max(0, total - view.used.get(name, 0)) if total else None
