"""Room that is kept for pods which preempt others, from the decision until they have their devices. Pure.

A room is a node with devices that others still hold, or have just given up. It counts as used: everybody sees it so but
the pod that it is kept for, its gang, and pods of higher priority. These may take it, as they may take room that
kube-scheduler keeps for a nominated pod; whoever it was kept for is then decided about anew.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from controller.allocation import Fleet
from controller.placement import Nodes
from driver.model import Allocation, Claim

Preemptor = tuple[Literal["pod", "gang"], str]
"""Who has others evicted: a pod or a gang, by key."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is kept for one pod.

    Attributes:
        pod: ``namespace/name``.
        allocations: what its claims get.
    """

    pod: str
    uid: str
    node: str
    allocations: tuple[tuple[Claim, Allocation], ...] = ()


@dataclass(slots=True)
class _Kept:
    priority: int
    rooms: tuple[Room, ...]
    held: tuple[str, ...]


class Rooms:
    """The rooms by preemptor: a pod, or a gang with a room for each of its members."""

    def __init__(self, devices: Fleet, nodes: Nodes):
        self._devices = devices
        self._nodes = nodes
        self._kept: dict[Preemptor, _Kept] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def of(self, preemptor: Preemptor) -> Sequence[Room]:
        """Return the rooms of a pod or gang."""
        kept = self._kept.get(preemptor)
        return kept.rooms if kept else ()

    def node_of(self, pod: str) -> str:
        """Return the node where room is kept for the pod; "" if there is none."""
        return self._node_of.get(pod, "")

    def on(self, nodes: Collection[str]) -> list[Preemptor]:
        """Return the preemptors with a room on one of these nodes; all of them if "" is one."""
        return [
            key for key, kept in self._kept.items() if "" in nodes or any(room.node in nodes for room in kept.rooms)
        ]

    def keep(self, preemptor: Preemptor, priority: int, rooms: Sequence[Room]) -> None:
        """Count the devices of rooms as used, in place of those that the preemptor had."""
        self.end(preemptor)
        held = {f"what is kept for {claim.key}": allocation for room in rooms for claim, allocation in room.allocations}
        for name, allocation in held.items():
            self._devices.assume(name, _closed(allocation))
        self._kept[preemptor] = _Kept(priority, tuple(rooms), tuple(held))
        self._node_of |= {room.pod: room.node for room in rooms}

    def end(self, preemptor: Preemptor) -> Sequence[Room]:
        """Stop keeping the rooms of a preemptor, and return them."""
        kept = self._kept.pop(preemptor, None)
        if kept is None:
            return ()
        for uid in kept.held:
            self._devices.forget(uid)
        for room in kept.rooms:
            self._node_of.pop(room.pod, None)
        return kept.rooms

    @property
    def preemptors(self) -> Mapping[Preemptor, Sequence[Room]]:
        """The rooms of every preemptor."""
        return {key: kept.rooms for key, kept in self._kept.items()}

    @contextmanager
    def open_to(self, preemptor: Preemptor, priority: int) -> Iterator[bool]:
        """Let the rooms go on trial that the pod or gang may take: its own, and those for lower priorities.

        Yields whether there are any. Meanwhile no event may reach the fleet or the nodes.
        """
        opened = [kept for key, kept in self._kept.items() if key == preemptor or kept.priority < priority]
        held = [uid for kept in opened for uid in kept.held]
        for uid in held:
            self._devices.lift(uid)
        lifted = [one for kept in opened for room in kept.rooms if (one := self._nodes.lift(room.pod)) is not None]
        try:
            yield bool(opened)
        finally:
            for one in reversed(lifted):
                self._nodes.put_back(one)
            for uid in held:
                self._devices.put_back(uid)


def _closed(allocation: Allocation) -> Allocation:
    """Return the allocation with whole devices in place of shares.

    A victim may hold the whole card. If a share of it counted beside that, the card would look as if it were shared
    already, and had room for further shares.
    """
    results = tuple(replace(result, share_id="", consumed={}) for result in allocation.results)
    return replace(allocation, results=results)
