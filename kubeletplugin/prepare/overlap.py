"""Which claims stand in each other's way on one node. Pure.

The allocator must never let this happen and the API server does not check it, so the node checks it as the last line:
with the counters the devices are published with, which say what a card can give at all.
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

    Two claims meet if they hold the same device and are not both shares of it, or if together they draw more from a
    counter than its set has. Results with admin access hold nothing and wait for nobody.
    """
    claims: dict[str, list[Result]] = {
        owner: [result for result in results if not result.admin_access]
        for owner, results in {**held, uid: wanted}.items()
    }
    found = set(_same_device(uid, claims))
    limits = {s.name: s.counters for s in sets}
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


Counter = tuple[str, str]


def _draws(results: Iterable[Result], devices: Mapping[str, Device]) -> Mapping[Counter, Quantity]:
    """What the results draw from each counter. A device in shared use draws once, however many shares there are."""
    total: dict[Counter, Quantity] = defaultdict(lambda: Quantity(0))
    for name in {result.device.device for result in results}:
        for consumption in devices[name].consumes if name in devices else ():
            for counter, amount in consumption.counters.items():
                total[consumption.counter_set, counter] += amount
    return total


def _overdrawn(
    claims: Mapping[str, list[Result]], devices: Mapping[str, Device], limits: Mapping[str, Mapping[str, Quantity]]
) -> Mapping[Counter, set[str]]:
    """Counters of which less is there than all claims together draw, with the claims that draw on them."""
    together = _draws([result for results in claims.values() for result in results], devices)
    by_claim = {owner: _draws(results, devices) for owner, results in claims.items()}
    return {
        (counter_set, counter): {owner for owner, draws in by_claim.items() if (counter_set, counter) in draws}
        for (counter_set, counter), amount in together.items()
        if counter_set in limits and amount > limits[counter_set].get(counter, Quantity(0))
    }
