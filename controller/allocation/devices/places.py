"""The places of allocated devices among those of a node."""

from collections.abc import Mapping, Sequence

from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.pools import PoolKey
from controller.allocation.devices.usage import Usage, consuming
from driver.model import Allocation, Result

Place = tuple[int, int, bool, tuple[tuple[str, int], ...], tuple[str, ...]]
"""A pool and a device of it by number, whether it is a share, the amounts that it consumes, and how it is shared."""


def places(
    order: Order, allocations: Sequence[Allocation], index: DeviceIndex, usage: Usage
) -> Sequence[tuple[Place, ...]]:
    """The places of each allocation's devices among the pools of a node, sorted."""
    numbers = {pool.key: at for at, (pool, _) in enumerate(order)}
    return [
        tuple(sorted([_place(numbers, allocation, result, index, usage) for result in consuming(allocation)]))
        for allocation in allocations
    ]


def _place(
    numbers: Mapping[PoolKey, int], allocation: Allocation, result: Result, index: DeviceIndex, usage: Usage
) -> Place:
    device = index.device(result.device)
    number, at = (-1, -1) if device is None else (numbers.get(device.pool.key, -1), device.index)
    if not result.share_id:
        return number, at, False, (), ()
    consumed = tuple(sorted((name, amount.nanos) for name, amount in result.consumed.items()))
    return number, at, True, consumed, tuple(usage.sharing(allocation, result))
