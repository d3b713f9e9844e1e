"""Finds devices of which too much is in use. There are none unless two programs allocated."""

from collections.abc import Iterable, Mapping

from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import PoolDevice
from controller.allocation.devices.usage import DeviceUse


def overuse(use: DeviceUse, device: PoolDevice | None) -> Mapping[str, str]:
    """The claims (by UID) that together overuse a device, and what they overuse; empty if there are none.

    Args:
        use: the use of the device.
        device: None if no slice publishes it (any more); then its capacities and counters are not known.
    """
    if use.exclusive + bool(use.shares) > 1 or (use.shares > 1 and device and not device.spec.allow_multiple):
        return dict.fromkeys(use.holders, "the device")
    if device is None or device.pool.problem:
        return {}
    found: dict[str, str] = {}
    for name, amount in use.consumed.items():
        capacity = device.spec.capacity.get(name)
        if capacity is not None and amount > capacity.value.nanos:
            found |= dict.fromkeys(use.holders, f"capacity {name}")
    for index, drawn in device.draws:
        if drawn and device.pool.free[index] < 0:
            found |= dict.fromkeys(_drawing_on(device, index), f"counter {device.pool.counters[index]}")
    return found


def _drawing_on(device: PoolDevice, index: int) -> Iterable[str]:
    pool = device.pool
    for number in bits(pool.layout.members[pool.layout.groups[device.index]] & pool.used):
        other = pool.devices[number]
        if any(drawn and at == index for at, drawn in other.draws):
            yield from other.use.holders
