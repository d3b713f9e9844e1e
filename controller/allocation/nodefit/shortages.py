"""The reasons why a node does not fit: the cause that excludes each device, and the claims that hold devices."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.devices.device_index import DeviceIndex
from controller.allocation.devices.layout import NO_GROUP, bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.nodefit.candidates import NodeCandidates, consumption_of, insufficiency, obstacle
from controller.allocation.reasons import MOST_HOLDERS, By, Cause, Exclusion, NodeReasons, Shortage, exclusions
from controller.allocation.requests import Demand, RequestChoice
from controller.allocation.search.attempt import Pick
from controller.allocation.search.search import Search
from controller.allocation.selectors import CompiledSelectors, Filter
from driver.cel import DevicePath
from driver.limits import bounded
from driver.model import Claim, Version

_MOST_POOLS: Final = 5
_MOST_PATHS: Final = 3
_MOST_VALUES: Final = 3
_MOST_VALUE: Final = 64
_SCANNED: Final = 64
"""The most devices of a pool that are looked at."""
_IDENTIFYING: Final = frozenset({"uuid", "index", "pciBusID", "serial"})
"""Attributes that tell each device from all others. To list them helps nobody, and no two nodes would be alike."""
_Freed = Counter[tuple[str, tuple[bool, int]]]
"""Devices of a pool that would fit if a claim ended, by its UID and card."""
_NUMBER: Final = re.compile(r"-\d+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Searched:
    """What came of a search: picks, or none and how it ended.

    Attributes:
        search: the search itself; None if the first devices that fit were enough, or if there are too few of them.
        undecided: whether it was cut short.
        faulty: whether a selector failed on a device that had to be visited.
    """

    picks: Sequence[Pick] | None = None
    search: Search | None = None
    undecided: bool = False
    faulty: bool = False

    @property
    def lasting(self) -> bool:
        """True if nothing can be found until devices are freed."""
        return self.picks is None and not self.undecided and not self.faulty


class WhyNot:
    """Finds why nodes do not fit.

    Args:
        names: keys of the claims that hold devices, by UID.

    Attributes:
        work: the work so far, in the unit of ``Fleet.work``.
    """

    def __init__(self, index: DeviceIndex, names: Mapping[str, str], selectors: CompiledSelectors):
        self._index = index
        self._selectors = selectors
        self._names = names
        self.work = 0

    def reasons(
        self, node: NodeCandidates, claims: Sequence[Claim], wanted: Sequence[Demand], searched: Searched
    ) -> NodeReasons:
        """The reasons of the node: by request if one fails alone, else by conflicts in the search."""
        lost: tuple[Exclusion, ...] = ()
        for_good = False
        if searched.search is None or searched.faulty:
            every = [tuple(self._shortages(node, claims, demand)) for demand in wanted]
            for_good = any(all(choice.for_good for choice in choices) for choices in every)
            short = tuple(
                choice for choices in every for choice in choices if choice.missing or _has_selector_error(choice)
            )
        else:
            deepest, losses = searched.search.loss()
            lost = exclusions(_conflicts(losses))
            decided = deepest >= 0 and not searched.undecided
            short = tuple(self._shortages(node, claims, wanted[deepest])) if decided else ()
            for_good = decided and not any(map(_may_get_better, node.pools))
        problems = [f"{'/'.join(pool.key)} {pool.problem}" for pool, _ in node.pools if pool.problem]
        return NodeReasons(
            shortages=short,
            together=lost,
            pools=tuple(problems[:_MOST_POOLS]),
            undecided=searched.undecided,
            for_good=for_good,
        )

    def _shortages(self, node: NodeCandidates, claims: Sequence[Claim], demand: Demand) -> Iterator[Shortage]:
        for choice in demand.choices:
            yield self._shortage(node, claims[demand.claim].key, choice)

    def _shortage(self, node: NodeCandidates, claim: str, choice: RequestChoice) -> Shortage:
        """Count every device once, by its first cause: pool, selectors in order, capacity, taints, usage."""
        count = _Count(choice, self._index)
        for pool, devices in node.pools:
            count.add(pool, devices)
        self.work += count.seen
        want, names = choice.want, self._names
        exact = want.mode == "ExactCount"
        needed = want.count - count.available if exact else count.blocked
        return Shortage(
            claim=claim,
            request=choice.name,
            device_class=want.device_class,
            wanted=want.count if exact else "all",
            seen=count.seen,
            available=count.available,
            exclusions=exclusions(count.causes.items(), count.failing),
            holders=tuple(sorted(names.get(uid, uid) for uid in count.holders)[:MOST_HOLDERS]),
            more_holders=max(0, len(count.holders) - MOST_HOLDERS),
            freeing=() if choice.constraints else _freeing(count.freed, needed, names),
            as_share=choice.as_share,
            incomplete=any(
                pool.incomplete and self._selectors.may_select(choice.criteria.filter, pool.key[0])
                for pool, _ in node.pools
            ),
        )


def _freeing(freed: Mapping[str, int], needed: int, names: Mapping[str, str]) -> tuple[str, ...]:
    """The fewest claims whose end would free ``needed`` devices, if a few are sufficient."""
    if needed <= 0 or sum(freed.values()) < needed:
        return ()
    chosen: list[str] = []
    most = sorted((-count, names.get(uid, uid)) for uid, count in freed.items())
    for count, name in most[:MOST_HOLDERS]:
        chosen.append(name)
        needed += count
        if needed <= 0:
            return tuple(chosen)
    return ()


class _Count:
    """Counts the devices of a node for one choice.

    Attributes:
        seen, available, blocked: all devices; those that fit; those that would fit if nothing were in use.
        causes: the number of devices that each cause excludes.
        holders: UIDs of the claims that hold matching devices.
        freed: devices that would fit if a claim ended, by its UID. Devices on the same counters may exclude one
            another: the devices that the claim holds itself count, or else one.
    """

    def __init__(self, choice: RequestChoice, index: DeviceIndex):
        self._criteria = choice.criteria
        self._index = index
        self.seen = self.available = self.blocked = 0
        self.causes: Counter[Cause] = Counter()
        self.failing: dict[Cause, str] = {}
        """The first device on which a selector fails."""
        self.holders: set[str] = set()
        self.freed: Counter[str] = Counter()

    def add(self, pool: Pool, devices: Sequence[PoolDevice]) -> None:
        """Count these devices of a pool."""
        self.seen += len(devices)
        if pool.problem:
            self.causes["pool", ""] += len(devices)
            return
        whole = len(devices) == len(pool.devices)
        left = pool.layout.every if whole else sum(1 << device.index for device in devices)
        left = self._large_enough(pool, self._selected(pool, left))
        left = self._tolerated(pool, left)
        if self._criteria.admin_access:
            self.available += left.bit_count()
            return
        freed: _Freed = Counter()
        fitting = self._with_capacity_left(pool, left & ~pool.exhausted & pool.available, freed)
        self.available += fitting.bit_count()
        self.blocked += (left & ~fitting).bit_count()
        self._exhausted(pool, left & pool.exhausted, freed)
        self._without_counters(pool, left & ~pool.exhausted & ~pool.available, fitting, freed)
        for (uid, _), count in freed.items():
            self.freed[uid] += count

    def _selected(self, pool: Pool, left: int) -> int:
        wanted = self._criteria.filter
        found = self._index.selectors.selection(pool, wanted)
        for index in bits(left & found.faulty):
            cause: Cause = "selectorError", f"{_cause(wanted, found.at[index])[2]}: {found.faults[index]}"
            self.causes[cause] += 1
            self.failing.setdefault(cause, pool.devices[index].id.device)
        for place, excluded in enumerate(found.excluded):
            if lost := excluded & left:
                by, name, _ = _cause(wanted, place)
                if by == "selector":
                    have = possessed([pool.devices[index] for index in bits(lost)], wanted.selectors[place].paths)
                    name += f" (they have {have})" if have else ""
                self.causes[by, name] += lost.bit_count()
        return left & found.match

    def _large_enough(self, pool: Pool, left: int) -> int:
        for index in bits(left & pool.shareable if self._criteria.capacity.is_empty else left):
            lacking = insufficiency(pool.devices[index], self._criteria, self._index.columns)
            if lacking is not None:
                self.causes[lacking] += 1
                left &= ~(1 << index)
        return left

    def _tolerated(self, pool: Pool, left: int) -> int:
        tolerated = pool.tolerated(self._criteria.tolerations)
        for index in bits(left & ~tolerated):
            self._count_obstacle(pool.devices[index])
        return left & tolerated

    def _with_capacity_left(self, pool: Pool, left: int, freed: _Freed) -> int:
        for index in bits(left & pool.shared):
            device = pool.devices[index]
            if self._count_obstacle(device):
                self._count_holders(pool, index, freed)
                left &= ~(1 << index)
        return left

    def _count_obstacle(self, device: PoolDevice) -> bool:
        """Count the device if it has an obstacle; True if it has one."""
        consumes = consumption_of(device, self._criteria, self._index.columns)
        cause = obstacle(device, self._criteria, None if isinstance(consumes, str) else consumes)
        if cause is None:
            return False
        self.causes[cause] += 1
        return True

    def _exhausted(self, pool: Pool, devices: int, freed: _Freed) -> None:
        if devices:
            self.causes["inUse", ""] += devices.bit_count()
            for index in bits(devices):
                self._count_holders(pool, index, freed)

    def _count_holders(self, pool: Pool, index: int, freed: _Freed) -> None:
        holders = pool.devices[index].use.holders
        self.holders.update(holders)
        if len(holders) == 1:
            freed.update((uid, _card(pool, index)) for uid in holders)

    def _without_counters(self, pool: Pool, devices: int, fitting: int, freed: _Freed) -> None:
        """Devices that lack some of a counter because of other devices in use.

        A device on a card with one that fits, such as a share, does not count as freed: it may exclude the other.
        """
        if not devices:
            return
        available = {_card(pool, index) for index in bits(fitting)}
        by_counter: dict[int, set[str]] = {}
        for index in bits(pool.used):
            for counter, amount in pool.devices[index].draws:
                if amount:
                    by_counter.setdefault(counter, set()).update(pool.devices[index].use.holders)
        for index in bits(devices):
            lacking = [counter for counter, amount in pool.devices[index].draws if pool.free[counter] < amount]
            name = pool.counters[lacking[0]]
            self.causes["counter", _NUMBER.sub("-*", name.counter)] += 1
            holders = set[str]().union(*(by_counter.get(counter, ()) for counter in lacking))
            self.holders |= holders
            if len(holders) == 1 and (card := _card(pool, index)) not in available:
                for uid in holders:
                    freed.setdefault((uid, card), 1)


def _may_get_better(found: tuple[Pool, Sequence[PoolDevice]]) -> bool:
    """True if devices of the pool are in use, tainted or not known, so that a search may find more another time."""
    pool, _ = found
    return bool(pool.used or pool.tainted or pool.problem)


def _card(pool: Pool, index: int) -> tuple[bool, int]:
    """A key that is equal for devices on the same counters: their group, or else the device."""
    group = pool.layout.groups[index]
    return (True, index) if group == NO_GROUP else (False, group)


def _cause(wanted: Filter, place: int) -> tuple[By, str, str]:
    """The cause for an excluding selector: its kind, its name, and its name in an error."""
    number = place - len(wanted.of_class)
    if number < 0:
        return "classSelector", "", "device class selector"
    return "selector", str(number), f"selector {number}"


def _conflicts(losses: Mapping[str, int]) -> Iterable[tuple[Cause, int]]:
    """The conflicts of a search (``Attempt.conflict``) as causes."""
    for text, count in losses.items():
        kind, _, attribute = text.partition(" ")
        match kind:
            case "matchAttribute" | "distinctAttribute" | "alignWith":
                yield (kind, attribute), count
            case _:
                yield ("otherRequests", text), count


def _has_selector_error(shortage: Shortage) -> bool:
    return any(exclusion.by == "selectorError" for exclusion in shortage.exclusions)


def possessed(devices: Sequence[PoolDevice], paths: Sequence[DevicePath] | None) -> str:
    """The values of the devices at ``paths``, such as ``type "A100", memory 40Gi to 80Gi``; "" if that is long.

    Args:
        devices: of one pool.
        paths: the fields that the selector reads; None if it may read any.
    """
    named = [path for path in paths or () if len(path) == 2 and path[1].rpartition("/")[2] not in _IDENTIFYING]
    return ", ".join(filter(None, (_at(path, devices[:_SCANNED]) for path in named[:_MOST_PATHS])))


def _at(path: DevicePath, devices: Sequence[PoolDevice]) -> str:
    kind, name = path[0], path[1]
    domain, _, short = name.rpartition("/")
    shown = short if devices and domain == devices[0].id.driver else name
    if kind == "capacity":
        amounts = [
            amount.value
            for device in devices
            if (amount := device.spec.capacity.get(short if domain == device.id.driver else name))
        ]
        if not amounts:
            return f"no {shown}"
        least, most = min(amounts), max(amounts)
        return f"{shown} {most}" if least == most else f"{shown} {least} to {most}"
    values = list(dict.fromkeys(text for device in devices for text in _texts(device, name)))
    if not values:
        return f"no {shown}"
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return f"{shown} {' or '.join(values[:_MOST_VALUES])}{more}"


def _texts(device: PoolDevice, name: str) -> Iterator[str]:
    value = device.spec.attributes.get(name)
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, bool):
            yield "true" if one else "false"
        elif isinstance(one, int):
            yield str(one)
        elif isinstance(one, str):
            yield f'"{bounded(one, _MOST_VALUE)}"'
        elif isinstance(one, Version):
            yield one.text
