"""First fit with masks: the devices a node would give, as long as the first that fit lead to a solution.

What it finds is what the search would find: it takes the first device that fits each time, and leaves out only devices
that no solution holds. Where something would have to be taken back it does not know, and the search has to say.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum

from controller.allocation.requests.demand import RESULTS_LIMIT
from controller.allocation.requests.shapes import Alike, Shape, Step
from controller.allocation.search.attempt import Attempt, Candidate, Pick
from controller.allocation.stock.columns import Columns
from controller.allocation.stock.layout import bits
from controller.allocation.stock.matching import Matching
from controller.allocation.stock.pools import Pool
from driver.model import Claim

Order = Sequence[tuple[Pool, int]]
"""Pools that reach a node in the order of allocation, each with those of its devices that do."""
Masks = list[int]
"""Devices of each pool of an order."""
Groups = Mapping[Hashable, int]
"""The devices of a pool that have each value of an attribute."""


class Answer(Enum):
    """What trying the first that fits can say beside a solution."""

    IMPOSSIBLE = "the node cannot take the claims as long as nothing is given back there"
    UNKNOWN = "the search has to say"


class Quick:
    """Tries claims of plain shapes on nodes."""

    def __init__(self, matching: Matching):
        self._matching = matching
        self._columns: Columns = matching.columns

    def fit(self, order: Order, shape: Shape, claims: Sequence[Claim]) -> Sequence[Pick] | Answer:
        """What the claims would get of the pools in ``order``."""
        offers = self.offers(order, shape)
        return offers if isinstance(offers, Answer) else self._greedy(order, shape, claims, offers)

    def offers(self, order: Order, shape: Shape) -> list[list[Masks]] | Answer:
        """Per demand and step, the devices that are in some solution as far as can be told from counting."""
        offers: list[list[Masks]] = []
        for steps in shape.steps:
            found = []
            enough = False
            for step in steps:
                masks = self.masks(order, step)
                if masks is None:
                    return Answer.UNKNOWN
                found.append(masks)
                enough = enough or _count(masks) >= step.count
            if not enough:
                return Answer.IMPOSSIBLE
            offers.append(found)
        if shape.lone and len(offers) > 1 and not self._together(order, shape, offers):
            return Answer.IMPOSSIBLE
        for alike in shape.alike:
            if not self._agree(order, shape, offers, alike):
                return Answer.IMPOSSIBLE
        for apart in shape.apart:
            if not self._separable(order, shape, offers, apart):
                return Answer.IMPOSSIBLE
        return offers

    def masks(self, order: Order, step: Step) -> Masks | None:
        """The devices the step could take if it was alone; None if it would meet one on which a selector fails."""
        found: Masks = []
        want = step.want
        for pool, visible in order:
            if pool.problem:
                found.append(0)
                continue
            selection = self._matching.selection(pool, step.paths, step.filter)
            if selection.faulty & visible & ~pool.busy:
                return None
            mask = selection.match & visible
            if mask:
                mask &= pool.available
            if mask and pool.tainted:
                mask &= pool.tolerated(want.tolerations)
            if mask and (want.capacity or pool.multiple & mask):
                mask = self._with_room(pool, step, mask)
            found.append(mask)
        return found

    def _with_room(self, pool: Pool, step: Step, mask: int) -> int:
        enough, takes = self._columns.takes(pool, step.want.capacity, mask)
        mask &= enough
        for index in bits(mask & pool.shared):
            amounts, unit = takes[index], pool.units[index]
            consumed, capacity = unit.use.consumed, unit.device.capacity
            for name, amount in (amounts or {}).items():
                if consumed.get(name, 0) + amount.nanos > capacity[name].value.nanos:
                    mask ^= 1 << index
                    break
        return mask

    def _together(self, order: Order, shape: Shape, offers: Sequence[Sequence[Masks]]) -> bool:
        """Whether there are as many devices as all requests take, unless some can be shared."""
        union = _union([masks for (masks,) in offers])
        if _shares(order, union):
            return True
        return _count(union) >= sum(step.count for (step,) in shape.steps)

    def _separable(self, order: Order, shape: Shape, offers: Sequence[Sequence[Masks]], apart: Alike) -> bool:
        """Whether the devices of each value, cut up by what the smallest request takes, are enough for all requests."""
        union = _union([offers[at][0] for at in apart.steps])
        several = any(self._columns.values(pool, apart.attribute).several for pool, _ in order)
        if several or _shares(order, union):
            return True
        least = min(shape.steps[at][0].count for at in apart.steps)
        numbers = _numbers(self._groups(order, apart.attribute), union)
        return sum(number // least for number in numbers.values()) >= len(apart.steps)

    def _agree(self, order: Order, shape: Shape, offers: Sequence[list[Masks]], alike: Alike) -> bool:
        """Leave only devices with a value that every request has enough devices of; False if there is none."""
        groups = self._groups(order, alike.attribute)
        allowed: set[Hashable] | None = None
        for at in alike.steps:
            enough = _enough(groups, offers[at][0], shape.steps[at][0].count)
            allowed = enough if allowed is None else allowed & enough
        if not allowed:
            return False
        for at in alike.steps:
            offers[at][0] = _with_values(groups, offers[at][0], allowed)
        return True

    def _groups(self, order: Order, attribute: str) -> Sequence[Groups]:
        return [self._columns.values(pool, attribute).groups or {} for pool, _ in order]

    def _greedy(
        self, order: Order, shape: Shape, claims: Sequence[Claim], offers: Sequence[Sequence[Masks]]
    ) -> Sequence[Pick] | Answer:
        attempt = Attempt(claims)
        for demand, steps, choices in zip(shape.demands, shape.steps, offers, strict=True):
            for step, masks in zip(steps, choices, strict=True):
                if _count(masks) < step.count:
                    continue
                if not self._take(order, attempt, demand.claim, step, masks):
                    return Answer.UNKNOWN
                break
            else:
                return Answer.UNKNOWN
        return attempt.picks

    def _take(self, order: Order, attempt: Attempt, claim: int, step: Step, masks: Masks) -> bool:
        """Pick the first devices that fit; False if there are too few."""
        left, choice = step.count, step.choice
        if attempt.counts[claim] + left > RESULTS_LIMIT:
            return False
        if left > 1 and step.alike and attempt.held:
            masks = self._left(order, attempt, step, masks)
        for (pool, _), mask in zip(order, masks, strict=True):
            takes = self._columns.takes(pool, step.want.capacity, mask)[1] if mask & pool.multiple else None
            while mask:
                low = mask & -mask
                mask ^= low
                index = low.bit_length() - 1
                candidate = Candidate(pool.units[index], None if takes is None else takes[index])
                if not attempt.hindrance(claim, choice, candidate):
                    attempt.put(claim, choice, candidate)
                    left -= 1
                    if not left:
                        return True
        return False

    def _left(self, order: Order, attempt: Attempt, step: Step, masks: Masks) -> Masks:
        """The devices with values of which there are still enough."""
        taken: dict[Pool, int] = {}
        for unit, held in attempt.held.items():
            if held.whole:
                taken[unit.pool] = taken.get(unit.pool, 0) | 1 << unit.index
        masks = [mask & ~taken.get(pool, 0) for mask, (pool, _) in zip(masks, order, strict=True)]
        for attribute in step.alike:
            groups = self._groups(order, attribute)
            masks = _with_values(groups, masks, _enough(groups, masks, step.count))
        return masks


def _numbers(groups: Sequence[Groups], masks: Masks) -> Mapping[Hashable, int]:
    """How many of the devices have each value."""
    numbers: dict[Hashable, int] = {}
    for mask, by_value in zip(masks, groups, strict=True):
        if mask:
            for value, group in by_value.items():
                numbers[value] = numbers.get(value, 0) + (group & mask).bit_count()
    return numbers


def _enough(groups: Sequence[Groups], masks: Masks, count: int) -> set[Hashable]:
    """The values that so many of the devices have."""
    return {value for value, number in _numbers(groups, masks).items() if number >= count}


def _union(every: Sequence[Masks]) -> Masks:
    """The devices that are in any."""
    union = every[0]
    for masks in every[1:]:
        union = [one | other for one, other in zip(union, masks, strict=True)]
    return union


def _shares(order: Order, masks: Masks) -> bool:
    """Whether one of the devices can be shared, so that it can serve several requests."""
    return any(mask & pool.multiple for mask, (pool, _) in zip(masks, order, strict=True))


def _with_values(groups: Sequence[Groups], masks: Masks, values: set[Hashable]) -> Masks:
    """Those of the devices that have one of the values."""
    found = []
    for mask, by_value in zip(masks, groups, strict=True):
        having = 0
        for value in values:
            having |= by_value.get(value, 0)
        found.append(mask & having)
    return found


def _count(masks: Sequence[int]) -> int:
    return sum([mask.bit_count() for mask in masks])
