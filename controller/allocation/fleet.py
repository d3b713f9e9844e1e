"""Every device of the cluster and what is in use, kept up to date by events; and the decision which devices to use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.attempt import Attempt, FaultyDevice, Pick
from controller.allocation.candidates import Node, Survey
from controller.allocation.layout import Layouts, bits
from controller.allocation.matching import Matching
from controller.allocation.nodes import reaches
from controller.allocation.outcome import allocation
from controller.allocation.pools import Pool, PoolKey, Unit
from controller.allocation.quick import Answer, Quick
from controller.allocation.ranking import Ranking, prefers
from controller.allocation.reasons import Unsatisfiable
from controller.allocation.room import times
from controller.allocation.search import STEP_LIMIT, Search, SearchEnded, first_fit
from controller.allocation.shapes import Shape, Shapes
from controller.allocation.standing import Standings, standings
from controller.allocation.states import state
from controller.allocation.supply import Seat, Supply
from controller.allocation.taints import applies
from controller.allocation.trial import Eligible, Placed, Trial
from controller.allocation.usage import Changes, Ledger, Use, only_more
from driver.model import Allocation, Claim, DeviceClass, DeviceId, Slice, TaintRule
from driver.names import Names

_EVERYWHERE: Final = ""
_NAMES: Final = Names()


@dataclass(frozen=True, slots=True)
class _Failure:
    """A search that found nothing: how far it came, whether it was ended, and the device that ended it."""

    search: Search | None = None
    undecided: bool = False
    faulty: FaultyDevice | None = None

    @property
    def lasting(self) -> bool:
        """Whether there is nothing to be found as long as nothing is given back."""
        return not self.undecided and self.faulty is None


class Fleet:
    """All pools, classes and usage. Updated by events, never rebuilt; questions change nothing.

    Args:
        step_limit: devices one ``allocate`` may try before it answers that it did not decide.
        names: whose parameters are looked at in claims and classes.
    """

    def __init__(self, step_limit: int = STEP_LIMIT, names: Names = _NAMES) -> None:
        self._step_limit = step_limit
        self._slices: dict[str, Slice] = {}
        self._members: dict[PoolKey, dict[str, Slice]] = {}
        self._at: dict[str, dict[PoolKey, int]] = {}
        """Per node name ("" for slices that are not of one named node): pools with slices there, and how many."""
        self._pools: dict[PoolKey, Pool] = {}
        self._roaming: dict[PoolKey, Pool] = {}
        """Pools that are not of one node."""
        self._roamed = 0
        """Grows with every change to these or their usage."""
        self._roamers = 0
        """Grows when one of these comes or goes."""
        self._outdated: dict[PoolKey, None] = {}
        self._units: dict[DeviceId, Unit] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._rules: dict[str, TaintRule] = {}
        self._ledger = Ledger()
        self._names: dict[str, str] = {}
        self._matching = Matching()
        self._ranking = Ranking()
        self._layouts = Layouts()
        self._shapes = Shapes(self._matching, names)
        self._quick = Quick(self._matching)
        self._supply = Supply()
        self._seats: dict[str, Seat] = {}

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that ``place`` and ``room`` may choose was added, or its labels changed."""
        seat = self._seat(name)
        if seat.listed and seat.labels == labels:
            return
        seat.labels = labels
        seat.order_of = -1
        self._supply.list(seat)
        self._supply.change(seat)
        self._supply.free(seat)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pools and what is allocated there stay known."""
        if seat := self._seats.get(name):
            seat.labels = {}
            seat.order_of = -1
            self._supply.unlist(seat)
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

    def upsert_class(self, device_class: DeviceClass) -> None:
        """A DeviceClass was added or changed."""
        if self._classes.get(device_class.name) != device_class:
            self._classes[device_class.name] = device_class
            self._shapes.forget()

    def remove_class(self, name: str) -> None:
        """A DeviceClass is gone."""
        if self._classes.pop(name, None) is not None:
            self._shapes.forget()

    def upsert_claim(self, claim: Claim) -> None:
        """A claim was added or changed: what it holds is in use; if it holds nothing, what was assumed for it stays."""
        self._names[claim.uid] = claim.key
        self._note(self._ledger.write(claim.uid, claim.allocation))

    def remove_claim(self, uid: str) -> None:
        """A claim is gone, and with it what it held or was assumed to hold."""
        self._names.pop(uid, None)
        self._note(self._ledger.remove(uid))

    def assume(self, uid: str, decided: Allocation) -> None:
        """A decision is being written: its devices are in use until the claim shows it or ``forget`` is called."""
        self._note(self._ledger.assume(uid, decided))

    def forget(self, uid: str) -> None:
        """The decision assumed for the claim was not written."""
        self._note(self._ledger.forget(uid))

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """A DeviceTaintRule was added or changed."""
        before = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._taint([rule] if before is None else [before, rule])

    def remove_taint_rule(self, name: str) -> None:
        """A DeviceTaintRule is gone."""
        if before := self._rules.pop(name, None):
            self._taint([before])

    # Questions

    def usage_snapshot(self) -> Mapping[DeviceId, Use]:
        """What is in use, by device. Equal to that of a fleet built anew from the same objects."""
        return dict(self._ledger.uses)

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """What is left of the counters of every pool that has any (nanos, in the pool's order)."""
        self._settle()
        return {key: tuple(pool.free) for key, pool in self._pools.items() if pool.free}

    def allocate(
        self, node_name: str, node_labels: Mapping[str, str], claims: Sequence[Claim]
    ) -> tuple[Allocation, ...] | Unsatisfiable:
        """Devices of the node for all ``claims`` of a pod, one allocation per claim in order; or why there are none.

        Pure and deterministic; the first fit in the order of kube-scheduler's allocator.
        """
        shape = self._shapes.of(claims, self._classes)
        if not isinstance(shape, Shape):
            return Unsatisfiable(faults=shape)
        for key in (*self._at.get(node_name, ()), *self._at.get(_EVERYWHERE, ())):
            self._pool(key)
        seat = self._seats.get(node_name)
        if seat is None or (seat.labels != node_labels and self._roaming):
            seat = Seat(node_name, node_labels)
            seat.pools = {
                key: pool for key in self._at.get(node_name, ()) if (pool := self._pool(key)).one_node == node_name
            }
        picks = self._quick.fit(self._order(seat), shape, claims) if shape.plain else Answer.UNKNOWN
        if isinstance(picks, Answer):
            survey = self._survey(seat, claims)
            if picks is Answer.IMPOSSIBLE and (refusal := survey.refusal(shape.demands)).shortages:
                return refusal
            found = self._search(survey, shape, claims)
            if isinstance(found, _Failure):
                return survey.refusal(shape.demands, found.search, undecided=found.undecided, faulty=found.faulty)
            picks = found
        return _allocations(claims, picks, node_name)

    def place(self, claims: Sequence[Claim], eligible: Eligible = None) -> Placed | Unsatisfiable | None:
        """The first node in order that takes all ``claims``, and what they get: as ``allocate`` node by node would say.

        None if no node takes them (``allocate`` has the reasons for each); Unsatisfiable only where the claims
        themselves are at fault and no node could. Changes nothing. ``eligible`` is asked of nodes in order, and only
        of those that could otherwise be the answer. Where requests have preferences, the order is theirs.
        """
        shape = self._shapes.of(claims, self._classes)
        if not isinstance(shape, Shape):
            return Unsatisfiable(faults=shape)
        for seat in self._tried(shape, claims):
            if eligible is None or eligible(seat.name):
                picks = self._fit(seat, shape, claims)
                if picks is not None:
                    return Placed(seat.name, _allocations(claims, picks, seat.name))
        return None

    def room(self, claims: Sequence[Claim], most: int = 1_000) -> Mapping[str, int]:
        """Per node that takes ``claims``, how many times over, up to ``most``: each on top of those before."""
        shape = self._shapes.of(claims, self._classes)
        if not isinstance(shape, Shape):
            return {}
        found: dict[str, int] = {}
        for seat in self._seated(self._candidates(shape)):
            count = self._times(seat, shape, claims, most)
            if count:
                found[seat.name] = count
        return found

    def trial(self) -> Trial:
        """A try: what is put is in use until it is undone; leaving the ``with`` block undoes everything."""
        return Trial(self.place, self.assume, self.forget)

    # Which nodes

    def _tried(self, shape: Shape, claims: Sequence[Claim]) -> Iterable[Seat]:
        """The nodes that may take the claims, in the order to try them."""
        seats = self._seated(self._candidates(shape))
        if not prefers(shape.demands):
            return seats

        def standing_of(seat: Seat) -> Standings | None:
            return standings(self._order(seat), shape, self._matching, lambda: self._survey(seat, claims))

        return self._ranking.best_first(seats, shape, lambda seat: (seat.clock, self._roamed), standing_of)

    def _seated(self, nodes: int) -> Iterator[Seat]:
        seats = self._supply.seats
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            yield seats[low.bit_length() - 1]

    def _candidates(self, shape: Shape) -> int:
        """The nodes that may take claims of this shape, as far as can be told without asking them."""
        self._settle()
        supply = self._supply
        shape.catch_up(supply)
        spare = sum(pool.available.bit_count() for pool in self._roaming.values() if not pool.problem)
        nodes = supply.with_available(shape.least - spare) & self._reach(shape) & ~shape.refused
        if shape.total > shape.least and not any(pool.multiple for pool in self._roaming.values()):
            nodes &= supply.with_available(shape.total - spare) | supply.sharing
        return nodes

    def _reach(self, shape: Shape) -> int:
        """The nodes with enough devices that match, in use or not."""
        partitions = {step.paths: self._matching.partition(step.paths) for steps in shape.steps for step in steps}
        key = (self._supply.numbering, self._roamers, *((one, one.version) for one in partitions.values()))
        if shape.reach_of != key:
            shape.reach, shape.reach_of = -1, key
            for steps in shape.steps:
                nodes = 0
                for step in steps:
                    roaming = sum(
                        self._matching.selection(pool, step.paths, step.filter).match.bit_count()
                        for pool in self._roaming.values()
                        if not pool.problem
                    )
                    nodes |= self._matching.nodes(step.paths, step.filter, step.count - roaming, self._supply.numbering)
                shape.reach &= nodes
        return shape.reach

    # One node

    def _fit(self, seat: Seat, shape: Shape, claims: Sequence[Claim]) -> Sequence[Pick] | None:
        """What the claims would get of the node; None, which is remembered, if it does not take them."""
        clock = (seat.clock, self._roamed)
        if shape.doubtful and shape.doubtful.get(seat) == clock:
            return None
        order = self._order(seat)
        picks = self._quick.fit(order, shape, claims) if shape.plain else Answer.UNKNOWN
        if picks is Answer.IMPOSSIBLE:
            shape.refused |= seat.bit
            return None
        if not isinstance(picks, Answer):
            return picks
        seen = state(order, shape, self._matching) if shape.plain else None
        if seen is None or seen not in shape.states:
            found = self._search(self._survey(seat, claims), shape, claims)
            if not isinstance(found, _Failure):
                return found
            if found.lasting:
                shape.refused |= seat.bit
                return None
            if seen is not None:
                shape.note_state(seen, 0)
        shape.note_doubt(seat, clock)
        return None

    def _search(self, survey: Survey, shape: Shape, claims: Sequence[Claim]) -> Sequence[Pick] | _Failure:
        """What can be had of a node in all."""
        try:
            attempt = Attempt(claims)
            picks = first_fit(attempt, survey.offers(shape.demands, attempt))
            if picks is not None:
                return picks
        except FaultyDevice as faulty:
            return _Failure(faulty=faulty)
        # Something would have to be taken back: search.
        tasks = survey.tasks(shape.demands)
        if tasks is None:
            return _Failure()
        search = Search(claims, tasks, self._step_limit)
        try:
            return search.picks if search.run() else _Failure(search)
        except (SearchEnded, RecursionError):
            # Hundreds of devices for one pod exceed Python's stack before the step budget.
            return _Failure(search, undecided=True)
        except FaultyDevice as faulty:
            return _Failure(search, faulty=faulty)

    def _times(self, seat: Seat, shape: Shape, claims: Sequence[Claim], most: int) -> int:
        order = self._order(seat)
        if shape.plain and shape.lone and len(shape.steps) == 1:
            offers = self._quick.offers(order, shape)
            if offers is Answer.IMPOSSIBLE:
                return 0
            if not isinstance(offers, Answer):
                counted = times(order, shape, offers[0][0], self._matching.columns, most)
                if counted is not None:
                    return counted
        seen = (state(order, shape, self._matching), most)
        known = shape.states.get(seen)
        if known is None:
            with self.trial() as trial:
                known = 0
                while known < most and (picks := self._fit(seat, shape, claims)) is not None:
                    trial.hold(claims, _allocations(claims, picks, seat.name))
                    known += 1
            shape.note_state(seen, known)
        return known

    def _survey(self, seat: Seat, claims: Sequence[Claim]) -> Survey:
        pools = [
            (pool, pool.units if visible == pool.layout.every else [pool.units[index] for index in bits(visible)])
            for pool, visible in self._order(seat)
        ]
        return Survey(Node(seat.name, seat.labels, pools), claims, self._matching, self._names)

    def _order(self, seat: Seat) -> list[tuple[Pool, int]]:
        """The pools that reach the node in the order of allocation, each with its devices that do."""
        if seat.order_of != self._roamers:
            order = [(pool, pool.layout.every) for pool in seat.pools.values()]
            for pool in self._roaming.values():
                visible = sum(1 << unit.index for unit in pool.units if reaches(unit.scope, seat.name, seat.labels))
                if visible or any(reaches(part.scope, seat.name, seat.labels) for part in pool.parts):
                    order.append((pool, visible))
            seat.order = sorted(order, key=lambda entry: (entry[0].late, entry[0].key))
            seat.order_of = self._roamers
        return seat.order

    # Upkeep

    def _seat(self, name: str) -> Seat:
        seat = self._seats.get(name)
        if seat is None:
            seat = self._seats[name] = Seat(name, {})
        return seat

    def _tidy(self) -> None:
        """Forget names that neither a node nor a pool has any more, once there are many."""
        if len(self._seats) > 2 * len(self._supply.seats) + 64:
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
        pool = self._pools.pop(key, None)
        if pool is None:
            return
        for unit in pool.units:
            if self._units.get(unit.id) is unit:
                del self._units[unit.id]
        if not pool.problem:
            self._matching.drop(pool)
        if pool.seat is None:
            del self._roaming[key]
            self._roamers += 1
        else:
            del pool.seat.pools[key]
            pool.seat.order_of = -1
        self._changed(pool, only_less=False)

    def _settle(self) -> None:
        """Take in what has happened."""
        for key in tuple(self._outdated):
            self._pool(key)
        self._supply.settle()

    def _pool(self, key: PoolKey) -> Pool:
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(key, self._members[key].values(), self._ledger.uses, self._layouts)
            self._outdated.pop(key, None)
            self._units.update((unit.id, unit) for unit in pool.units)
            if self._rules:
                self._taint_units(pool)
            if pool.one_node:
                pool.seat = self._seat(pool.one_node)
                pool.seat.pools[key] = pool
                pool.seat.order_of = -1
            else:
                self._roaming[key] = pool
                self._roamers += 1
            if not pool.problem:
                self._matching.add(pool)
            self._changed(pool, only_less=False)
        return pool

    def _changed(self, pool: Pool, *, only_less: bool) -> None:
        """The pool has changed: only by giving less, or in any way."""
        if pool.seat is None:
            self._roamed += 1
        else:
            self._supply.change(pool.seat)
        if not only_less:
            self._supply.free(pool.seat)

    def _note(self, changes: Changes) -> None:
        for device, before, after in changes:
            unit = self._units.get(device)
            if unit is not None:
                unit.pool.set_use(unit, after)
                self._changed(unit.pool, only_less=only_more(before, after) and unit.pool.soundly_drawn(unit))

    def _taint(self, rules: Sequence[TaintRule]) -> None:
        """Rules have come or gone."""
        for pool in self._pools.values():
            if any(rule.driver in ("", pool.key[0]) and rule.pool in ("", pool.key[1]) for rule in rules):
                self._taint_units(pool)
                self._changed(pool, only_less=False)

    def _taint_units(self, pool: Pool) -> None:
        for unit in pool.units:
            ruled = tuple(rule.taint for _, rule in sorted(self._rules.items()) if applies(rule, unit.id))
            pool.set_taints(unit, unit.device.taints + ruled)


def _allocations(claims: Sequence[Claim], picks: Sequence[Pick], node: str) -> tuple[Allocation, ...]:
    if len(claims) == 1:
        return (allocation(claims[0], picks, node),)
    return tuple(
        allocation(claim, [pick for pick in picks if pick.claim == index], node) for index, claim in enumerate(claims)
    )
