"""Finds claims whose devices exclude each other on one node. Pure.

The allocator must prevent such conflicts and the API server does not check them, so the node is the last check. It uses
the published counters and capacities of the devices.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from driver.model import CounterSet, Device, Result
from driver.quantity import Quantity

ResultsByClaim = Mapping[str, Iterable[Result]]
"""The results of claims, by the claim's uid."""


def conflicting_claims(
    uid: str, wanted: Iterable[Result], held: ResultsByClaim, devices: Mapping[str, Device], sets: Iterable[CounterSet]
) -> frozenset[str]:
    """The uids of the claims that conflict with ``wanted``; ``uid`` itself if its own results exclude each other.

    Two claims conflict if they hold the same device and are not both shares of it, if together they consume more of a
    counter than its set has, or if their shares consume more of a capacity than the device has. Results with admin
    access hold nothing and conflict with nothing.
    """
    claims: dict[str, list[Result]] = {
        owner: [result for result in results if not result.admin_access]
        for owner, results in {**held, uid: wanted}.items()
    }
    conflicts = set(_same_device(uid, claims))
    limits = {("counter", s.name, name): amount for s in sets for name, amount in s.counters.items()}
    for device in devices.values():
        limits |= {("capacity", device.name, name): capacity.value for name, capacity in device.capacity.items()}
    consumed = _consumption(claims[uid], devices)
    for source, owners in _exceeded(claims, devices, limits).items():
        if source in consumed:
            conflicts |= owners - {uid} or {uid}
    return frozenset(conflicts)


def _same_device(uid: str, claims: Mapping[str, list[Result]]) -> Iterable[str]:
    for index, wanted in enumerate(claims[uid]):
        for owner, results in claims.items():
            for other in claims[uid][:index] if owner == uid else results:
                shared = wanted.share_id and other.share_id and wanted.share_id != other.share_id
                if wanted.device == other.device and not shared:
                    yield owner


Source = tuple[str, str, str]
"""``counter``, its set and its name; or ``capacity``, the device and its name."""


def _consumption(results: Iterable[Result], devices: Mapping[str, Device]) -> Mapping[Source, Quantity]:
    """The consumption of each source. A shared device consumes counters once, however many shares it has."""
    total: dict[Source, Quantity] = defaultdict(lambda: Quantity(0))
    counted: set[str] = set()
    for result in results:
        name = result.device.device
        for consumption in devices[name].consumes if name in devices and name not in counted else ():
            for counter, amount in consumption.counters.items():
                total["counter", consumption.counter_set, counter] += amount
        for capacity, amount in result.consumed.items() if result.share_id else ():
            total["capacity", name, capacity] += amount
        counted.add(name)
    return total


def _exceeded(
    claims: Mapping[str, list[Result]], devices: Mapping[str, Device], limits: Mapping[Source, Quantity]
) -> Mapping[Source, set[str]]:
    """Sources whose amount is smaller than the consumption of all claims, with these claims."""
    total = _consumption([result for results in claims.values() for result in results], devices)
    by_claim = {owner: _consumption(results, devices) for owner, results in claims.items()}
    known = {(kind, name) for kind, name, _ in limits}
    return {
        source: {owner for owner, consumed in by_claim.items() if source in consumed}
        for source, amount in total.items()
        if source[:2] in known and amount > limits.get(source, Quantity(0))
    }
