"""Counts the devices of a node, and how many times claims fit there, without a search for a fit.

The choice among domains of a topology needs only such numbers.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.allocation.devices.columns import NOWHERE, Column, Columns, paths
from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.layout import NO_GROUP, bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.nodefit.fit import GreedyFit, Masks, QuickAnswer
from controller.allocation.requests import RESULTS_LIMIT, CompiledRequest, RequestChoice
from controller.allocation.rules import CapacityRequest, Quantities, value_text
from controller.allocation.selectors import Filter
from driver.bounded import BoundedCache

_MOST_KNOWN: Final = 4_096
_NO_PATHS: Final = frozenset[tuple[str, ...]]()
UNCOUNTED: Final = 1 << 20
"""Stands for devices that no number limits."""


def count_fits(order: Order, request: CompiledRequest, masks: Masks, columns: Columns, most: int) -> int | None:
    """Counts how many times the devices in ``masks`` satisfy the only demand of the request; None if it must be tried.

    The number of devices of each kind decides, if no two of the devices draw on the same counters.
    """
    choice = request.demands[0].choices[0]
    if request.distinct or len(request.match_groups) > 1:
        return None
    pairs = [(pool, mask) for (pool, _), mask in zip(order, masks, strict=True) if mask]
    if any(pool.compatibility_sets or _is_contended(pool, mask) for pool, mask in pairs):
        return None
    if choice.count == 1:
        return min(most, sum(_one_by_one(pool, mask, columns, choice.criteria.capacity, most) for pool, mask in pairs))
    if any(mask & pool.shareable for pool, mask in pairs):
        return None
    if not request.match_groups:
        return min(most, sum([mask.bit_count() for _, mask in pairs]) // choice.count)
    numbers: dict[object, int] = {}
    for pool, mask in pairs:
        column = columns.values(pool, request.match_groups[0].attribute)
        if column.multivalued:
            return None
        for value, group in (column.groups or {}).items():
            numbers[value] = numbers.get(value, 0) + (group & mask).bit_count()
    return min(most, sum(number // choice.count for number in numbers.values()))


def _independent(order: Order, masks: Masks) -> int | None:
    """The number of these devices; None if one can be in use several times, or may keep others from being used."""
    found = 0
    for at, (pool, _) in enumerate(order):
        if mask := masks[at]:
            if mask & pool.shareable or pool.layout.members or pool.compatibility_sets:
                return None
            found += mask.bit_count()
    return found


def _is_contended(pool: Pool, mask: int) -> bool:
    """True if two of these devices draw on the same counters."""
    if not pool.layout.members:
        return False
    groups = [group for index in bits(mask) if (group := pool.layout.groups[index]) != NO_GROUP]
    return len(set(groups)) < len(groups)


def _one_by_one(pool: Pool, mask: int, columns: Columns, asked: CapacityRequest, most: int) -> int:
    """Counts the requests for one device that are satisfied, each by the first device left."""
    if not mask & pool.shareable and not _is_contended(pool, mask):
        return mask.bit_count()
    consumed: Sequence[Quantities | str | None] = columns.consumed(pool, asked, mask)[1]
    free = list(pool.free)
    found = 0
    for index in bits(mask):
        device = pool.devices[index]
        if not device.use.holders and any(free[at] < amount for at, amount in device.draws):
            continue
        if not device.use.holders:
            for at, amount in device.draws:
                free[at] -= amount
        amounts = consumed[index]
        assert not isinstance(amounts, str)
        found += 1 if amounts is None else shares(pool, index, amounts, most)
    return found


def shares(pool: Pool, index: int, amounts: Quantities, most: int) -> int:
    """Counts the shares with these amounts that are left of a device."""
    device = pool.devices[index]
    left = [
        (device.spec.capacity[name].value.nanos - device.use.consumed.get(name, 0)) // amount.nanos
        for name, amount in amounts.items()
        if amount.nanos > 0
    ]
    return min(left, default=most)


class NodeDeviceCounts(NamedTuple):
    """The devices of a node that some filters select.

    Attributes:
        values: their different values of some attributes, "" for none.
        total: the number of devices, in use or not.
        available: the number of devices that are not in use as a whole.
        tainted: the number of devices with taints.
        shareable: whether one device can serve several requests.
    """

    values: frozenset[tuple[str, ...]]
    total: int
    available: int
    tainted: int
    shareable: bool


@dataclass(frozen=True, slots=True, eq=False)
class NodeValues:
    """The values of an attribute that claims can get on a node, as far as counting tells.

    Attributes:
        devices: the values, each with the most devices that bring it at once (``UNCOUNTED`` if devices are shareable).
        least: the fewest devices with the attribute among those that the claims get.
        most: the most devices with a value that the claims get.
        known: whether a device that they select, in use or not, has the attribute.
    """

    devices: Mapping[str, int]
    least: int
    most: int
    known: bool

    def fits(self, values: frozenset[str]) -> int:
        """An upper bound on how many times the claims fit, if they get exactly these values together each time."""
        if not values or len(values) > self.most or not self.devices.keys() >= values:
            return 0
        counts = [self.devices[value] for value in values]
        return min(min(counts), sum(counts) // self.least if self.least else UNCOUNTED)


class _OfPool(NamedTuple):
    """Of one pool: the column of the attribute, the shareable devices, those that each filter of a request matches, in
    use or not, and those that each choice can get."""

    column: Column
    shareable: int
    matching: Sequence[int]
    available: Sequence[int]


class NodeValuesCounter:
    """Counts the values on nodes, once for all nodes that are alike in them."""

    def __init__(self, index: DeviceIndex, greedy: GreedyFit):
        self._index = index
        self._greedy = greedy
        self._known: BoundedCache[tuple[Hashable, ...], NodeValues] = BoundedCache(_MOST_KNOWN)

    def count(self, order: Order, request: CompiledRequest, attribute: str) -> NodeValues:
        """The values of the attribute that the request can get on the node."""
        selection, values = self._index.selectors.selection, self._index.columns.values
        pools = [entry for entry in order if not entry[0].problem]
        every: list[Masks] = []
        unlimited = False
        for demand in request.demands:
            for choice in demand.choices:
                masks = None if choice.want.admin_access else self._greedy.available(pools, choice.criteria)
                if masks is None:
                    # Nobody else takes these devices from it, or a selector fails on some: no count says anything.
                    masks, unlimited = [visible for _, visible in pools], True
                every.append(masks)
        # One flat key, because this is asked for every node of a fleet.
        key: list[Hashable] = [request]
        for at, (pool, visible) in enumerate(pools):
            key += values(pool, attribute), visible if unlimited else pool.shareable
            for wanted in request.filters:
                key.append(selection(pool, wanted).match & visible)
            for masks in every:
                key.append(masks[at])
        found = self._known.get(tuple(key))
        if found is None:
            of_pools = [
                _OfPool(
                    values(pool, attribute),
                    visible if unlimited else pool.shareable,
                    [selection(pool, wanted).match & visible for wanted in request.filters],
                    [masks[at] for masks in every],
                )
                for at, (pool, visible) in enumerate(pools)
            ]
            found = self._known[tuple(key)] = _node_values(request, of_pools)
        return found


def _node_values(request: CompiledRequest, of_pools: Sequence[_OfPool]) -> NodeValues:
    counts = Counter[str]()
    least = most = number = 0
    with_attribute = [_union((column.groups or {}).values()) for column, _, _, _ in of_pools]
    texts = [_texts(column) for column, _, _, _ in of_pools]
    valued = [_union([devices for value, devices in one.items() if value != NOWHERE]) for one in texts]
    known = any(
        any(mask & has for mask in match) for (_, _, match, _), has in zip(of_pools, with_attribute, strict=True)
    )
    for demand in request.demands:
        of_choices: list[tuple[int, int]] = []
        for choice in demand.choices:
            masks = [available[number] for _, _, _, available in of_pools]
            every = any(masks) and not any(mask & ~has for mask, has in zip(masks, with_attribute, strict=True))
            some = any(mask & values for mask, values in zip(masks, valued, strict=True))
            count = RESULTS_LIMIT if choice.takes_all else choice.count
            of_choices.append((choice.count if every else 0, count if some else 0))
            number += 1
        least += min([fewest for fewest, _ in of_choices])
        most += max([largest for _, largest in of_choices])
    for (_, shareable, _, available), one in zip(of_pools, texts, strict=True):
        union = _union(available)
        for value, devices in one.items():
            if value != NOWHERE and (both := union & devices):
                counts[value] += UNCOUNTED if both & shareable else both.bit_count()
    if any(column.multivalued for column, _, _, _ in of_pools):
        most = UNCOUNTED
    return NodeValues(counts, least, most, known)


def _texts(column: Column) -> Mapping[str, int]:
    """The devices with each value, as text."""
    found: dict[str, int] = {}
    for value, devices in (column.groups or {}).items():
        assert isinstance(value, tuple)
        text = value_text(value[1])
        found[text] = found.get(text, 0) | devices
    return found


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def node_devices(
    order: Order, filters: Sequence[Filter], attributes: Sequence[str], index: DeviceIndex
) -> NodeDeviceCounts:
    """Counts the devices of the node that any filter selects; all devices if there is no filter."""
    values: frozenset[tuple[str, ...]] = _NO_PATHS
    selection = index.selectors.selection
    total = available = tainted = shareable = 0
    for pool, visible in order:
        if pool.problem:
            continue
        devices = 0 if filters else visible
        for wanted in filters:
            devices |= selection(pool, wanted).match & visible
        if devices:
            of_pool = paths(pool, devices, attributes, index.columns)
            values = values | of_pool if values else of_pool
            total += devices.bit_count()
            available += (devices & pool.available).bit_count()
            shareable |= devices & pool.shareable
            if pool.tainted:
                tainted += sum((devices & mask).bit_count() for mask in pool.tainted.values())
    return NodeDeviceCounts(values, total, available, tainted, bool(shareable))


def most_fits(order: Order, request: CompiledRequest, greedy: GreedyFit, columns: Columns, most: int) -> int:
    """An upper bound, up to ``most``, on how many times the node fits the request: competition is ignored."""
    if request.maskable and request.single_choice and len(request.demands) == 1:
        if not (request.match_groups or request.competing or request.distinct):
            choice = request.demands[0].choices[0]
            masks = greedy.available(order, choice.criteria)
            if masks is not None and (devices := _independent(order, masks)) is not None:
                return min(most, devices // choice.count)
        offers = greedy.offers(order, request)
        if offers is QuickAnswer.IMPOSSIBLE:
            return 0
        if not isinstance(offers, QuickAnswer):
            counted = count_fits(order, request, offers[0][0], columns, most)
            if counted is not None:
                return counted
    return _by_devices(order, request, greedy, columns, most)


def _by_devices(order: Order, request: CompiledRequest, greedy: GreedyFit, columns: Columns, most: int) -> int:
    """The bound from the number of devices, and from the partitions that fit on a card at once.

    Requests may take different alternatives, so the bounds of all alternatives are added up.
    """
    found = most
    together: Masks | None = [0] * len(order)
    for demand in request.demands:
        units = 0
        for choice in demand.choices:
            masks = None if choice.want.admin_access else greedy.available(order, choice.criteria)
            if masks is None:
                units, together = most, None
                continue
            units += _units(order, choice, masks, columns, most) // choice.count
            if together is not None:
                together = [one | other for one, other in zip(together, masks, strict=True)]
        found = min(found, units)
    if together is None or not request.total_devices or _any_shareable(order, together):
        return found
    at_once = sum(_at_once(pool, mask) for (pool, _), mask in zip(order, together, strict=True))
    return min(found, at_once // request.total_devices)


def _at_once(pool: Pool, mask: int) -> int:
    """An upper bound on the devices that can be in use at the same time."""
    if not pool.layout.members:
        return mask.bit_count()
    found, of_card = 0, dict[int, list[PoolDevice]]()
    for index in bits(mask):
        card = pool.layout.groups[index]
        if card == NO_GROUP:
            found += 1
        else:
            of_card.setdefault(card, []).append(pool.devices[index])
    return found + sum(_at_once_of_card(pool, devices) for devices in of_card.values())


def _at_once_of_card(pool: Pool, devices: Sequence[PoolDevice]) -> int:
    """The same for devices on the same counters: each draws at least the smallest draw of all."""
    least: dict[int, int] = dict(devices[0].draws)
    for device in devices[1:]:
        drawn = dict(device.draws)
        least = {at: min(amount, drawn[at]) for at, amount in least.items() if at in drawn}
    return min([len(devices), *(pool.free[at] // amount for at, amount in least.items() if amount > 0)])


def _any_shareable(order: Order, masks: Masks) -> bool:
    return any(mask & pool.shareable for mask, (pool, _) in zip(masks, order, strict=True))


def _units(order: Order, choice: RequestChoice, masks: Masks, columns: Columns, most: int) -> int:
    pairs = zip(order, masks, strict=True)
    return sum(_of_pool(pool, mask, choice, columns, most) for (pool, _), mask in pairs if mask)


def _of_pool(pool: Pool, mask: int, choice: RequestChoice, columns: Columns, most: int) -> int:
    shareable = mask & pool.shareable
    if not shareable:
        return mask.bit_count()
    consumed = columns.consumed(pool, choice.criteria.capacity, mask)[1]
    found = (mask & ~shareable).bit_count()
    for index in bits(shareable):
        amounts = consumed[index]
        found += shares(pool, index, amounts, most) if isinstance(amounts, dict) else 1
    return found
