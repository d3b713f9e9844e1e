"""The order in which a request tries the eligible devices of one node, according to its preference. Pure.

``firstFit`` keeps the order of the pools. Under ``binpack`` and ``spread``:

- Devices of pools with binding conditions come last, whatever the policy. If a request may take devices of several
  sorts, partitions come first, then shares, then whole devices.
- **Shares**: ``binpack`` prefers cards in use to idle ones, and among them the fullest: the card with the highest load
  after the pick, in the capacity that is then used most. ``spread`` prefers idle cards, then the emptiest.
- **Partitions**: ``binpack`` prefers the one with the least cost (``partition_cost``). ``spread`` prefers the emptiest
  card, and on it the partition with the least cost.
- **Whole devices** are either free or not, so only their neighbours make a difference: ``binpack`` prefers them where
  the fewest are free close by, so that larger groups stay whole, ``spread`` where the most are.

**Locality**, for several shares or whole devices: if pairs of cards differ in their links (``linked``), the set that
``closest`` finds comes first, of those that the constraints of the request allow, and with ``matchAttribute`` after it
the best sets of those that are left. For the others, and for the devices of all other nodes: if those with one value of
the tightest attribute (one NVLink or HCCS domain) are sufficient, all others come after them. The same applies within
these devices to the next attribute (one PCIe switch), and so on (one PCIe root, one NUMA node). If several values are
sufficient, ``binpack`` prefers the one with the fewest free devices and ``spread`` the one with the most (among equal
ones, the fewest or most in the next wider group). Shares and ``firstFit`` prefer that of the first device. If no value
is sufficient, the devices are taken from as few values as possible, those with the most devices first. A single whole
device follows the same rule.

Devices on which a selector fails come after all others. Equal devices stay in the order of their pools.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Protocol

from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.nodefit.closest import linked, value_of
from controller.allocation.nodefit.partition_cost import PartitionCosts, PoolCards, is_partition
from controller.allocation.preferences import Preference, load, ranks_of
from controller.allocation.requests import RequestChoice
from controller.allocation.search.attempt import Candidate

_PARTITION: Final = 0
_SHARE: Final = 1
_WHOLE: Final = 2

Closeness = tuple[int, int]
"""How close the devices of a request are; the smallest is best: the index of the first attribute of which one value is
sufficient, or the number of attributes; then the links that they lack (``linked``)."""
NEAREST: Final[Closeness] = (0, 0)
"""The closeness of a single device."""


class Remaining(Protocol):
    """The counters and capacities that allocations, and perhaps other requests of the pod, leave to a request."""

    def free(self, pool: Pool) -> Sequence[int]:
        """The free amount of each counter of the pool, nanos."""

    def consumed(self, device: PoolDevice) -> Mapping[str, int]:
        """The amounts in use of a shareable device's capacities, nanos."""


class AllocationsOnly:
    """The counters and capacities that allocations leave."""

    def free(self, pool: Pool) -> Sequence[int]:
        """The free amount of each counter of the pool, nanos."""
        return pool.free

    def consumed(self, device: PoolDevice) -> Mapping[str, int]:
        """The amounts in use of a shareable device's capacities, nanos."""
        return device.use.consumed


def in_preferred_order(
    choice: RequestChoice,
    wanted: int,
    candidates: Sequence[Candidate],
    costs: PartitionCosts,
    left: Remaining | None = None,
) -> list[Candidate]:
    """Sorts candidates, given in the order of their pools, by the preference of the request."""
    left, preference = left or AllocationsOnly(), choice.preference
    if not preference.orders_devices(wanted):
        return list(candidates)
    found: list[Candidate] = []
    sorts: dict[tuple[bool, int], list[Candidate]] = {}
    for one in candidates:
        if one.fault is None:
            sorts.setdefault(_sort(one, preference), []).append(one)
    for (_, sort), some in sorted(sorts.items(), key=lambda entry: entry[0]):
        missing = max(1, wanted - len(found))
        if sort == _PARTITION:
            found += _partitions(preference, missing, some, costs, left)
            continue
        if sort == _SHARE:
            some = sorted(some, key=_fullness(preference, left))
        found += _near(choice, missing, some, sort) if missing > 1 or sort == _WHOLE else some
    return found + [one for one in candidates if one.fault is not None]


def closeness(choice: RequestChoice, wanted: int, candidates: Sequence[Candidate]) -> Closeness:
    """The closeness of the devices that a request gets."""
    near = choice.preference.near
    if wanted < 2:
        return NEAREST
    cards = linked(choice, candidates)
    # The policy decides only between sets with as many links.
    best = cards.best(wanted, ranks_of("firstFit")) if cards else None
    lacking = cards.lacking(best) if cards and best else 0
    for position, attribute in enumerate(near):
        if any(len(group) >= wanted for group in _groups(candidates, attribute)):
            return position, lacking
    return len(near), lacking


def share_load(candidate: Candidate, consumed: Mapping[str, int], *, picked: bool = True) -> int:
    """The load of a shareable device, with or without the pick: that of the fullest capacity that the pick consumes."""
    capacity = candidate.device.spec.capacity
    taken = {name: amount.nanos for name, amount in (candidate.consumes or {}).items() if amount.nanos > 0}
    used = {name: consumed.get(name, 0) + (amount if picked else 0) for name, amount in taken.items()}
    return max((load(amount, capacity[name].value.nanos) for name, amount in used.items()), default=0)


def _sort(candidate: Candidate, preference: Preference) -> tuple[bool, int]:
    late = candidate.device.pool.binding_conditions
    if not preference.ranks.prefers:
        return late, _WHOLE
    if candidate.consumes is not None:
        return late, _SHARE
    return late, _PARTITION if is_partition(candidate.device) else _WHOLE


def _fullness(preference: Preference, left: Remaining) -> Callable[[Candidate], tuple[int, ...]]:
    ranks = preference.ranks

    def key(candidate: Candidate) -> tuple[int, ...]:
        consumed = left.consumed(candidate.device)
        return ranks.of_share(share_load(candidate, consumed), used=bool(consumed))

    return key


def _partitions(
    preference: Preference, wanted: int, candidates: Sequence[Candidate], costs: PartitionCosts, left: Remaining
) -> list[Candidate]:
    """Partitions in order: each of the first ``wanted`` as if those before it were in use."""
    free: dict[Pool, list[int]] = {}
    cards: dict[Pool, PoolCards] = {}
    ranks = preference.ranks

    def key(candidate: Candidate) -> tuple[object, ...]:
        pool = candidate.device.pool
        if pool not in free:
            free[pool], cards[pool] = list(left.free(pool)), costs.cards_of(pool)
        blocked = any(free[pool][index] < amount for index, amount in candidate.device.draws)
        lost, filled = cards[pool].cost(candidate.device, free[pool])
        return blocked, *ranks.of_partition(filled, lost)

    rest = list(candidates)
    found: list[Candidate] = []
    for _ in range(min(wanted, len(rest)) - 1):
        best = min(rest, key=key)
        rest.remove(best)
        found.append(best)
        for index, amount in best.device.draws:
            free[best.device.pool][index] -= amount
    return found + sorted(rest, key=key)


def _near(choice: RequestChoice, wanted: int, candidates: Sequence[Candidate], sort: int) -> list[Candidate]:
    """Devices in order: those close to one another first."""
    preference = choice.preference
    ranks = ranks_of("firstFit") if sort == _SHARE else preference.ranks
    sets: list[Candidate] = []
    others = list(candidates)
    while wanted > 1 and (cards := linked(choice, others)) and (best := cards.best(wanted, ranks)):
        sets += [others[at] for at in best.cards]
        others = [one for at, one in enumerate(others) if at not in best.cards]
        if not choice.match_attributes:
            break
        # Another request may rule out the value of the best set; then the best one of another value is to be found.
    return sets + _by_groups(preference, wanted, others, sort)


def _by_groups(preference: Preference, wanted: int, candidates: Sequence[Candidate], sort: int) -> list[Candidate]:
    """Devices in order by the values that they have in common."""
    first = list(candidates)
    rest: list[Candidate] = []
    parted = False
    for position, attribute in enumerate(preference.near):
        groups = _groups(first, attribute)
        enough = [group for group in groups if len(group) >= wanted]
        if enough:
            best = enough[0]
            if preference.ranks.prefers and sort != _SHARE:
                best = _best_group(enough, first, preference, position)
            chosen = {one.device for one in best}
            rest = [one for one in first if one.device not in chosen] + rest
            first = best
        elif not parted and any(len(group) > 1 for group in groups):
            parted = True
            first = [one for group in sorted(groups, key=lambda group: -len(group)) for one in group]
    return first + rest


def _best_group(
    groups: Sequence[list[Candidate]], candidates: Sequence[Candidate], preference: Preference, position: int
) -> list[Candidate]:
    """The group with the fewest free devices (``spread``: most); among equal ones, by the next wider group."""
    wider = [Counter(value_of(one, attribute) for one in candidates) for attribute in preference.near[position + 1 :]]
    ranks = preference.ranks

    def key(group: Sequence[Candidate]) -> tuple[int, ...]:
        around = zip(wider, preference.near[position + 1 :], strict=True)
        return ranks.of_group([len(group), *(counts[value_of(group[0], attribute)] for counts, attribute in around)])

    return min(groups, key=key)


def _groups(candidates: Sequence[Candidate], attribute: str) -> list[list[Candidate]]:
    """The candidates by value, in order; each without a value forms a group. Empty if none has a value."""
    groups: dict[Hashable, list[Candidate]] = {}
    for one in candidates:
        groups.setdefault(value_of(one, attribute), []).append(one)
    return list(groups.values()) if any(not isinstance(value, PoolDevice) for value in groups) else []
