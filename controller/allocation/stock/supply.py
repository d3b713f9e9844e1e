"""Which nodes could give how many devices, kept up to date by events; sets of nodes are integers, a bit for each.

A bit's place is the node's place in the order in which nodes are tried, so the lowest bit of a set is the node to try
first. What is kept here never says that a node suffices: it says of which nodes it need not be asked.
"""

from collections.abc import Mapping
from typing import Final

from controller.allocation.stock.pools import Pool, PoolKey
from controller.placement.order import in_order

MOST: Final = 32
"""Numbers of free devices that are told apart; the most that one request can ask for."""
_LOGGED: Final = 1 << 13
_SHIFTS: Final = 64


class Seat:
    """A node, or the name of one that only slices tell of so far.

    Attributes:
        bit: its place among the nodes that may be chosen; 0 if it has none.
        listed: whether it may be chosen.
        pools: those that are of this node alone.
        open: how many devices of these are available.
        clock: grows with every change to these pools, their usage or the node's labels.
    """

    __slots__ = ("bit", "clock", "labels", "listed", "name", "open", "order", "order_of", "pools")

    def __init__(self, name: str, labels: Mapping[str, str]):
        self.name = name
        self.labels = labels
        self.bit = 0
        self.listed = False
        self.pools: dict[PoolKey, Pool] = {}
        self.open = 0
        self.clock = 0
        self.order: list[tuple[Pool, int]] = []
        """The pools that reach the node in the order of allocation, each with its devices that do, as bits."""
        self.order_of = -1
        """The version of the pools that are not of one node which ``order`` takes in; -1 if it is out of date."""


class Supply:
    """The nodes in order, how many devices each has available, and where something was given back."""

    def __init__(self) -> None:
        self.seats: list[Seat] = []
        """Nodes by place. Those that are gone keep theirs until there are too many of them."""
        self.present = 0
        """The nodes that may be chosen."""
        self.sharing = 0
        """Nodes with devices of their own that can be shared, so that one can serve several requests."""
        self.numbering = 0
        """Grows whenever places change."""
        self._levels = [0] * (MOST + 1)
        self._stale: dict[Seat, None] = {}
        self._arrived: dict[Seat, None] = {}
        self._shifts: list[int] = []
        """Where places were inserted; the last brought about ``numbering``."""
        self._freed: list[Seat | None] = []
        self._freed_before = 0

    # Events

    def list(self, seat: Seat) -> None:
        """The node may be chosen."""
        seat.listed = True
        if seat.bit:
            self.present |= seat.bit
        else:
            self._arrived[seat] = None

    def unlist(self, seat: Seat) -> None:
        """The node may not be chosen any more."""
        seat.listed = False
        self._arrived.pop(seat, None)
        self.present &= ~seat.bit

    def change(self, seat: Seat) -> None:
        """What is available on the node may have changed."""
        seat.clock += 1
        self._stale[seat] = None

    def free(self, seat: Seat | None) -> None:
        """Something of the node (None: of many) was given back or added, so it may take what it refused before."""
        self._freed.append(seat)
        if len(self._freed) > _LOGGED:
            del self._freed[: _LOGGED // 2]
            self._freed_before += _LOGGED // 2

    # Questions

    @property
    def time(self) -> int:
        """A point in time for ``freed_since``; grows."""
        return self._freed_before + len(self._freed)

    def freed_since(self, time: int) -> int:
        """The nodes that were given something back since then."""
        if time < self._freed_before:
            return -1
        found = 0
        for seat in self._freed[time - self._freed_before :]:
            if seat is None:
                return -1
            found |= seat.bit
        return found

    def moved(self, nodes: int, numbering: int) -> int:
        """A set of nodes noted under an older numbering in today's; empty if that was too long ago."""
        behind = self.numbering - numbering
        if behind > len(self._shifts):
            return 0
        for place in self._shifts[len(self._shifts) - behind :]:
            nodes = _opened(nodes, place)
        return nodes

    def with_available(self, count: int) -> int:
        """The nodes that may be chosen and have at least ``count`` devices of their own available."""
        return self.present & self._levels[min(count, MOST)] if count > 0 else self.present

    def settle(self) -> None:
        """Take in what has happened."""
        if self._arrived:
            self._seat()
        for seat in self._stale:
            opened = sum(pool.available.bit_count() for pool in seat.pools.values() if not pool.problem)
            self._raise(seat, opened)
            shares = any(pool.multiple for pool in seat.pools.values())
            self.sharing = self.sharing | seat.bit if shares else self.sharing & ~seat.bit
        self._stale.clear()

    def _raise(self, seat: Seat, opened: int) -> None:
        before, after, bit = min(seat.open, MOST), min(opened, MOST), seat.bit
        seat.open = opened
        for level in range(before + 1, after + 1):
            self._levels[level] |= bit
        for level in range(after + 1, before + 1):
            self._levels[level] &= ~bit

    def _seat(self) -> None:
        """Give the nodes that arrived their places."""
        gone = sum(not seat.listed for seat in self.seats)
        if len(self._arrived) > _SHIFTS or gone > len(self.seats) // 2:
            self._renumber()
            return
        by_name = {seat.name: seat for seat in (*self.seats, *self._arrived)}
        self.seats = [by_name[name] for name in in_order(by_name)]
        for place, seat in enumerate(self.seats):
            if seat in self._arrived:
                self._shifts.append(place)
                self.present = _opened(self.present, place) | 1 << place
                self._levels = [_opened(level, place) for level in self._levels]
                self.sharing = _opened(self.sharing, place)
                seat.open = 0
                self._stale[seat] = None
            seat.bit = 1 << place
        self.numbering += len(self._arrived)
        del self._shifts[:-_SHIFTS]
        self._arrived.clear()

    def _renumber(self) -> None:
        by_name = {seat.name: seat for seat in (*self.seats, *self._arrived) if seat.listed}
        for seat in self.seats:
            seat.bit = seat.open = 0
        self.seats = [by_name[name] for name in in_order(by_name)]
        for place, seat in enumerate(self.seats):
            seat.bit, seat.open = 1 << place, 0
        self.present = (1 << len(self.seats)) - 1
        self._levels = [0] * (MOST + 1)
        self.sharing = 0
        self._stale = dict.fromkeys((*self._stale, *self.seats))
        self.numbering += len(self._shifts) + 1
        self._shifts.clear()
        self._arrived.clear()


def first(nodes: int) -> int:
    """The place of the first node of a set that is not empty."""
    return (nodes & -nodes).bit_length() - 1


def _opened(nodes: int, place: int) -> int:
    """The set with an empty place inserted."""
    below = nodes & ((1 << place) - 1)
    return (nodes >> place) << (place + 1) | below
