"""What a node offers for each demand, or why that is too little."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.allocation.fitting import busy, hindrance, takes_of
from controller.allocation.policies.arrange import arrange
from controller.allocation.reasons.reasons import Exclusion, Shortage, Unsatisfiable, exclusions
from controller.allocation.reasons.shortages import shortage, together
from controller.allocation.requests.demand import RESULTS_LIMIT, Choice, Demand
from controller.allocation.search.attempt import Attempt, Candidate, FaultyDevice
from controller.allocation.search.search import Search
from controller.allocation.search.search_task import Option, Task
from controller.allocation.stock.matching import Matching
from controller.allocation.stock.pools import Pool, Unit
from controller.selectors import SelectorFault
from driver.model import Claim

_MOST_POOLS = 5


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
        known: dict[Hashable, tuple[Candidate, ...]] = {}
        for demand in wanted:
            options = tuple(option for choice in demand.choices if (option := self._option(choice, known)) is not None)
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

    def _option(self, choice: Choice, known: dict[Hashable, tuple[Candidate, ...]]) -> Option | None:
        """The choice with its candidates; ``known`` are those of choices that ask for the same."""
        if choice.want.mode == "All":
            return self._every(choice)
        found = known.get(key := _alone(choice))
        if found is None:
            found = known[key] = tuple(self.fitting(choice))
        if len(found) < choice.want.count and not any(one.fault for one in found):
            # Where a selector fails on a device, looking for more would come to it.
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
            takes = takes_of(unit, choice)
            if isinstance(takes, str):
                continue
            if hindrance(unit, choice.want, takes):
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
                if not busy(unit, want):
                    yield Candidate(unit, fault=fault)
                continue
            takes = takes_of(unit, choice)
            if not isinstance(takes, str) and not hindrance(unit, want, takes):
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
        lost: tuple[Exclusion, ...] = ()
        if search is None or faulty is not None:
            every = [one for demand in wanted for one in self._shortages(demand)]
            short = tuple(one for one in every if one.missing or _failed(one))
        else:
            deepest, losses = search.loss()
            lost = exclusions(together(losses))
            short = tuple(self._shortages(wanted[deepest])) if deepest >= 0 and not undecided else ()
        problems = [f"{'/'.join(pool.key)} {pool.problem}" for pool, _ in self._pools if pool.problem]
        return Unsatisfiable((), short, lost, tuple(problems[:_MOST_POOLS]), undecided)

    def _shortages(self, demand: Demand) -> Iterator[Shortage]:
        claim = self._claims[demand.claim].key
        for choice in demand.choices:
            yield shortage(claim, choice, self._pools, self._matching, self._names)


def _alone(choice: Choice) -> Hashable:
    """All of the choice that decides which devices fit it if it is alone."""
    want = choice.want
    amounts = tuple([(name, amount.nanos, amount.format) for name, amount in want.capacity.items()])
    return choice.filter, want.admin_access, want.tolerations, choice.preference.memory_percent, amounts


def _failed(one: Shortage) -> bool:
    return any(exclusion.by == "selectorError" for exclusion in one.exclusions)
