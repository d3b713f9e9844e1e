"""The order in which a request tries the devices of one node that would do: what its preference makes of them. Pure.

``firstFit`` keeps the order of the pools. Under ``binpack`` and ``spread``:

- Devices of pools with binding conditions come last, whatever the policy; where a request takes devices of several
  sorts, partitions come first, then shares, then whole devices.
- **Shares**: ``binpack`` takes cards in use before idle ones, and of these the fullest: the one with the highest load
  after the pick, counted in the capacity that is then used most. ``spread`` takes idle cards first, then the emptiest.
- **Partitions**: ``binpack`` takes the one that costs least (``policies.cutting``); ``spread`` takes the
  emptiest card, and on it the one that costs least.
- **Whole devices** are either free or not and differ by their neighbours only: ``binpack`` takes them where fewest
  are free close by, so that larger groups stay whole, ``spread`` where most are.

**Locality**, for several shares or whole devices: if the devices of one value of the tightest attribute (one NVLink or
HCCS domain) suffice, the others come after them; within these the same for the next attribute (one PCIe root), and so
on (one NUMA node). Where several values would suffice, ``binpack`` takes that with the fewest free devices, ``spread``
that with the most (of equal ones, that with the fewest or most in the next wider group), and shares and ``firstFit``
that of the device that comes first. Where no value suffices, the devices are taken from as few values as possible:
those with most devices first. A single whole device goes by the same rule: next to those taken, or far from them.

Devices on which a selector fails come after all others. Equal devices stay in the order of their pools.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Protocol

from controller.allocation.policies.cutting import Cards, cards_of, partial
from controller.allocation.policies.preference import Preference, load
from controller.allocation.search.attempt import Candidate
from controller.allocation.stock.pools import Pool, Unit

_PARTITION: Final = 0
_SHARE: Final = 1
_WHOLE: Final = 2


class Left(Protocol):
    """What is in use already when a request is served."""

    def free(self, pool: Pool) -> Sequence[int]:
        """What is left of the pool's counters, nanos."""

    def consumed(self, unit: Unit) -> Mapping[str, int]:
        """What is in use of a shareable device's capacities, nanos."""


class Now:
    """What is in use by allocations alone."""

    def free(self, pool: Pool) -> Sequence[int]:
        """What is left of the pool's counters, nanos."""
        return pool.free

    def consumed(self, unit: Unit) -> Mapping[str, int]:
        """What is in use of a shareable device's capacities, nanos."""
        return unit.use.consumed


def arrange(
    preference: Preference, wanted: int, candidates: Sequence[Candidate], left: Left | None = None
) -> list[Candidate]:
    """The candidates, given in the order of their pools, in the order in which the request prefers them."""
    left = left or Now()
    if not preference.orders(wanted):
        return list(candidates)
    found: list[Candidate] = []
    sorts: dict[tuple[bool, int], list[Candidate]] = {}
    for one in candidates:
        if one.fault is None:
            sorts.setdefault(_sort(one, preference), []).append(one)
    for (_, sort), some in sorted(sorts.items(), key=lambda entry: entry[0]):
        missing = max(1, wanted - len(found))
        if sort == _PARTITION:
            found += _cut(preference, missing, some, left)
            continue
        if sort == _SHARE and preference.policy != "firstFit":
            some = sorted(some, key=_fullness(preference, left))
        found += _near(preference, missing, some, sort) if missing > 1 or sort == _WHOLE else some
    return found + [one for one in candidates if one.fault is not None]


def closeness(preference: Preference, wanted: int, candidates: Sequence[Candidate]) -> int:
    """The first of the attributes that should agree of which one value suffices; their number if none does, or all may.

    0 where a single device is wanted: it is always close to itself.
    """
    if wanted < 2:
        return 0
    for place, attribute in enumerate(preference.near):
        if any(len(group) >= wanted for group in _groups(candidates, attribute)):
            return place
    return len(preference.near)


def share_load(candidate: Candidate, consumed: Mapping[str, int], *, picked: bool = True) -> int:
    """The load of a shareable device (with the pick, or before) in the capacity, of those it takes, that is fullest."""
    capacity = candidate.unit.device.capacity
    taken = {name: amount.nanos for name, amount in (candidate.takes or {}).items() if amount.nanos > 0}
    used = {name: consumed.get(name, 0) + (amount if picked else 0) for name, amount in taken.items()}
    return max((load(amount, capacity[name].value.nanos) for name, amount in used.items()), default=0)


def _sort(candidate: Candidate, preference: Preference) -> tuple[bool, int]:
    late = candidate.unit.pool.late
    if preference.policy == "firstFit":
        return late, _WHOLE
    if candidate.takes is not None:
        return late, _SHARE
    return late, _PARTITION if partial(candidate.unit) else _WHOLE


def _fullness(preference: Preference, left: Left) -> Callable[[Candidate], tuple[bool, int]]:
    binpack = preference.policy == "binpack"

    def key(candidate: Candidate) -> tuple[bool, int]:
        consumed = left.consumed(candidate.unit)
        filled = share_load(candidate, consumed)
        return (not consumed, -filled) if binpack else (bool(consumed), filled)

    return key


def _cut(preference: Preference, wanted: int, candidates: Sequence[Candidate], left: Left) -> list[Candidate]:
    """Partitions in order: each of the first ``wanted`` as if those before it had been taken."""
    free: dict[Pool, list[int]] = {}
    cards: dict[Pool, Cards] = {}
    binpack = preference.policy == "binpack"

    def key(candidate: Candidate) -> tuple[object, ...]:
        pool = candidate.unit.pool
        if pool not in free:
            free[pool], cards[pool] = list(left.free(pool)), cards_of(pool)
        blocked = any(free[pool][index] < amount for index, amount in candidate.unit.draws)
        lost, filled = cards[pool].cost(candidate.unit, free[pool])
        return (blocked, lost) if binpack else (blocked, filled, lost)

    rest = list(candidates)
    found: list[Candidate] = []
    for _ in range(min(wanted, len(rest)) - 1):
        best = min(rest, key=key)
        rest.remove(best)
        found.append(best)
        for index, amount in best.unit.draws:
            free[best.unit.pool][index] -= amount
    return found + sorted(rest, key=key)


def _near(preference: Preference, wanted: int, candidates: Sequence[Candidate], sort: int) -> list[Candidate]:
    """Devices in order: first those close to one another."""
    first = list(candidates)
    rest: list[Candidate] = []
    parted = False
    for place, attribute in enumerate(preference.near):
        groups = _groups(first, attribute)
        enough = [group for group in groups if len(group) >= wanted]
        if enough:
            best = enough[0]
            if preference.policy != "firstFit" and sort != _SHARE:
                best = _fitting(enough, first, preference, place)
            chosen = {one.unit for one in best}
            rest = [one for one in first if one.unit not in chosen] + rest
            first = best
        elif not parted and any(len(group) > 1 for group in groups):
            parted = True
            first = [one for group in sorted(groups, key=lambda group: -len(group)) for one in group]
    return first + rest


def _fitting(
    groups: Sequence[list[Candidate]], candidates: Sequence[Candidate], preference: Preference, place: int
) -> list[Candidate]:
    """The group with fewest (``spread``: most) free devices, of equal ones that in the wider group with fewest."""
    wider = [Counter(_value(one, attribute) for one in candidates) for attribute in preference.near[place + 1 :]]
    sign = 1 if preference.policy == "binpack" else -1

    def key(group: Sequence[Candidate]) -> list[int]:
        around = zip(wider, preference.near[place + 1 :], strict=True)
        return [sign * len(group), *(sign * counts[_value(group[0], attribute)] for counts, attribute in around)]

    return min(groups, key=key)


def _groups(candidates: Sequence[Candidate], attribute: str) -> list[list[Candidate]]:
    """The candidates by value, in order; one whose value is not known is on its own. Empty if none is known."""
    groups: dict[Hashable, list[Candidate]] = {}
    for one in candidates:
        groups.setdefault(_value(one, attribute), []).append(one)
    return list(groups.values()) if any(not isinstance(value, Unit) for value in groups) else []


def _value(candidate: Candidate, attribute: str) -> Hashable:
    value = candidate.unit.device.attributes.get(attribute, "")
    return candidate.unit if value == "" else (value,)
