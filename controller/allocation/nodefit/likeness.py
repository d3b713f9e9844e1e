"""Keys of a node: those with equal keys give the same answer.

``fingerprint`` has what decides how a compiled request fits now, ``crowding`` and ``positions`` what decides how it
fits once others are gone.

Each attribute of a pool is part of the fingerprint, derived from one that is, or listed here as irrelevant; a test
holds this against ``Pool`` itself, so that an attribute added there cannot be forgotten here.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import Pool, PoolKey
from controller.allocation.devices.usage import Usage, consuming
from controller.allocation.requests import CompiledRequest
from driver.model import Allocation, Result

INCLUDED: Final[Mapping[str, str]] = {
    "problem": "a pool with a problem gives nothing",
    "devices": "as what the request's selectors select, the values its constraints look at, and capacities",
    "layout": "which counters each device draws on",
    "free": "",
    "used": "",
    "exhausted": "",
    "shared": "with what is consumed of each device, and how it is shared",
    "compatibility_sets": "a pool with compatibilityGroups is compared with itself only",
    "tainted": "as the devices whose taints the request tolerates",
}
"""Attributes of ``Pool`` in the fingerprint, and in which form."""
IRRELEVANT: Final[Mapping[str, str]] = {
    "key": "a name",
    "incomplete": "part of the problem",
    "slices": "devices are made from them",
    "counters": "names",
    "total": "follows from free, used and layout",
    "one_node": "a name",
    "slot": "the node itself",
    "crowded": "tells only what is in use once holders are gone (``crowding``)",
    "binding_conditions": "decides the order of pools, and fingerprints are in this order",
    "shareable": "part of the column of capacities",
    "_allowed": "follows from layout and free",
}
"""Attributes of ``Pool`` that are left out of the fingerprint, and why."""


def fingerprint(order: Order, request: CompiledRequest, index: DeviceIndex) -> Hashable:
    """The key of all facts of a node that decide how many times it fits the request."""
    return tuple([_of_pool(pool, visible, request, index) for pool, visible in order])


def crowding(order: Order) -> Hashable:
    """The key of the devices that are not free once one of their holders is gone: how many hold each, and how."""
    return tuple([tuple([_crowd(pool, at) for at in bits(pool.crowded)]) if pool.crowded else () for pool, _ in order])


def _of_pool(pool: Pool, visible: int, request: CompiledRequest, index: DeviceIndex) -> Hashable:
    if pool.problem:
        return None
    selected = []
    for demand in request.demands:
        for choice in demand.choices:
            found = index.selectors.selection(pool, choice.criteria.filter)
            tolerated = pool.tolerated(choice.criteria.tolerations)
            selected.append((found.match & visible & tolerated, found.faulty & visible))
    # Columns and layouts stand for themselves: pools that are alike share them, and they live as long as they are kept.
    return (
        tuple(selected),
        tuple([index.columns.values(pool, attribute) for attribute in request.attributes]),
        index.columns.capacities(pool),
        pool.layout,
        pool.exhausted,
        pool.used,
        tuple([_shares(pool, at) for at in bits(pool.shared)]),
        tuple(pool.free),
        pool if pool.compatibility_sets else None,
    )


def _shares(pool: Pool, index: int) -> Hashable:
    use = pool.devices[index].use
    return index, bool(use.exclusive), frozenset(use.consumed.items()), frozenset(use.sharing)


def _crowd(pool: Pool, index: int) -> Hashable:
    use = pool.devices[index].use
    return index, use.exclusive, use.shares, frozenset(use.sharing.items())


DevicePosition = tuple[int, int, bool, tuple[tuple[str, int], ...], tuple[str, ...]]
"""A pool and a device of it by number, whether it is a share, the amounts that it consumes, and how it is shared."""


def positions(
    order: Order, allocations: Sequence[Allocation], index: DeviceIndex, usage: Usage
) -> Sequence[tuple[DevicePosition, ...]]:
    """The positions of each allocation's devices among the pools of a node, sorted."""
    numbers = {pool.key: at for at, (pool, _) in enumerate(order)}
    return [
        tuple(sorted([_position(numbers, allocation, result, index, usage) for result in consuming(allocation)]))
        for allocation in allocations
    ]


def _position(
    numbers: Mapping[PoolKey, int], allocation: Allocation, result: Result, index: DeviceIndex, usage: Usage
) -> DevicePosition:
    device = index.device(result.device)
    number, at = (-1, -1) if device is None else (numbers.get(device.pool.key, -1), device.index)
    if not result.share_id:
        return number, at, False, (), ()
    consumed = tuple(sorted((name, amount.nanos) for name, amount in result.consumed.items()))
    return number, at, True, consumed, tuple(usage.sharing(allocation, result))
