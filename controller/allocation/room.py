"""How many times over a node can take claims that are one request for devices. Exact, without trying it out."""

from collections.abc import Sequence

from controller.allocation.quick import Masks, Order
from controller.allocation.requests.shapes import Shape
from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.columns import Columns
from controller.allocation.stock.layout import NO_GROUP, bits
from controller.allocation.stock.pools import Pool


def times(order: Order, shape: Shape, masks: Masks, columns: Columns, most: int) -> int | None:
    """How often the devices in ``masks`` are enough for the one request of the shape; None if that must be tried.

    Each time the request takes the first devices that fit, so what counts is how many there are of each kind that may
    serve it together.
    """
    step = shape.steps[0][0]
    if shape.distinct or len(shape.alike) > 1:
        return None
    pairs = [(pool, mask) for (pool, _), mask in zip(order, masks, strict=True) if mask]
    if any(pool.grouped for pool, _ in pairs):
        return None
    if step.count == 1:
        return min(most, sum(_one_by_one(pool, mask, columns, step.want.capacity, most) for pool, mask in pairs))
    if any(mask & pool.multiple or _contended(pool, mask) for pool, mask in pairs):
        return None
    if not shape.alike:
        return min(most, sum(mask.bit_count() for _, mask in pairs) // step.count)
    numbers: dict[object, int] = {}
    for pool, mask in pairs:
        column = columns.values(pool, shape.alike[0].attribute)
        if column.several:
            return None
        for value, group in (column.groups or {}).items():
            numbers[value] = numbers.get(value, 0) + (group & mask).bit_count()
    return min(most, sum(number // step.count for number in numbers.values()))


def _contended(pool: Pool, mask: int) -> bool:
    """Whether two of these devices draw on the same counters."""
    groups = [group for index in bits(mask) if (group := pool.layout.groups[index]) != NO_GROUP]
    return len(set(groups)) < len(groups)


def _one_by_one(pool: Pool, mask: int, columns: Columns, asked: Amounts, most: int) -> int:
    """How many requests for one device find one: the first that is left, until there is none."""
    if not mask & pool.multiple and not _contended(pool, mask):
        return mask.bit_count()
    takes: Sequence[Amounts | None] = columns.takes(pool, asked, mask)[1]
    free = list(pool.free)
    found = 0
    for index in bits(mask):
        unit = pool.units[index]
        if not unit.use.holders and any(free[at] < amount for at, amount in unit.draws):
            continue
        if not unit.use.holders:
            for at, amount in unit.draws:
                free[at] -= amount
        amounts = takes[index]
        found += 1 if amounts is None else _shares(pool, index, amounts, most)
    return found


def _shares(pool: Pool, index: int, amounts: Amounts, most: int) -> int:
    """How many shares that take these amounts are left of a device."""
    unit = pool.units[index]
    left = [
        (unit.device.capacity[name].value.nanos - unit.use.consumed.get(name, 0)) // amount.nanos
        for name, amount in amounts.items()
        if amount.nanos > 0
    ]
    return min(left, default=most)
