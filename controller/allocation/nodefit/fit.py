"""Fits one compiled request to one node: greedily with bitsets, or else by a search.

The greedy fit finds the same devices as the search, because it picks the first device that fits each time and leaves
out only devices that are in no solution. If a pick would have to be undone, it answers UNKNOWN, and the search decides.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.layout import bits
from controller.allocation.devices.node_availability import NodeMemory
from controller.allocation.devices.pools import NodeSlot, Pool
from controller.allocation.nodefit.candidates import NodeCandidates
from controller.allocation.nodefit.likeness import fingerprint
from controller.allocation.nodefit.partition_cost import PartitionCosts
from controller.allocation.nodefit.shortages import Searched
from controller.allocation.requests import RESULTS_LIMIT, CompiledRequest, Criteria, MatchGroup, RequestChoice
from controller.allocation.rules import PodValues, texts_of
from controller.allocation.search.attempt import Attempt, Candidate, Option, Pick, Task, allocations
from controller.allocation.search.search import Search, first_fit
from controller.allocation.selectors import OutOfSteps
from driver.cel import SelectorFault
from driver.model import Allocation, Claim

Masks = list[int]
"""Per pool of an order, a set of its devices."""
Groups = Mapping[Hashable, int]
"""The devices of a pool by their value of an attribute."""


class QuickAnswer(Enum):
    """The answers of the greedy fit other than a solution."""

    IMPOSSIBLE = "the node does not fit the request until devices of it are freed"
    UNKNOWN = "the search must decide"


class GreedyFit:
    """Fits maskable requests to nodes."""

    def __init__(self, index: DeviceIndex):
        self._selectors = index.selectors
        self._columns = index.columns

    def fit(self, order: Order, request: CompiledRequest, claims: Sequence[Claim]) -> Sequence[Pick] | QuickAnswer:
        """The devices for the claims from the pools in ``order``."""
        offers = self.offers(order, request)
        return offers if isinstance(offers, QuickAnswer) else self._pick(order, request, claims, offers)

    def offers(self, order: Order, request: CompiledRequest) -> list[list[Masks]] | QuickAnswer:
        """Per demand and choice, the devices that can be in a solution, as far as counting tells."""
        offers: list[list[Masks]] = []
        for demand in request.demands:
            found = []
            enough = False
            for choice in demand.choices:
                masks = self.available(order, choice.criteria)
                if masks is None:
                    return QuickAnswer.UNKNOWN
                found.append(masks)
                enough = enough or _count(masks) >= choice.count
            if not enough:
                return QuickAnswer.IMPOSSIBLE
            offers.append(found)
        # Every check below is necessary for a solution, so a failure proves that there is none. Together they are not
        # sufficient: picking, or the search, decides.
        if request.single_choice and len(offers) > 1 and not _enough_together(order, request, offers):
            return QuickAnswer.IMPOSSIBLE
        for group in request.match_groups:
            if not self._restrict(order, request, offers, group):
                return QuickAnswer.IMPOSSIBLE
        for group in request.competing:
            if not self._enough_values(order, request, offers, group):
                return QuickAnswer.IMPOSSIBLE
        return offers

    def available(self, order: Order, criteria: Criteria) -> Masks | None:
        """The devices that are available for these criteria alone; None if a selector fails on one of the devices."""
        found: Masks = []
        for pool, visible in order:
            if pool.problem:
                found.append(0)
                continue
            selection = self._selectors.selection(pool, criteria.filter)
            # As in kube-scheduler, an error counts if the device is visited, which only the search can tell.
            if selection.faulty & visible & ~pool.exhausted:
                return None
            mask = selection.match & visible
            if mask:
                mask &= pool.available
            if mask and pool.tainted:
                mask &= pool.tolerated(criteria.tolerations)
            if mask and (not criteria.capacity.is_empty or pool.shareable & mask):
                mask = self._with_capacity(pool, criteria, mask)
            found.append(mask)
        return found

    def _with_capacity(self, pool: Pool, criteria: Criteria, mask: int) -> int:
        enough, consumed = self._columns.consumed(pool, criteria.capacity, mask)
        mask &= enough
        for index in bits(mask & pool.shared):
            device, amounts = pool.devices[index], consumed[index]
            assert not isinstance(amounts, str)
            if device.use.excludes(criteria.sharing):
                mask ^= 1 << index
                continue
            used, capacity = device.use.consumed, device.spec.capacity
            for name, amount in (amounts or {}).items():
                if used.get(name, 0) + amount.nanos > capacity[name].value.nanos:
                    mask ^= 1 << index
                    break
        return mask

    # Constraints

    def _enough_values(
        self, order: Order, request: CompiledRequest, offers: Sequence[Sequence[Masks]], group: MatchGroup
    ) -> bool:
        """True if the devices of each value, divided by the smallest count, are enough for all demands of the group."""
        union = _union([offers[at][0] for at in group.demands])
        # With several values, or several requests on one device, dividing the devices by value would count too few.
        multivalued = any(self._columns.values(pool, group.attribute).multivalued for pool, _ in order)
        if multivalued or _any_shareable(order, union):
            return True
        least = min(request.demands[at].choices[0].count for at in group.demands)
        numbers = _numbers(self._groups(order, group.attribute), union)
        return sum(number // least for number in numbers.values()) >= len(group.demands)

    def _restrict(
        self, order: Order, request: CompiledRequest, offers: Sequence[list[Masks]], group: MatchGroup
    ) -> bool:
        """Keep only values with enough devices for every demand; False if there is no such value."""
        groups = self._groups(order, group.attribute)
        allowed: set[Hashable] | None = None if group.values is None else set(group.values)
        for at in group.demands:
            enough = _values_with(groups, offers[at][0], request.demands[at].choices[0].count)
            allowed = enough if allowed is None else allowed & enough
        if not allowed:
            return False
        for at in group.demands:
            offers[at][0] = _having(groups, offers[at][0], allowed)
        return True

    def _groups(self, order: Order, attribute: str) -> Sequence[Groups]:
        return [self._columns.values(pool, attribute).groups or {} for pool, _ in order]

    # Picking

    def _pick(
        self, order: Order, request: CompiledRequest, claims: Sequence[Claim], offers: Sequence[Sequence[Masks]]
    ) -> Sequence[Pick] | QuickAnswer:
        attempt = Attempt(claims, request.pod_values)
        for demand, of_choices in zip(request.demands, offers, strict=True):
            for choice, masks in zip(demand.choices, of_choices, strict=True):
                if _count(masks) < choice.count:
                    continue
                if not self._pick_first(order, attempt, demand.claim, choice, masks):
                    return QuickAnswer.UNKNOWN
                break
            else:
                return QuickAnswer.UNKNOWN
        return attempt.picks if attempt.has_all_values else QuickAnswer.UNKNOWN

    def _pick_first(self, order: Order, attempt: Attempt, claim: int, choice: RequestChoice, masks: Masks) -> bool:
        """Pick the first devices without a conflict; False if there are too few."""
        left = choice.count
        if attempt.counts[claim] + left > RESULTS_LIMIT:
            return False
        # The first device fixes the value for all others, so values with too few devices left must be out before.
        if left > 1 and choice.match_attributes and attempt.used:
            masks = self._left(order, attempt, choice, masks)
        for (pool, _), mask in zip(order, masks, strict=True):
            shareable = mask & pool.shareable
            consumed = self._columns.consumed(pool, choice.criteria.capacity, mask)[1] if shareable else None
            while mask:
                low = mask & -mask
                mask ^= low
                index = low.bit_length() - 1
                amounts = None if consumed is None else consumed[index]
                assert not isinstance(amounts, str)
                candidate = Candidate(pool.devices[index], amounts)
                if not attempt.conflict(claim, choice, candidate):
                    attempt.pick(claim, choice, candidate)
                    left -= 1
                    if not left:
                        return True
        return False

    def _left(self, order: Order, attempt: Attempt, choice: RequestChoice, masks: Masks) -> Masks:
        """The devices whose value still has enough devices after the picks so far."""
        picked: dict[Pool, int] = {}
        for device, used in attempt.used.items():
            if used.whole:
                picked[device.pool] = picked.get(device.pool, 0) | 1 << device.index
        masks = [mask & ~picked.get(pool, 0) for mask, (pool, _) in zip(masks, order, strict=True)]
        for attribute in choice.match_attributes:
            groups = self._groups(order, attribute)
            masks = _having(groups, masks, _values_with(groups, masks, choice.count))
        return masks


def _enough_together(order: Order, request: CompiledRequest, offers: Sequence[Sequence[Masks]]) -> bool:
    """True if there are as many devices as all demands want, or a shareable one among them."""
    union = _union([masks for (masks,) in offers])
    if _any_shareable(order, union):
        return True
    return _count(union) >= sum(demand.choices[0].count for demand in request.demands)


def _numbers(groups: Sequence[Groups], masks: Masks) -> Mapping[Hashable, int]:
    """The number of devices by value."""
    numbers: dict[Hashable, int] = {}
    for mask, by_value in zip(masks, groups, strict=True):
        if mask:
            for value, group in by_value.items():
                numbers[value] = numbers.get(value, 0) + (group & mask).bit_count()
    return numbers


def _values_with(groups: Sequence[Groups], masks: Masks, count: int) -> set[Hashable]:
    """The values that at least ``count`` of the devices have."""
    return {value for value, number in _numbers(groups, masks).items() if number >= count}


def _having(groups: Sequence[Groups], masks: Masks, values: set[Hashable]) -> Masks:
    """Those of the devices that have one of the values."""
    found = []
    for mask, by_value in zip(masks, groups, strict=True):
        having = 0
        for value in values:
            having |= by_value.get(value, 0)
        found.append(mask & having)
    return found


def _union(every: Sequence[Masks]) -> Masks:
    union = every[0]
    for masks in every[1:]:
        union = [one | other for one, other in zip(union, masks, strict=True)]
    return union


def _any_shareable(order: Order, masks: Masks) -> bool:
    return any(mask & pool.shareable for mask, (pool, _) in zip(masks, order, strict=True))


def _count(masks: Masks) -> int:
    return sum([mask.bit_count() for mask in masks])


class NodeSearch:
    """Searches nodes of a fleet.

    Args:
        costs: the costs of partitions.

    Attributes:
        work: the work of all searches so far, in the unit of ``Fleet.work``.
    """

    def __init__(self, index: DeviceIndex, costs: PartitionCosts):
        self._index = index
        self._costs = costs
        self.work = 0

    def node(self, slot: NodeSlot) -> NodeCandidates:
        """The devices of the node."""
        return NodeCandidates(self._index.order(slot), self._index, self._costs, self._index.beyond(slot))

    def remembered(
        self, slot: NodeSlot, request: CompiledRequest, claims: Sequence[Claim], memory: NodeMemory, steps: int
    ) -> Sequence[Pick] | None:
        """The picks of the search; None if it finds nothing, which is remembered.

        It finds the same for nodes with equal fingerprints, so a failure holds for all.
        """
        state = fingerprint(self._index.order(slot), request, self._index) if request.maskable else None
        known = None if state is None else memory.count(state)
        # Below 0 are the steps that were too few to find out.
        if known is None or -steps < known < 0:
            found = self.search(self.node(slot), request, claims, steps)
            if found.picks is not None:
                return found.picks
            known = -steps if found.undecided else 0
            if state is not None:
                memory.learn_count(state, known)
            if found.lasting:
                memory.learn_impossible(slot)
        memory.learn_no_fit(slot, self._index.shared_usage_version, too_few_steps=-known)
        return None

    def search(self, node: NodeCandidates, request: CompiledRequest, claims: Sequence[Claim], steps: int) -> Searched:
        """What comes of a search with so many steps."""
        try:
            attempt = Attempt(claims, request.pod_values)
            picks = first_fit(attempt, node.offers(request.demands, attempt))
            if picks is not None:
                return Searched(picks)
        except SelectorFault:
            return Searched(faulty=True)
        # A pick would have to be undone.
        tasks = tasks_of(node, request)
        if tasks is None:
            return Searched()
        search = Search(claims, tasks, steps, request.pod_values)
        try:
            return Searched(search.picks if search.run() else None, search)
        except OutOfSteps:
            return Searched(search=search, undecided=True)
        except SelectorFault:
            return Searched(search=search, faulty=True)
        finally:
            self.work += search.work


def tasks_of(node: NodeCandidates, request: CompiledRequest) -> list[Task] | None:
    """The demands with all their candidates; None if one demand cannot be satisfied even alone."""
    tasks = node.tasks(request.demands)
    if tasks is None or not request.pod_values:
        return tasks
    found: list[Task] = []
    for task in tasks:
        rules = [rule for rule in request.pod_values if task.demand.claim in rule.claims]
        options = [_within(option, rules) for option in task.options]
        possible = tuple([option for option in options if len(option.candidates) >= option.wanted])
        if not possible:
            return None
        found.append(replace(task, options=possible))
    return found


def _within(option: Option, rules: Sequence[PodValues]) -> Option:
    """The option with those of its candidates that the values of the pod allow."""
    candidates = [
        one
        for one in option.candidates
        if one.fault or all(rule.admits(texts_of(one.device.spec, rule.attribute)) for rule in rules)
    ]
    return replace(option, candidates=tuple(candidates))


@dataclass(frozen=True, slots=True)
class NodeClaims:
    """Claims that have to be allocated on one node."""

    node: str
    candidates: NodeCandidates
    request: CompiledRequest
    claims: Sequence[Claim]


def fit_together(parts: Sequence[NodeClaims], limit: int) -> list[tuple[Allocation, ...]] | None:
    """The allocations of the claims of each node, which never take the same device; None if there are none.

    Args:
        limit: the devices that the search may try.

    Raises:
        OutOfSteps: the limit was reached before the search was complete.
    """
    claims: list[Claim] = []
    tasks: list[Task] = []
    starts: list[int] = []
    pod_values: list[PodValues] = []
    for part in parts:
        found = tasks_of(part.candidates, part.request)
        if found is None:
            return None
        start = len(claims)
        starts.append(start)
        tasks += [replace(one, demand=replace(one.demand, claim=one.demand.claim + start)) for one in found]
        pod_values += [
            replace(rule, claims=tuple([start + claim for claim in rule.claims])) for rule in part.request.pod_values
        ]
        claims += part.claims
    search = Search(claims, tasks, limit, pod_values)
    try:
        if not search.run():
            return None
    except SelectorFault:
        return None
    answers = []
    for part, start in zip(parts, starts, strict=True):
        own = range(start, start + len(part.claims))
        picks = [replace(pick, claim=pick.claim - start) for pick in search.picks if pick.claim in own]
        answers.append(allocations(part.claims, picks, part.node))
    return answers
