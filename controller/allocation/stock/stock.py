"""The devices of the fleet and where they are: what slices, nodes and taint rules say, kept up to date by events."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller.allocation.stock.layout import Layouts
from controller.allocation.stock.matching import Matching
from controller.allocation.stock.nodes import reaches
from controller.allocation.stock.pools import Pool, PoolKey, Unit
from controller.allocation.stock.supply import Seat, Supply
from controller.allocation.stock.taints import applies
from controller.allocation.stock.usage import Changes, Use, only_more
from driver.model import DeviceId, Slice, TaintRule

_EVERYWHERE: Final = ""


class Stock:
    """All pools, where they reach, and what of them is left. A change to a slice touches its pool and no other.

    Attributes:
        matching: what selectors select of the usable pools.
        supply: the nodes, and how much each has available.
        pools: all of them; those whose slices changed are missing until ``settle``.
        roaming: those that are not of one node.
        roamed: grows with every change to these or their usage.
        roamers: grows when one of these comes or goes.

    Args:
        uses: what is in use, by device; changes are told with ``note``.
    """

    def __init__(self, uses: Mapping[DeviceId, Use]) -> None:
        self.matching = Matching()
        self.supply = Supply()
        self.roaming: dict[PoolKey, Pool] = {}
        self.roamed = 0
        self.roamers = 0
        self._uses = uses
        self._layouts = Layouts()
        self._slices: dict[str, Slice] = {}
        self._members: dict[PoolKey, dict[str, Slice]] = {}
        self._at: dict[str, dict[PoolKey, int]] = {}
        """Per node name ("" for slices that are not of one named node): pools with slices there, and how many."""
        self.pools: dict[PoolKey, Pool] = {}
        self._outdated: dict[PoolKey, None] = {}
        self._units: dict[DeviceId, Unit] = {}
        self._rules: dict[str, TaintRule] = {}
        self._seats: dict[str, Seat] = {}

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that ``place`` and ``room`` may choose was added, or its labels changed."""
        seat = self._seat(name)
        if seat.listed and seat.labels == labels:
            return
        seat.labels = labels
        seat.order_of = -1
        self.supply.list(seat)
        self.supply.change(seat)
        self.supply.free(seat)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pools and what is allocated there stay known."""
        if seat := self._seats.get(name):
            seat.labels = {}
            seat.order_of = -1
            self.supply.unlist(seat)
            self._tidy()

    def upsert_slice(self, part: Slice) -> None:
        """A ResourceSlice was added or changed."""
        before = self._slices.get(part.name)
        if before == part:
            return
        if before is not None:
            self._unlink(before)
        self._slices[part.name] = part
        key = (part.driver, part.pool)
        self._members.setdefault(key, {})[part.name] = part
        at = self._at.setdefault(part.scope.node_name, {})
        at[key] = at.get(key, 0) + 1
        self._outdate(key)

    def remove_slice(self, name: str) -> None:
        """A ResourceSlice is gone; what is allocated from it stays in use."""
        before = self._slices.pop(name, None)
        if before is not None:
            self._unlink(before)

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """A DeviceTaintRule was added or changed."""
        before = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._taint([rule] if before is None else [before, rule])

    def remove_taint_rule(self, name: str) -> None:
        """A DeviceTaintRule is gone."""
        if before := self._rules.pop(name, None):
            self._taint([before])

    def note(self, changes: Changes) -> None:
        """The use of devices changed."""
        for device, before, after in changes:
            unit = self._units.get(device)
            if unit is not None:
                unit.pool.set_use(unit, after)
                self._changed(unit.pool, only_less=only_more(before, after) and unit.pool.soundly_drawn(unit))

    # Questions

    def settle(self) -> None:
        """Take in what has happened."""
        for key in tuple(self._outdated):
            self._pool(key)
        self.supply.settle()

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """What is left of the counters of every pool that has any (nanos, in the pool's order)."""
        self.settle()
        return {key: tuple(pool.free) for key, pool in self.pools.items() if pool.free}

    def seat(self, name: str, labels: Mapping[str, str]) -> Seat:
        """The node of this name if it has these labels, whether it may be chosen or not."""
        for key in (*self._at.get(name, ()), *self._at.get(_EVERYWHERE, ())):
            self._pool(key)
        seat = self._seats.get(name)
        if seat is None or (seat.labels != labels and self.roaming):
            seat = Seat(name, labels)
            seat.pools = {key: pool for key in self._at.get(name, ()) if (pool := self._pool(key)).one_node == name}
        return seat

    def order(self, seat: Seat) -> list[tuple[Pool, int]]:
        """The pools that reach the node in the order of allocation, each with its devices that do."""
        if seat.order_of != self.roamers:
            order = [(pool, pool.layout.every) for pool in seat.pools.values()]
            for pool in self.roaming.values():
                visible = sum(1 << unit.index for unit in pool.units if reaches(unit.scope, seat.name, seat.labels))
                if visible or any(reaches(part.scope, seat.name, seat.labels) for part in pool.parts):
                    order.append((pool, visible))
            seat.order = sorted(order, key=lambda entry: (entry[0].late, entry[0].key))
            seat.order_of = self.roamers
        return seat.order

    # Upkeep

    def _seat(self, name: str) -> Seat:
        seat = self._seats.get(name)
        if seat is None:
            seat = self._seats[name] = Seat(name, {})
        return seat

    def _tidy(self) -> None:
        """Forget names that neither a node nor a pool has any more, once there are many."""
        if len(self._seats) > 2 * len(self.supply.seats) + 64:
            used = {name: seat for name, seat in self._seats.items() if seat.listed or seat.pools or seat.bit}
            self._seats = used

    def _unlink(self, part: Slice) -> None:
        key = (part.driver, part.pool)
        del self._members[key][part.name]
        at = self._at[part.scope.node_name]
        at[key] -= 1
        if not at[key]:
            del at[key]
        if not at:
            del self._at[part.scope.node_name]
        if not self._members[key]:
            del self._members[key]
        self._outdate(key)

    def _outdate(self, key: PoolKey) -> None:
        """Forget what was made of the pool's slices; it is made anew when it is asked for."""
        if key in self._members:
            self._outdated[key] = None
        else:
            self._outdated.pop(key, None)
        pool = self.pools.pop(key, None)
        if pool is None:
            return
        for unit in pool.units:
            if self._units.get(unit.id) is unit:
                del self._units[unit.id]
        if not pool.problem:
            self.matching.drop(pool)
        if pool.seat is None:
            del self.roaming[key]
            self.roamers += 1
        else:
            del pool.seat.pools[key]
            pool.seat.order_of = -1
        self._changed(pool, only_less=False)

    def _pool(self, key: PoolKey) -> Pool:
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(key, self._members[key].values(), self._uses, self._layouts)
            self._outdated.pop(key, None)
            self._units.update((unit.id, unit) for unit in pool.units)
            if self._rules:
                self._taint_units(pool)
            if pool.one_node:
                pool.seat = self._seat(pool.one_node)
                pool.seat.pools[key] = pool
                pool.seat.order_of = -1
            else:
                self.roaming[key] = pool
                self.roamers += 1
            if not pool.problem:
                self.matching.add(pool)
            self._changed(pool, only_less=False)
        return pool

    def _changed(self, pool: Pool, *, only_less: bool) -> None:
        """The pool has changed: only by giving less, or in any way."""
        if pool.seat is None:
            self.roamed += 1
        else:
            self.supply.change(pool.seat)
        if not only_less:
            self.supply.free(pool.seat)

    def _taint(self, rules: Sequence[TaintRule]) -> None:
        """Rules have come or gone."""
        for pool in self.pools.values():
            if any(rule.driver in ("", pool.key[0]) and rule.pool in ("", pool.key[1]) for rule in rules):
                self._taint_units(pool)
                self._changed(pool, only_less=False)

    def _taint_units(self, pool: Pool) -> None:
        for unit in pool.units:
            ruled = tuple(rule.taint for _, rule in sorted(self._rules.items()) if applies(rule, unit.id))
            pool.set_taints(unit, unit.device.taints + ruled)
