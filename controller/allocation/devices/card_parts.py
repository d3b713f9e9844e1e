"""How much of a card an allocated device takes, as one number for every kind of device."""

import re
from typing import Final

from controller.allocation.devices.layout import NO_GROUP
from controller.allocation.devices.pools import PoolDevice, PoolKey
from driver.model import Result

CARD: Final = 5_040_000
"""A whole card. Sevenths, eighths, ninths and hundredths of a card are whole numbers, so that parts add up exactly."""
Card = tuple[PoolKey, int | str]
"""Devices that draw on the same counters are one card, and so is a device without counters."""
_SHARED: Final = ("memory", "cores")
"""Capacities of a shareable device that tell how much of its card a share takes."""
_SLOTS: Final = ("slots",)
_SIZES: Final = ("memory-slice", "aicore")
"""Counters that tell how large a partition is, if its card has them: a MIG partition has memory slices, each a counter
of its own, and a vNPU has cores."""
_NUMBER: Final = re.compile(r"-\d+$")


def card_of(device: PoolDevice | None, result: Result) -> Card:
    """The card of an allocated device."""
    name = result.device
    group = NO_GROUP if device is None else device.pool.layout.groups[device.index]
    return (name.driver, name.pool), name.device if group == NO_GROUP else group


def card_parts(device: PoolDevice | None, result: Result) -> int:
    """The part of a card that the result takes: of ``CARD``, rounded to the nearest number.

    A share takes the larger one of its parts of memory and cores, or if it has neither, as of a device plugin that says
    nothing of memory, its part of the slots; a partition, its part of the memory slices (MIG) or cores (vNPU), or of a
    card that has neither, the largest of its parts of the counters. Any other device is a whole card. One that no slice
    publishes any more is taken for one, too.
    """
    if device is None:
        return CARD
    if result.share_id:
        amounts = _consumed(device, result, _SHARED) or _consumed(device, result, _SLOTS)
    else:
        amounts = _drawn(device)
    parts = [_part(amount, total) for amount, total in amounts if amount > 0]
    return max(parts) if parts else CARD


def _drawn(device: PoolDevice) -> list[tuple[int, int]]:
    """How much the partition draws of each counter of its card, and how much there is; of its size alone, if it can.

    Counters that differ by a number at the end, as slices of memory do, are one.
    """
    pool, drawn, total = device.pool, dict[str, int](), dict[str, int]()
    sets = {pool.counters[index].counter_set for index, _ in device.draws}
    for index, counter in enumerate(pool.counters):
        if counter.counter_set in sets:
            name = _NUMBER.sub("", counter.counter)
            total[name] = total.get(name, 0) + pool.total[index]
    for index, amount in device.draws:
        name = _NUMBER.sub("", pool.counters[index].counter)
        drawn[name] = drawn.get(name, 0) + amount
    names = [name for name in _SIZES if drawn.get(name)][:1] or [*drawn]
    return [(drawn[name], total[name]) for name in names]


def _consumed(device: PoolDevice, result: Result, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Of these capacities that the share takes something of, how much, and how much the device has."""
    capacity = device.spec.capacity
    return [
        (amount.nanos, capacity[name].value.nanos)
        for name, amount in result.consumed.items()
        if name.rpartition("/")[2] in names and name in capacity and amount.nanos > 0
    ]


def _part(amount: int, total: int) -> int:
    return CARD if amount >= total else (2 * amount * CARD + total) // (2 * total)
