"""Which claims stand in each other's way on one node. Pure.

The allocator must never let this happen and the API server does not check it, so the node checks it as the last line:
with the counters and capacities the devices are published with, which say what a card can give at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from driver.model import CounterSet, Device, Result
from driver.quantity import Quantity

Claims = Mapping[str, Iterable[Result]]
"""What claims hold, by the claim's uid."""


def blockers(
    uid: str, wanted: Iterable[Result], held: Claims, devices: Mapping[str, Device], sets: Iterable[CounterSet]
) -> frozenset[str]:
    """The uids of the claims that hold what ``wanted`` needs; ``uid`` itself if its own results exclude each other.

    Claims meet if they hold the same device and are not both shares of it, if together they draw more from a counter
    than its set has, or if their shares consume more of a capacity than the device has. Results with admin access hold
    nothing and wait for nobody.
    """
    claims: dict[str, list[Result]] = {
        owner: [result for result in results if not result.admin_access]
        for owner, results in {**held, uid: wanted}.items()
    }
    found = set(_same_device(uid, claims))
    limits = {("counter", s.name, name): amount for s in sets for name, amount in s.counters.items()}
    for device in devices.values():
        limits |= {("capacity", device.name, name): capacity.value for name, capacity in device.capacity.items()}
    mine = _draws(claims[uid], devices)
    for key, owners in _overdrawn(claims, devices, limits).items():
        if key in mine:
            found |= owners - {uid} or {uid}
    return frozenset(found)


def _same_device(uid: str, claims: Mapping[str, list[Result]]) -> Iterable[str]:
    for index, wanted in enumerate(claims[uid]):
        for owner, results in claims.items():
            for other in claims[uid][:index] if owner == uid else results:
                shared = wanted.share_id and other.share_id and wanted.share_id != other.share_id
                if wanted.device == other.device and not shared:
                    yield owner


Source = tuple[str, str, str]
"""``counter``, its set and its name; or ``capacity``, the device and its name."""


def _draws(results: Iterable[Result], devices: Mapping[str, Device]) -> Mapping[Source, Quantity]:
    """What the results draw from each source. A device in shared use draws on counters once, however many shares."""
    total: dict[Source, Quantity] = defaultdict(lambda: Quantity(0))
    seen: set[str] = set()
    for result in results:
        name = result.device.device
        for consumption in devices[name].consumes if name in devices and name not in seen else ():
            for counter, amount in consumption.counters.items():
                total["counter", consumption.counter_set, counter] += amount
        for capacity, amount in result.consumed.items() if result.share_id else ():
            total["capacity", name, capacity] += amount
        seen.add(name)
    return total


def _overdrawn(
    claims: Mapping[str, list[Result]], devices: Mapping[str, Device], limits: Mapping[Source, Quantity]
) -> Mapping[Source, set[str]]:
    """Sources that hold less than all claims together draw, with the claims that draw on them."""
    together = _draws([result for results in claims.values() for result in results], devices)
    by_claim = {owner: _draws(results, devices) for owner, results in claims.items()}
    known = {(kind, name) for kind, name, _ in limits}
    return {
        source: {owner for owner, draws in by_claim.items() if source in draws}
        for source, amount in together.items()
        if source[:2] in known and amount > limits.get(source, Quantity(0))
    }
