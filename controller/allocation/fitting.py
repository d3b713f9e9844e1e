"""Whether one device can be had for one way to satisfy a request, and what of it would be taken."""

from controller.allocation.reasons.reasons import Cause
from controller.allocation.requests.demand import Choice
from controller.allocation.stock.amounts import Amounts, lacking, take
from controller.allocation.stock.pools import Unit
from controller.allocation.stock.taints import untolerated
from driver.model import Want
from driver.quantity import Quantity

_REMEMBERED = 32
"""Capacity requests for which a device remembers what they take."""
NO_PART = "memoryPercent"
"""What a device that is not shareable lacks for requests that want a part of its memory."""


def takes_of(unit: Unit, choice: Choice) -> Amounts | str | None:
    """What the choice takes of the unit: capacities of a share, None for the whole; or the capacity it cannot give."""
    want, percent = choice.want, choice.preference.memory_percent
    if percent and not unit.device.allow_multiple:
        return NO_PART
    if unit.device.allow_multiple:
        key = (percent, *((name, amount.nanos, amount.format) for name, amount in want.capacity.items()))
        known = unit.takes.get(key)
        if known is None:
            if len(unit.takes) >= _REMEMBERED:
                unit.takes.clear()
            known = unit.takes[key] = take(unit.device.capacity, _asked(unit, want, percent))
        return known
    return lacking(unit.device.capacity, want.capacity) or None if want.capacity else None


def _asked(unit: Unit, want: Want, percent: int) -> Amounts:
    """The capacities the want names, with the memory that ``percent`` of this device's comes to, rounded up."""
    if not percent:
        return want.capacity
    memory = unit.device.capacity.get("memory")
    total = memory.value if memory else Quantity(0)
    return {**want.capacity, "memory": Quantity.of(-(-total.value * percent // 100), total.format)}


def busy(unit: Unit, want: Want) -> bool:
    """Whether somebody holds the unit so that nobody else can have any of it."""
    use = unit.use
    return not want.admin_access and bool(use.exclusive or (use.shares and not unit.device.allow_multiple))


def hindrance(unit: Unit, want: Want, takes: Amounts | None) -> Cause | None:
    """Why the unit cannot be had now; None if it can. Admin access needs nothing but tolerated taints."""
    if unit.taints and (taint := untolerated(unit.taints, want.tolerations)) is not None:
        return "taint", f"{taint.key}={taint.value}:{taint.effect}"
    if want.admin_access:
        return None
    if busy(unit, want):
        return "inUse", ""
    use = unit.use
    if takes is not None and use.shares:
        for name, amount in takes.items():
            if use.consumed.get(name, 0) + amount.nanos > unit.device.capacity[name].value.nanos:
                return "capacityLeft", name
    if unit.draws and not use.holders:
        free = unit.pool.free
        for index, drawn in unit.draws:
            if free[index] < drawn:
                return "counter", unit.pool.counter_name(index).counter
    return None
