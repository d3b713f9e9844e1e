"""What a node offers for each demand, and, where that is too little, the count of what excludes each device."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.allocation.amounts import Amounts, lacking, take
from controller.allocation.arrange import arrange
from controller.allocation.attempt import Attempt, Candidate, FaultyDevice
from controller.allocation.demand import RESULTS_LIMIT, Choice, Demand
from controller.allocation.matching import Matching
from controller.allocation.pools import Pool, Unit
from controller.allocation.reasons import MOST_HOLDERS, Exclusion, Shortage, Unsatisfiable
from controller.allocation.search import Search
from controller.allocation.search_task import Option, Task
from controller.allocation.taints import untolerated
from controller.selectors import SelectorFault
from driver.model import Claim, Want
from driver.quantity import Quantity

_MOST_POOLS = 5
_REMEMBERED = 32
"""Capacity requests for which a device remembers what they take."""
_NO_PART = "memoryPercent"
"""What a device that is not shareable lacks for requests that want a part of its memory."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the allocator sees it: the pools that reach it, in order, with the units that do."""

    name: str
    labels: Mapping[str, str]
    pools: Sequence[tuple[Pool, Sequence[Unit]]]


class Survey:
    """Looks at one node for the claims of one pod."""

    def __init__(self, node: Node, claims: Sequence[Claim], matching: Matching, names: Mapping[str, str]):
        self._pools = node.pools
        self._claims = claims
        self._matching = matching
        self._names = names

    def tasks(self, wanted: Sequence[Demand]) -> list[Task] | None:
        """The demands with their candidates; None if one of them cannot be satisfied even alone."""
        found: list[Task] = []
        for demand in wanted:
            options = tuple(option for choice in demand.choices if (option := self._option(choice)) is not None)
            if not options:
                return None
            found.append(Task(demand, options))
        return found

    def offers(self, wanted: Sequence[Demand], attempt: Attempt) -> Iterator[tuple[Demand, int, Iterable[Candidate]]]:
        """Per demand, how many devices its first choice wants and its candidates, looked at only as far as needed.

        Args:
            attempt: holds what demands before have got when the next one is asked for.
        """
        for demand in wanted:
            choice = demand.choices[0]
            if choice.want.mode == "ExactCount":
                count = choice.want.count
                fitting: Iterable[Candidate] = self.fitting(choice)
                if choice.preference.orders(count):
                    free = [one for one in fitting if one.fault or not attempt.hindrance(demand.claim, choice, one)]
                    fitting = arrange(choice.preference, count, free, attempt)
                yield demand, count, fitting
                continue
            option = self._every(choice)
            yield (demand, 1, ()) if option is None else (demand, option.wanted, option.candidates)

    def _option(self, choice: Choice) -> Option | None:
        if choice.want.mode == "All":
            return self._every(choice)
        found = tuple(self.fitting(choice))
        if len(found) < choice.want.count:
            return None
        return Option(choice, tuple(arrange(choice.preference, choice.want.count, found)), choice.want.count)

    def _every(self, choice: Choice) -> Option | None:
        """All matching devices that are large enough; None if there is none, or one of them cannot be had."""
        found: list[Candidate] = []
        if any(pool.problem for pool, _ in self._pools):
            return None
        for unit, fault in self.matched(choice):
            if fault is not None:
                found.append(Candidate(unit, fault=fault))
                continue
            takes = _takes(unit, choice)
            if isinstance(takes, str):
                continue
            if _hindrance(unit, choice.want, takes):
                return None
            found.append(Candidate(unit, takes))
        return Option(choice, tuple(found), len(found)) if 0 < len(found) <= RESULTS_LIMIT else None

    def matched(self, choice: Choice) -> Iterator[tuple[Unit, SelectorFault | None]]:
        """The units the selectors select or fail on."""
        for pool, units in self._pools:
            if pool.problem:
                continue
            selected = self._matching.selected(pool, choice.filter)
            if units is pool.units:
                yield from selected
            else:
                visible = set(units)
                yield from (found for found in selected if found[0] in visible)

    def fitting(self, choice: Choice) -> Iterator[Candidate]:
        """The devices the choice could take if it was alone, and those on which its selectors fail."""
        want = choice.want
        for unit, fault in self.matched(choice):
            if fault is not None:
                if not _busy(unit, want):
                    yield Candidate(unit, fault=fault)
                continue
            takes = _takes(unit, choice)
            if not isinstance(takes, str) and not _hindrance(unit, want, takes):
                yield Candidate(unit, takes)

    # Reasons

    def refusal(
        self,
        wanted: Sequence[Demand],
        search: Search | None = None,
        *,
        undecided: bool = False,
        faulty: FaultyDevice | None = None,
    ) -> Unsatisfiable:
        """Why the demands are not met: by request if one fails alone, else by what the search lost devices to."""
        shortages = [self._shortage(demand, choice) for demand in wanted for choice in demand.choices]
        short = tuple(one for one in shortages if one.missing or _failed(one))
        together: tuple[Exclusion, ...] = ()
        if search is not None and faulty is None:
            short = ()
            together = tuple(Exclusion(count, cause) for cause, count in sorted(search.losses.items()))
            if search.deepest >= 0 and not undecided:
                short = tuple(
                    self._shortage(wanted[search.deepest], choice) for choice in wanted[search.deepest].choices
                )
        problems = [f"{'/'.join(pool.key)} {pool.problem}" for pool, _ in self._pools if pool.problem]
        return Unsatisfiable((), short, together, tuple(problems[:_MOST_POOLS]), undecided)

    def _shortage(self, demand: Demand, choice: Choice) -> Shortage:
        causes: Counter[str] = Counter()
        holders: Counter[str] = Counter()
        seen = available = 0
        for pool, units in self._pools:
            for unit in units:
                seen += 1
                cause = "pool not usable" if pool.problem else self._cause(unit, choice)
                if not cause:
                    available += 1
                    continue
                causes[cause] += 1
                if cause == "in use" or "too little" in cause:
                    holders.update(self._names.get(uid, uid) for uid in unit.use.holders)
        shortage = Shortage(
            claim=self._claims[demand.claim].key,
            request=choice.name,
            device_class=choice.want.device_class,
            wanted=choice.want.count if choice.want.mode == "ExactCount" else "all",
            seen=seen,
            available=available,
            exclusions=tuple(Exclusion(count, cause) for cause, count in causes.most_common()),
            holders=tuple(sorted(holders)[:MOST_HOLDERS]),
        )
        return replace(shortage, freeing=self._freeing(choice, shortage.missing))

    def _freeing(self, choice: Choice, missing: int) -> tuple[str, ...]:
        """The fewest claims whose end would free ``missing`` devices, if a few would do."""
        freed: Counter[str] = Counter()
        for unit, fault in self.matched(choice):
            takes = _takes(unit, choice)
            alone = len(unit.use.holders) == 1 and fault is None and not isinstance(takes, str)
            if alone and _busy(unit, choice.want) and not _barred(unit, choice.want):
                freed.update(self._names.get(uid, uid) for uid in unit.use.holders)
        chosen: list[str] = []
        for name, count in sorted(freed.items(), key=lambda entry: (-entry[1], entry[0])):
            if missing <= 0 or len(chosen) == MOST_HOLDERS:
                break
            chosen.append(name)
            missing -= count
        return tuple(chosen) if missing <= 0 else ()

    def _cause(self, unit: Unit, choice: Choice) -> str:
        """The first thing that excludes the unit, in words; "" if nothing does."""
        for group, name in zip(choice.filter, ("device class selector", "selector"), strict=True):
            for number, expression in enumerate(group):
                outcome = self._matching.outcomes(unit.pool, expression)[unit.index]
                label = name if name != "selector" else f"selector {number}"
                if isinstance(outcome, SelectorFault):
                    return f"failed {label}: {outcome}"
                if not outcome:
                    return f"excluded by {label}"
        takes = _takes(unit, choice)
        if isinstance(takes, str):
            return f"too small or without capacity {takes}"
        return _hindrance(unit, choice.want, takes)


def _failed(shortage: Shortage) -> bool:
    return any(exclusion.cause.startswith("failed") for exclusion in shortage.exclusions)


def _takes(unit: Unit, choice: Choice) -> Amounts | str | None:
    """What the choice takes of the unit: capacities of a share, None for the whole; or the capacity it cannot give."""
    want, percent = choice.want, choice.preference.memory_percent
    if percent and not unit.device.allow_multiple:
        return _NO_PART
    if unit.device.allow_multiple and not want.admin_access:
        key = (percent, *((name, amount.nanos, amount.format) for name, amount in want.capacity.items()))
        known = unit.takes.get(key)
        if known is None:
            if len(unit.takes) >= _REMEMBERED:
                unit.takes.clear()
            known = unit.takes[key] = take(unit.device.capacity, _asked(unit, want, percent))
        return known
    return lacking(unit.device.capacity, want.capacity) or None if want.capacity else None


def _asked(unit: Unit, want: Want, percent: int) -> Amounts:
    """The capacities the want names, with the memory that ``percent`` of this device's comes to, rounded up."""
    if not percent:
        return want.capacity
    memory = unit.device.capacity.get("memory")
    total = memory.value if memory else Quantity(0)
    return {**want.capacity, "memory": Quantity.of(-(-total.value * percent // 100), total.format)}


def _busy(unit: Unit, want: Want) -> bool:
    use = unit.use
    return not want.admin_access and bool(use.exclusive or (use.shares and not unit.device.allow_multiple))


def _barred(unit: Unit, want: Want) -> str:
    taint = untolerated(unit.taints, want.tolerations) if unit.taints else None
    return "" if taint is None else f"tainted {taint.key}={taint.value}:{taint.effect}"


def _hindrance(unit: Unit, want: Want, takes: Amounts | None) -> str:
    """Why the unit cannot be had now, in words; "" if it can. Admin access needs nothing but tolerated taints."""
    if barred := _barred(unit, want):
        return barred
    if want.admin_access:
        return ""
    if _busy(unit, want):
        return "in use"
    use = unit.use
    if takes is not None and use.shares:
        for name, amount in takes.items():
            if use.consumed.get(name, 0) + amount.nanos > unit.device.capacity[name].value.nanos:
                return f"with too little {name} left"
    if unit.draws and not use.holders:
        free = unit.pool.free
        for index, drawn in unit.draws:
            if free[index] < drawn:
                return f"blocked by counter {unit.pool.counter_name(index).counter}"
    return ""
