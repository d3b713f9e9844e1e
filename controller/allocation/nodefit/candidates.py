"""The candidates of one node, device by device: slower than bitsets, but for every kind of request.

A device is a candidate by itself: it matches, is large enough, tolerated and available.
"""

from collections.abc import Iterable, Iterator, Sequence

from controller.allocation.devices.columns import Columns
from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.nodefit.device_order import in_preferred_order
from controller.allocation.nodefit.partition_cost import PartitionCosts
from controller.allocation.reasons import Cause
from controller.allocation.requests import RESULTS_LIMIT, Criteria, Demand, RequestChoice
from controller.allocation.rules import NOT_SHAREABLE, Quantities, most, untolerated
from controller.allocation.search.attempt import Attempt, Candidate, Option, Task
from driver.cel import SelectorFault, suggest


def consumption_of(device: PoolDevice, criteria: Criteria, columns: Columns) -> Quantities | str | None:
    """The consumption of a request, or the capacity that the device lacks (``rules.consumption``)."""
    if criteria.capacity.is_empty and not device.spec.allow_multiple:
        return None
    return columns.consumed(device.pool, criteria.capacity, 1 << device.index)[1][device.index]


def insufficiency(device: PoolDevice, criteria: Criteria, columns: Columns) -> Cause | None:
    """The capacity that never suffices for the request, and the most for one claim; None if there is none."""
    lacking = consumption_of(device, criteria, columns)
    if not isinstance(lacking, str):
        return None
    if lacking == NOT_SHAREABLE:
        return "capacity", lacking
    known = device.spec.capacity.get(lacking)
    if known is None:
        return "noCapacity", lacking + suggest(lacking, sorted(device.spec.capacity))
    return "capacity", f"{lacking}: at most {most(known)}"


def is_exhausted(device: PoolDevice, criteria: Criteria) -> bool:
    """True if the device is in use and nobody else can get a part of it."""
    use = device.use
    return not criteria.admin_access and bool(use.exclusive or (use.shares and not device.spec.allow_multiple))


def obstacle(device: PoolDevice, criteria: Criteria, consumes: Quantities | None) -> Cause | None:
    """The reason why the device is not available now, or None. Admin access needs nothing but tolerated taints."""
    if device.taints and (taint := untolerated(device.taints, criteria.tolerations)) is not None:
        by = f" by DeviceTaintRule {taint.rule}" if taint.rule else ""
        return "taint", f"{taint.key}={taint.value}:{taint.effect}{by}"
    if criteria.admin_access:
        return None
    if is_exhausted(device, criteria):
        return "inUse", ""
    use = device.use
    if consumes is not None and use.shares:
        if other := use.excludes(criteria.sharing):
            return "sharing", other
        for name, amount in consumes.items():
            if use.consumed.get(name, 0) + amount.nanos > device.spec.capacity[name].value.nanos:
                return "capacityLeft", name
    if device.draws and not use.holders:
        free = device.pool.free
        for index, drawn in device.draws:
            if free[index] < drawn:
                return "counter", device.pool.counters[index].counter
    return None


Pools = Sequence[tuple[Pool, Sequence[PoolDevice]]]
"""The pools with devices that reach a node, in the order of allocation, each with these devices."""


class NodeCandidates:
    """The candidates of one node for the claims of one pod.

    Args:
        beyond: devices of the node that are no candidates, because they are outside of the slot's ``within``.
    """

    def __init__(self, order: Order, index: DeviceIndex, costs: PartitionCosts, beyond: Order = ()):
        self.pools = _devices_of(order)
        self._beyond = _devices_of(beyond)
        self._index = index
        self._costs = costs

    def tasks(self, wanted: Sequence[Demand]) -> list[Task] | None:
        """The demands with all their candidates; None if one demand cannot be satisfied even alone."""
        found: list[Task] = []
        known: dict[Criteria, tuple[Candidate, ...]] = {}
        for demand in wanted:
            options = [option for choice in demand.choices if (option := self._option(choice, known)) is not None]
            if not options:
                return None
            found.append(Task(demand, tuple(options)))
        return found

    def offers(self, wanted: Sequence[Demand], attempt: Attempt) -> Iterator[tuple[Demand, int, Iterable[Candidate]]]:
        """Yields, per demand, the number of devices of its first choice, and its candidates, as far as needed.

        Args:
            attempt: has the picks of earlier demands when the next one is requested.
        """
        for demand in wanted:
            choice = demand.choices[0]
            if choice.want.mode == "ExactCount":
                count = choice.want.count
                eligible: Iterable[Candidate] = self.eligible(choice.criteria)
                if choice.preference.orders_devices(count):
                    free = [one for one in eligible if one.fault or not attempt.conflict(demand.claim, choice, one)]
                    eligible = in_preferred_order(choice, count, free, self._costs, attempt)
                yield demand, count, eligible
                continue
            option = self._all(choice)
            yield (demand, 1, ()) if option is None else (demand, option.wanted, option.candidates)

    def _option(self, choice: RequestChoice, known: dict[Criteria, tuple[Candidate, ...]]) -> Option | None:
        """The choice with its candidates. ``known`` has the candidates of other choices with the same criteria."""
        if choice.takes_all:
            return self._all(choice)
        found = known.get(choice.criteria)
        if found is None:
            found = known[choice.criteria] = tuple(self.eligible(choice.criteria))
        if len(found) < choice.want.count and not any(one.fault for one in found):
            # Where a selector fails on a device, a search for more devices would visit it.
            return None
        count = choice.want.count
        return Option(choice, tuple(in_preferred_order(choice, count, found, self._costs)), count)

    def _all(self, choice: RequestChoice) -> Option | None:
        """All matching devices that are large enough; None if there is none, or one of them is not available.

        A part of a node must have all of them: else the claim would get less than it asks for.
        """
        found: list[Candidate] = []
        if any(pool.problem for pool, _ in self.pools):
            return None
        for device, fault in self._matching(self._beyond, choice.criteria):
            if fault or not isinstance(consumption_of(device, choice.criteria, self._index.columns), str):
                return None
        for device, fault in self.matching(choice.criteria):
            if fault is not None:
                found.append(Candidate(device, fault=fault))
                continue
            consumes = consumption_of(device, choice.criteria, self._index.columns)
            if isinstance(consumes, str):
                continue
            if obstacle(device, choice.criteria, consumes):
                return None
            found.append(Candidate(device, consumes))
        return Option(choice, tuple(found), len(found)) if 0 < len(found) <= RESULTS_LIMIT else None

    def matching(self, criteria: Criteria) -> Iterator[tuple[PoolDevice, SelectorFault | None]]:
        """The devices that match the selectors, and those on which a selector fails."""
        return self._matching(self.pools, criteria)

    def _matching(self, pools: Pools, criteria: Criteria) -> Iterator[tuple[PoolDevice, SelectorFault | None]]:
        for pool, devices in pools:
            if pool.problem:
                continue
            selected = self._index.selectors.selected(pool, criteria.filter)
            if devices is pool.devices:
                yield from selected
            else:
                visible = set(devices)
                yield from (found for found in selected if found[0] in visible)

    def eligible(self, criteria: Criteria) -> Iterator[Candidate]:
        """The devices that are available for these criteria alone, and those on which a selector fails."""
        for device, fault in self.matching(criteria):
            if fault is not None:
                if not is_exhausted(device, criteria):
                    yield Candidate(device, fault=fault)
                continue
            consumes = consumption_of(device, criteria, self._index.columns)
            if not isinstance(consumes, str) and not obstacle(device, criteria, consumes):
                yield Candidate(device, consumes)


def _devices_of(order: Order) -> Pools:
    return [
        (pool, pool.devices if visible == pool.layout.every else [pool.devices[at] for at in bits(visible)])
        for pool, visible in order
    ]
