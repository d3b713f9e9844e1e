"""Every device of the cluster and what is in use, kept up to date by events; and the decision which devices to use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.candidates import Node, Survey
from controller.allocation.outcome import allocation
from controller.allocation.policies.ranking import Ranking, prefers
from controller.allocation.policies.standing import Standings, standings
from controller.allocation.quick import Answer, Quick
from controller.allocation.reasons.reasons import Unsatisfiable
from controller.allocation.requests.shapes import Shape, Shapes
from controller.allocation.room import times
from controller.allocation.search.attempt import Attempt, FaultyDevice, Pick
from controller.allocation.search.search import STEP_LIMIT, Search, SearchEnded, first_fit
from controller.allocation.states import state
from controller.allocation.stock.layout import bits
from controller.allocation.stock.pools import PoolKey
from controller.allocation.stock.stock import Stock
from controller.allocation.stock.supply import Seat
from controller.allocation.stock.usage import Ledger, Use
from controller.allocation.trial import Eligible, Placed, Trial
from driver.model import Allocation, Claim, DeviceClass, DeviceId, Slice, TaintRule
from driver.names import Names

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
        self._ledger = Ledger()
        self._stock = Stock(self._ledger.uses)
        self._classes: dict[str, DeviceClass] = {}
        self._names: dict[str, str] = {}
        self._matching = self._stock.matching
        self._supply = self._stock.supply
        self._ranking = Ranking()
        self._shapes = Shapes(self._matching, names)
        self._quick = Quick(self._matching)

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that ``place`` and ``room`` may choose was added, or its labels changed."""
        self._stock.upsert_node(name, labels)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pools and what is allocated there stay known."""
        self._stock.remove_node(name)

    def upsert_slice(self, part: Slice) -> None:
        """A ResourceSlice was added or changed."""
        self._stock.upsert_slice(part)

    def remove_slice(self, name: str) -> None:
        """A ResourceSlice is gone; what is allocated from it stays in use."""
        self._stock.remove_slice(name)

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
        self._stock.note(self._ledger.write(claim.uid, claim.allocation))

    def remove_claim(self, uid: str) -> None:
        """A claim is gone, and with it what it held or was assumed to hold."""
        self._names.pop(uid, None)
        self._stock.note(self._ledger.remove(uid))

    def assume(self, uid: str, decided: Allocation) -> None:
        """A decision is being written: its devices are in use until the claim shows it or ``forget`` is called."""
        self._stock.note(self._ledger.assume(uid, decided))

    def forget(self, uid: str) -> None:
        """The decision assumed for the claim was not written."""
        self._stock.note(self._ledger.forget(uid))

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """A DeviceTaintRule was added or changed."""
        self._stock.upsert_taint_rule(rule)

    def remove_taint_rule(self, name: str) -> None:
        """A DeviceTaintRule is gone."""
        self._stock.remove_taint_rule(name)

    # Questions

    def usage_snapshot(self) -> Mapping[DeviceId, Use]:
        """What is in use, by device. Equal to that of a fleet built anew from the same objects."""
        return dict(self._ledger.uses)

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """What is left of the counters of every pool that has any (nanos, in the pool's order)."""
        return self._stock.free_counters()

    def allocate(
        self, node_name: str, node_labels: Mapping[str, str], claims: Sequence[Claim]
    ) -> tuple[Allocation, ...] | Unsatisfiable:
        """Devices of the node for all ``claims`` of a pod, one allocation per claim in order; or why there are none.

        Pure and deterministic; the first fit in the order of kube-scheduler's allocator.
        """
        shape = self._shapes.of(claims, self._classes)
        if not isinstance(shape, Shape):
            return Unsatisfiable(faults=shape)
        seat = self._stock.seat(node_name, node_labels)
        picks = self._quick.fit(self._stock.order(seat), shape, claims) if shape.plain else Answer.UNKNOWN
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
            return standings(self._stock.order(seat), shape, self._matching, lambda: self._survey(seat, claims))

        return self._ranking.best_first(seats, shape, lambda seat: (seat.clock, self._stock.roamed), standing_of)

    def _seated(self, nodes: int) -> Iterator[Seat]:
        seats = self._supply.seats
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            yield seats[low.bit_length() - 1]

    def _candidates(self, shape: Shape) -> int:
        """The nodes that may take claims of this shape, as far as can be told without asking them."""
        self._stock.settle()
        supply = self._supply
        shape.catch_up(supply)
        spare = sum(pool.available.bit_count() for pool in self._stock.roaming.values() if not pool.problem)
        nodes = supply.with_available(shape.least - spare) & self._reach(shape) & ~shape.refused
        if shape.total > shape.least and not any(pool.multiple for pool in self._stock.roaming.values()):
            nodes &= supply.with_available(shape.total - spare) | supply.sharing
        return nodes

    def _reach(self, shape: Shape) -> int:
        """The nodes with enough devices that match, in use or not."""
        partitions = {step.paths: self._matching.partition(step.paths) for steps in shape.steps for step in steps}
        key = (self._supply.numbering, self._stock.roamers, *((one, one.version) for one in partitions.values()))
        if shape.reach_of != key:
            shape.reach, shape.reach_of = -1, key
            for steps in shape.steps:
                nodes = 0
                for step in steps:
                    roaming = sum(
                        self._matching.selection(pool, step.paths, step.filter).match.bit_count()
                        for pool in self._stock.roaming.values()
                        if not pool.problem
                    )
                    nodes |= self._matching.nodes(step.paths, step.filter, step.count - roaming, self._supply.numbering)
                shape.reach &= nodes
        return shape.reach

    # One node

    def _fit(self, seat: Seat, shape: Shape, claims: Sequence[Claim]) -> Sequence[Pick] | None:
        """What the claims would get of the node; None, which is remembered, if it does not take them."""
        clock = (seat.clock, self._stock.roamed)
        if shape.doubtful and shape.doubtful.get(seat) == clock:
            return None
        order = self._stock.order(seat)
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
        except SearchEnded:
            return _Failure(search, undecided=True)
        except FaultyDevice as faulty:
            return _Failure(search, faulty=faulty)

    def _times(self, seat: Seat, shape: Shape, claims: Sequence[Claim], most: int) -> int:
        order = self._stock.order(seat)
        if shape.plain and shape.lone and len(shape.steps) == 1:
            offers = self._quick.offers(order, shape)
            if offers is Answer.IMPOSSIBLE:
                return 0
            if not isinstance(offers, Answer):
                counted = times(order, shape, offers[0][0], self._matching.columns, most)
                if counted is not None:
                    return counted
        if prefers(shape.demands):
            return self._tried_out(seat, shape, claims, most)
        seen = (state(order, shape, self._matching), most)
        known = shape.states.get(seen)
        if known is None:
            known = self._tried_out(seat, shape, claims, most)
            shape.note_state(seen, known)
        return known

    def _tried_out(self, seat: Seat, shape: Shape, claims: Sequence[Claim], most: int) -> int:
        count = 0
        with self.trial() as trial:
            while count < most and (picks := self._fit(seat, shape, claims)) is not None:
                trial.hold(claims, _allocations(claims, picks, seat.name))
                count += 1
        return count

    def _survey(self, seat: Seat, claims: Sequence[Claim]) -> Survey:
        pools = [
            (pool, pool.units if visible == pool.layout.every else [pool.units[index] for index in bits(visible)])
            for pool, visible in self._stock.order(seat)
        ]
        return Survey(Node(seat.name, seat.labels, pools), claims, self._matching, self._names)


def _allocations(claims: Sequence[Claim], picks: Sequence[Pick], node: str) -> tuple[Allocation, ...]:
    if len(claims) == 1:
        return (allocation(claims[0], picks, node),)
    return tuple(
        allocation(claim, [pick for pick in picks if pick.claim == index], node) for index, claim in enumerate(claims)
    )
