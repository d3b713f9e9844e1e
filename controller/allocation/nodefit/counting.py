"""Counts how many times a node fits claims with one request, without trying."""

from collections.abc import Sequence

from controller.allocation.devices.columns import Columns
from controller.allocation.devices.device_index import Order
from controller.allocation.devices.layout import NO_GROUP, bits
from controller.allocation.devices.pools import Pool
from controller.allocation.nodefit.greedy import Masks
from controller.allocation.requests.compiled import CompiledRequest
from controller.allocation.rules.capacity import CapacityRequest, Quantities


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
