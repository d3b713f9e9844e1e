"""The number of available devices of each node, kept up to date by events.

A set of nodes is an integer with a bit for each node. A node's bit stands at the node's position in natural order, so
the lowest bit of a set is the first node to try. The numbers rule nodes out without a look at their devices. They never
prove that a node is sufficient.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from controller.allocation.devices.pools import NodeSlot
from driver.bounded import BoundedCache

MOST: Final = 32
"""The highest number that is counted; no request can ask for more devices."""
_LOGGED: Final = 1 << 13
_SHIFTS: Final = 64
_MOST_LEARNT: Final = 4096


class NodeAvailability:
    """The nodes in order, with the numbers of available devices, and the times at which devices were freed."""

    def __init__(self) -> None:
        self.slots: list[NodeSlot] = []
        """Nodes by position. Deleted nodes keep their position until there are too many of them."""
        self.present = 0
        """The nodes that exist."""
        self.sharing = 0
        """Nodes with shareable devices of their own: one device can serve several requests."""
        self.numbering = 0
        """Grows whenever positions change."""
        self._levels = [0] * (MOST + 1)
        self._tick = 0
        self._stale: dict[NodeSlot, None] = {}
        self._arrived: dict[NodeSlot, None] = {}
        self._shifts: list[int] = []
        """The positions that were inserted; the last insertion led to ``numbering``."""
        self._freed: list[NodeSlot | None] = []
        self._freed_before = 0

    # Events

    def list(self, slot: NodeSlot) -> None:
        """Add a node."""
        slot.listed = True
        if slot.bit:
            self.present |= slot.bit
        else:
            self._arrived[slot] = None

    def unlist(self, slot: NodeSlot) -> None:
        """Remove a node."""
        slot.listed = False
        self._arrived.pop(slot, None)
        self.present &= ~slot.bit

    def change(self, slot: NodeSlot) -> None:
        """Count the node's available devices again when they are asked for."""
        slot.clock = self.tick()
        self._stale[slot] = None

    def tick(self) -> int:
        """A number for a version that there has not been before, not even on trial."""
        self._tick += 1
        return self._tick

    def free(self, slot: NodeSlot | None) -> None:
        """Devices of the node (None: of any node) were freed or added, so it may fit what did not fit before."""
        self._freed.append(slot)
        if len(self._freed) > _LOGGED:
            del self._freed[: _LOGGED // 2]
            self._freed_before += _LOGGED // 2

    # Questions

    @property
    def time(self) -> int:
        """The current time for ``freed_since``; it only grows."""
        return self._freed_before + len(self._freed)

    def freed_since(self, time: int) -> int:
        """The nodes with devices that were freed since then."""
        if time < self._freed_before:
            return -1
        found = 0
        for slot in self._freed[time - self._freed_before :]:
            if slot is None:
                return -1
            found |= slot.bit
        return found

    def moved(self, nodes: int, numbering: int) -> int:
        """A set of nodes of an older numbering in the current one; empty if the older one is not known any more."""
        behind = self.numbering - numbering
        if behind > len(self._shifts):
            return 0
        for position in self._shifts[len(self._shifts) - behind :]:
            nodes = _with_gap(nodes, position)
        return nodes

    def in_order(self, nodes: int) -> Iterator[NodeSlot]:
        """The nodes of a set in natural order, which is the order of their names."""
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            yield self.slots[low.bit_length() - 1]

    def with_available(self, count: int) -> int:
        """The nodes that exist and have at least ``count`` devices of their own available."""
        return self.present & self._levels[min(count, MOST)] if count > 0 else self.present

    def settle(self) -> None:
        """Bring everything up to date with the events so far."""
        if self._arrived:
            self._insert()
        for slot in self._stale:
            available = sum(pool.available.bit_count() for pool in slot.pools.values() if not pool.problem)
            self._set_available(slot, available)
            shareable = any(pool.shareable for pool in slot.pools.values())
            self.sharing = self.sharing | slot.bit if shareable else self.sharing & ~slot.bit
        self._stale.clear()

    def _set_available(self, slot: NodeSlot, available: int) -> None:
        before, after, bit = min(slot.available, MOST), min(available, MOST), slot.bit
        slot.available = available
        for level in range(before + 1, after + 1):
            self._levels[level] |= bit
        for level in range(after + 1, before + 1):
            self._levels[level] &= ~bit

    def _insert(self) -> None:
        """Give the nodes that were added their positions."""
        deleted = sum(not slot.listed for slot in self.slots)
        if len(self._arrived) > _SHIFTS or deleted > len(self.slots) // 2:
            self._renumber()
            return
        by_name = {slot.name: slot for slot in (*self.slots, *self._arrived)}
        self.slots = [by_name[name] for name in sorted(by_name)]
        # A few nodes are inserted into every set, so that what was learnt about the others can move along (``moved``).
        for position, slot in enumerate(self.slots):
            if slot in self._arrived:
                self._shifts.append(position)
                self.present = _with_gap(self.present, position) | 1 << position
                self._levels = [_with_gap(level, position) for level in self._levels]
                self.sharing = _with_gap(self.sharing, position)
                slot.available = 0
                self._stale[slot] = None
            slot.bit = 1 << position
        self.numbering += len(self._arrived)
        del self._shifts[:-_SHIFTS]
        self._arrived.clear()

    def _renumber(self) -> None:
        """Number all nodes again, without the deleted ones. Every ``NodeMemory`` becomes void."""
        by_name = {slot.name: slot for slot in (*self.slots, *self._arrived) if slot.listed}
        for slot in self.slots:
            slot.bit = slot.available = 0
        self.slots = [by_name[name] for name in sorted(by_name)]
        for position, slot in enumerate(self.slots):
            slot.bit, slot.available = 1 << position, 0
        self.present = (1 << len(self.slots)) - 1
        self._levels = [0] * (MOST + 1)
        self.sharing = 0
        self._stale = dict.fromkeys((*self._stale, *self.slots))
        self.numbering += len(self._shifts) + 1
        self._shifts.clear()
        self._arrived.clear()


def _with_gap(nodes: int, position: int) -> int:
    """The set with an empty position inserted at ``position``."""
    below = nodes & ((1 << position) - 1)
    return (nodes >> position) << (position + 1) | below


class NodeMemory:
    """Remembers, for one compiled request, which nodes do not fit and how often others do."""

    def __init__(self, availability: NodeAvailability):
        self._availability = availability
        self._impossible = 0
        self._time = availability.time
        self._numbering = availability.numbering
        self._no_fit: BoundedCache[NodeSlot, tuple[int, int, int]] = BoundedCache(_MOST_LEARNT)
        """Per node that does not fit: its clock, the usage of shared pools, and the steps of the search that found
        nothing; 0 if none can find anything."""
        self._counts: BoundedCache[Hashable, int] = BoundedCache(_MOST_LEARNT)
        self._reach: tuple[Sequence[Hashable], int] = ((), 0)

    def impossible(self) -> int:
        """The nodes that do not fit the request until devices of them are freed."""
        availability = self._availability
        if self._numbering != availability.numbering:
            self._impossible = availability.moved(self._impossible, self._numbering)
            self._numbering = availability.numbering
        if self._time != availability.time:
            if self._impossible:
                self._impossible &= ~availability.freed_since(self._time)
            self._time = availability.time
        return self._impossible

    def learn_impossible(self, slot: NodeSlot) -> None:
        """Record that the node does not fit the request until devices of it are freed."""
        # Nodes may have been numbered anew since something was learnt last.
        self._impossible = self.impossible() | slot.bit

    def is_no_fit(self, slot: NodeSlot, shared_usage: int, steps: int) -> bool:
        """True if a search of so many steps is known to find nothing on the node.

        Neither the node nor the usage of shared pools has changed since.
        """
        known = self._no_fit.get(slot)
        return known is not None and known[:2] == (slot.clock, shared_usage) and not 0 < known[2] < steps

    def is_undecided(self, slot: NodeSlot, shared_usage: int) -> bool:
        """True if ``is_no_fit`` is not certain, because the search ran out of steps."""
        known = self._no_fit.get(slot)
        return known is not None and known[:2] == (slot.clock, shared_usage) and known[2] > 0

    def learn_no_fit(self, slot: NodeSlot, shared_usage: int, *, too_few_steps: int = 0) -> None:
        """Record that the node does not fit the request at this usage of shared pools. Any change may make it fit.

        Args:
            too_few_steps: the search ended after so many steps, so a longer one may fit; 0 if it was complete.
        """
        self._no_fit[slot] = slot.clock, shared_usage, too_few_steps

    def count(self, fingerprint: Hashable) -> int | None:
        """The number of times that nodes with this fingerprint fit the request; None if it is not known."""
        return self._counts.get(fingerprint)

    def learn_count(self, fingerprint: Hashable, count: int) -> None:
        """Record how many times nodes with this fingerprint fit the request."""
        self._counts[fingerprint] = count

    def reach(self, versions: Sequence[Hashable]) -> int | None:
        """The nodes with enough matching devices, in use or not; None if they are not known for these versions."""
        return self._reach[1] if self._reach[0] == versions else None

    def learn_reach(self, versions: Sequence[Hashable], nodes: int) -> None:
        """Record the nodes with enough matching devices at these versions."""
        self._reach = versions, nodes
