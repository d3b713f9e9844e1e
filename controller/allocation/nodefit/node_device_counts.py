"""Counts the devices of a node for requests, without a search for a fit, for the choice among domains of a topology."""

from collections.abc import Sequence
from typing import NamedTuple

from controller.allocation.devices.columns import Columns
from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.domains import paths
from controller.allocation.devices.layout import NO_GROUP, bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.filters import Filter
from controller.allocation.nodefit.counting import count_fits, shares
from controller.allocation.nodefit.greedy import GreedyFit, Masks, NoFit
from controller.allocation.requests.compiled import CompiledRequest
from controller.allocation.requests.demands import RequestChoice


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


def node_devices(
    order: Order, filters: Sequence[Filter], attributes: Sequence[str], index: DeviceIndex
) -> NodeDeviceCounts:
    """Counts the devices of the node that any filter selects; all devices if there is no filter."""
    values: set[tuple[str, ...]] = set()
    total = available = tainted = shareable = 0
    for pool, visible in order:
        if pool.problem:
            continue
        devices = visible
        if filters:
            devices = 0
            for wanted in filters:
                devices |= index.selectors.selection(pool, wanted).match & visible
        if devices:
            values |= paths(pool, devices, attributes, index.columns)
            total += devices.bit_count()
            available += (devices & pool.available).bit_count()
            shareable |= devices & pool.shareable
            if pool.tainted:
                tainted += sum((devices & mask).bit_count() for mask in pool.tainted.values())
    return NodeDeviceCounts(frozenset(values), total, available, tainted, bool(shareable))


def most_fits(order: Order, request: CompiledRequest, greedy: GreedyFit, columns: Columns, most: int) -> int:
    """An upper bound, up to ``most``, on how many times the node fits the request: competition is ignored."""
    if request.maskable and request.single_choice and len(request.demands) == 1:
        offers = greedy.offers(order, request)
        if offers is NoFit.IMPOSSIBLE:
            return 0
        if not isinstance(offers, NoFit):
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
