"""Room that is kept for pods which preempt others, from the decision until they have their devices. Pure.

A room is a node with devices that others still hold, or have just given up. It counts as used: everybody sees it so but
the pod that it is kept for, the other members of its gang, and pods of higher priority. These may take it, as they may
take room that kube-scheduler keeps for a nominated pod; whoever it was kept for is then decided about anew.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller.allocation import Fleet
from controller.placement import Nodes
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class Room:
    """What is kept for one pod.

    Attributes:
        pod: ``namespace/name``.
        priority: pods of higher priority may take it. The least of its gang, if it is a member.
        allocations: what its claims get. A claim that members of a gang share is in the room of one of them.
    """

    pod: str
    uid: str
    node: str
    priority: int
    allocations: tuple[tuple[Claim, Allocation], ...] = ()


@dataclass(slots=True)
class _Kept:
    room: Room
    held: tuple[str, ...]


class Rooms:
    """The room of each pod that preempts others."""

    def __init__(self, devices: Fleet, nodes: Nodes):
        self._devices = devices
        self._nodes = nodes
        self._kept: dict[str, _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def of(self, pod: str) -> Room | None:
        """Return the room of a pod (key); None if none is kept for it."""
        kept = self._kept.get(pod)
        return kept.room if kept else None

    def on(self, nodes: Collection[str]) -> list[str]:
        """Return the pods with a room on one of these nodes; all that have a room if "" is one."""
        return [pod for pod, kept in self._kept.items() if "" in nodes or kept.room.node in nodes]

    def keep(self, room: Room) -> None:
        """Count the devices of a room as used, in place of those that its pod had."""
        self.end(room.pod)
        held = {f"what is kept for {claim.key}": allocation for claim, allocation in room.allocations}
        for name, allocation in held.items():
            self._devices.assume(name, _closed(allocation))
        self._kept[room.pod] = _Kept(room, tuple(held))

    def end(self, pod: str) -> Room | None:
        """Stop keeping the room of a pod, and return it."""
        kept = self._kept.pop(pod, None)
        if kept is None:
            return None
        for uid in kept.held:
            self._devices.forget(uid)
        return kept.room

    @property
    def pods(self) -> Collection[str]:
        """The pods for which room is kept."""
        return self._kept.keys()

    @contextmanager
    def open_to(self, pods: Collection[str], priority: int) -> Iterator[bool]:
        """Let the rooms go on trial that these pods may take: their own, and those for lower priorities.

        Yields whether there are any. Meanwhile no event may reach the fleet or the nodes.

        Args:
            pods: a pod, or all members of a gang (keys).
            priority: the least of these.
        """
        opened = [kept for key, kept in self._kept.items() if key in pods or kept.room.priority < priority]
        held = [uid for kept in opened for uid in kept.held]
        for uid in held:
            self._devices.lift(uid)
        lifted = [one for kept in opened if (one := self._nodes.lift(kept.room.pod)) is not None]
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
