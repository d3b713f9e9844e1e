"""Every device of the cluster and what is in use, kept up to date by events; and the decision which devices to use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from controller.allocation.attempt import Attempt, FaultyDevice, Pick
from controller.allocation.candidates import Node, Survey
from controller.allocation.demand import Demand, demands
from controller.allocation.matching import Matching
from controller.allocation.nodes import reaches
from controller.allocation.outcome import allocation
from controller.allocation.pools import Pool, PoolKey, Unit
from controller.allocation.ranking import by_preference, prefers
from controller.allocation.reasons import Unsatisfiable
from controller.allocation.search import STEP_LIMIT, Search, SearchEnded, first_fit
from controller.allocation.taints import applies
from controller.allocation.usage import IDLE, Ledger, Use
from controller.placement.order import in_order
from driver.model import Allocation, Claim, DeviceClass, DeviceId, Slice, TaintRule
from driver.names import Names

_EVERYWHERE: Final = ""
_NAMES: Final = Names()


@dataclass(frozen=True, slots=True)
class Placed:
    """A node that takes all claims of a pod, and one allocation per claim in order."""

    node: str
    allocations: tuple[Allocation, ...]


class Fleet:
    """All pools, classes and usage. Updated by events, never rebuilt; ``allocate`` changes nothing.

    Args:
        step_limit: devices one ``allocate`` may try before it answers that it did not decide.
        names: whose parameters are looked at in claims and classes.
    """

    def __init__(self, step_limit: int = STEP_LIMIT, names: Names = _NAMES) -> None:
        self._step_limit = step_limit
        self._driver = names
        self._slices: dict[str, Slice] = {}
        self._members: dict[PoolKey, dict[str, Slice]] = {}
        self._pools: dict[PoolKey, Pool] = {}
        self._at: dict[str, dict[PoolKey, int]] = {}
        """Per node name ("" for slices that are not of one named node): pools with slices there, and how many."""
        self._units: dict[DeviceId, Unit] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._rules: dict[str, TaintRule] = {}
        self._ledger = Ledger()
        self._names: dict[str, str] = {}
        self._matching = Matching()
        self._nodes: dict[str, Mapping[str, str]] = {}

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that ``place`` and ``room`` may choose was added, or its labels changed."""
        self._nodes[name] = labels

    def remove_node(self, name: str) -> None:
        """A node is gone; its pools and what is allocated there stay known."""
        self._nodes.pop(name, None)

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
        self._classes[device_class.name] = device_class

    def remove_class(self, name: str) -> None:
        """A DeviceClass is gone."""
        self._classes.pop(name, None)

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
        self._rules[rule.name] = rule
        self._taint()

    def remove_taint_rule(self, name: str) -> None:
        """A DeviceTaintRule is gone."""
        if self._rules.pop(name, None) is not None:
            self._taint()

    # Questions

    def usage_snapshot(self) -> Mapping[DeviceId, Use]:
        """What is in use, by device. Equal to that of a fleet built anew from the same objects."""
        return dict(self._ledger.uses)

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """What is left of the counters of every pool that has any (nanos, in the pool's order)."""
        pools = {key: self._pool(key) for key in self._members}
        return {key: tuple(pool.free) for key, pool in pools.items() if pool.free}

    def allocate(
        self, node_name: str, node_labels: Mapping[str, str], claims: Sequence[Claim]
    ) -> tuple[Allocation, ...] | Unsatisfiable:
        """Devices of the node for all ``claims`` of a pod, one allocation per claim in order; or why there are none.

        Pure and deterministic; the first fit in the order of kube-scheduler's allocator.
        """
        wanted, faults = demands(claims, self._classes, self._matching, self._driver)
        if faults:
            return Unsatisfiable(faults=faults)
        survey = self._survey(node_name, node_labels, claims)
        picks: Sequence[Pick] | None
        try:
            attempt = Attempt(claims)
            picks = first_fit(attempt, survey.offers(wanted, attempt))
        except FaultyDevice as faulty:
            return survey.refusal(wanted, faulty=faulty)
        if picks is None:
            # Something would have to be taken back: search.
            tasks = survey.tasks(wanted)
            if tasks is None:
                return survey.refusal(wanted)
            search = Search(claims, tasks, self._step_limit)
            if refusal := self._searched(search, survey, wanted):
                return refusal
            picks = search.picks
        return tuple(
            allocation(claim, [pick for pick in picks if pick.claim == index], node_name)
            for index, claim in enumerate(claims)
        )

    def place(
        self, claims: Sequence[Claim], eligible: Callable[[str], bool] | None = None
    ) -> Placed | Unsatisfiable | None:
        """The first node in order that takes all ``claims``, and what they get: as ``allocate`` node by node would say.

        None if no node takes them (``allocate`` has the reasons for each); Unsatisfiable only where the claims
        themselves are at fault and no node could. Changes nothing. ``eligible`` is asked of nodes in order, and only
        of those that could otherwise be the answer. Where requests have preferences, the order is theirs.
        """
        for name in self._tried(claims):
            if eligible is not None and not eligible(name):
                continue
            answer = self.allocate(name, self._nodes[name], claims)
            if isinstance(answer, tuple):
                return Placed(name, answer)
            if answer.faults:
                return answer
        return None

    def _tried(self, claims: Sequence[Claim]) -> Iterable[str]:
        """The nodes in the order to try them, perhaps without some that cannot take the claims."""
        names = in_order(self._nodes)
        wanted, _ = demands(claims, self._classes, self._matching, self._driver)
        if not prefers(wanted):
            return names
        return by_preference(names, lambda name: self._survey(name, self._nodes[name], claims), wanted)

    def _survey(self, name: str, labels: Mapping[str, str], claims: Sequence[Claim]) -> Survey:
        return Survey(self._node(name, labels), claims, self._matching, self._names)

    def room(self, claims: Sequence[Claim], most: int = 1_000) -> Mapping[str, int]:
        """Per node that takes ``claims``, how many times over, up to ``most``: each on top of those before."""
        found: dict[str, int] = {}
        for name in in_order(self._nodes):
            with self.trial() as trial:
                while found.get(name, 0) < most and isinstance(trial.put(claims, name.__eq__), Placed):
                    found[name] = found.get(name, 0) + 1
        return found

    def trial(self) -> "Trial":
        """A try: what is put is in use until it is undone; leaving the ``with`` block undoes everything."""
        return Trial(self)

    def _searched(self, search: Search, survey: Survey, wanted: Sequence[Demand]) -> Unsatisfiable | None:
        try:
            return None if search.run() else survey.refusal(wanted, search)
        except (SearchEnded, RecursionError):
            # Hundreds of devices for one pod exceed Python's stack before the step budget.
            return survey.refusal(wanted, search, undecided=True)
        except FaultyDevice as faulty:
            return survey.refusal(wanted, search, faulty=faulty)

    # Upkeep

    def _unlink(self, part: Slice) -> None:
        key = (part.driver, part.pool)
        del self._members[key][part.name]
        at = self._at[part.scope.node_name]
        at[key] -= 1
        if not at[key]:
            del at[key]
        if not self._members[key]:
            del self._members[key]
        self._outdate(key)

    def _outdate(self, key: PoolKey) -> None:
        """Forget what was made of the pool's slices; it is made anew when it is asked for."""
        before = self._pools.pop(key, None)
        for unit in before.units if before else ():
            if self._units.get(unit.id) is unit:
                del self._units[unit.id]

    def _pool(self, key: PoolKey) -> Pool:
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(key, self._members[key].values(), self._ledger.uses)
            self._units.update((unit.id, unit) for unit in pool.units)
            self._taint_units(pool.units)
        return pool

    def _note(self, touched: set[DeviceId]) -> None:
        for device in touched:
            unit = self._units.get(device)
            if unit is not None:
                unit.pool.set_use(unit, self._ledger.uses.get(device, IDLE))

    def _taint(self) -> None:
        for pool in self._pools.values():
            self._taint_units(pool.units)

    def _taint_units(self, units: Sequence[Unit]) -> None:
        for unit in units:
            ruled = tuple(rule.taint for _, rule in sorted(self._rules.items()) if applies(rule, unit.id))
            unit.taints = unit.device.taints + ruled

    def _node(self, name: str, labels: Mapping[str, str]) -> Node:
        keys = {**self._at.get(name, {}), **self._at.get(_EVERYWHERE, {})}
        pools = [self._pool(key) for key in sorted(keys)]
        pools.sort(key=lambda pool: pool.late)
        seen = ((pool, _visible(pool, name, labels)) for pool in pools)
        return Node(name, labels, [(pool, units) for pool, units in seen if units or _reaching(pool, name, labels)])


class Trial:
    """Pods placed on top of the fleet's state, one after the other, and taken back.

    Meanwhile the fleet counts them as in use; no event may reach it before they are undone.
    """

    def __init__(self, fleet: Fleet):
        self._fleet = fleet
        self._held: list[list[str]] = []
        self._number = 0

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo(len(self._held))

    def put(
        self, claims: Sequence[Claim], eligible: Callable[[str], bool] | None = None
    ) -> Placed | Unsatisfiable | None:
        """Place the claims as ``Fleet.place`` does and count them as in use. The same claims may be put repeatedly."""
        placed = self._fleet.place(claims, eligible)
        if isinstance(placed, Placed):
            held: list[str] = []
            for claim, allocation in zip(claims, placed.allocations, strict=True):
                self._number += 1
                held.append(f"{claim.uid}#{self._number}")
                self._fleet.assume(held[-1], allocation)
            self._held.append(held)
        return placed

    def undo(self, pods: int = 1) -> None:
        """Take back the last ``pods`` that were put."""
        for _ in range(pods):
            for uid in reversed(self._held.pop()):
                self._fleet.forget(uid)


def _reaching(pool: Pool, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a slice of the pool is meant for the node, even if it brings no device."""
    return any(reaches(part.scope, name, labels) for part in pool.parts)


def _visible(pool: Pool, name: str, labels: Mapping[str, str]) -> Sequence[Unit]:
    """The units of the pool that reach the node, in order."""
    if pool.one_node:
        return pool.units if pool.one_node == name else ()
    return [unit for unit in pool.units if reaches(unit.scope, name, labels)]
