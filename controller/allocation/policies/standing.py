"""A node's place among those that can satisfy a pod, as ``controller.allocation.policies.ranking`` compares them. Pure.

Found from masks of devices where these tell, else device by device; the answer is the same.
"""

from collections.abc import Callable, Sequence

from controller.allocation.candidates import Survey
from controller.allocation.policies.arrange import arrange, closeness, share_load
from controller.allocation.policies.cutting import Lost, cards_of, partial
from controller.allocation.policies.preference import MILLION, node_rank
from controller.allocation.quick import Order
from controller.allocation.requests.demand import Choice
from controller.allocation.requests.shapes import Shape, Step
from controller.allocation.search.attempt import Candidate
from controller.allocation.stock.matching import Matching
from controller.allocation.stock.pools import Unit

Standing = tuple[int, int, Lost, tuple[int, ...]]
"""A node's place for one request: alternative, closeness, cost of a partition, rank by load. The smallest is best."""
Standings = tuple[Standing, ...]
"""One for each request that has a preference."""


def orders(choice: Choice) -> bool:
    """Whether the choice prefers some devices or nodes to others."""
    return choice.want.mode == "ExactCount" and choice.preference.orders(choice.want.count)


def standings(
    order: Order, shape: Shape, matching: Matching, survey: Callable[[], Survey], *, masks: bool = True
) -> Standings | None:
    """The node's place for every request that has a preference; None if it cannot satisfy one of these.

    Args:
        order: the pools of the node, each with its devices.
        survey: a look at these.
        masks: whether masks may be used.
    """
    found: list[Standing] = []
    for steps in shape.steps:
        if not any(orders(step.choice) for step in steps):
            continue
        for place, step in enumerate(steps):
            if masks and _maskable(order, step, matching):
                standing = _by_masks(order, step, matching, place)
            else:
                standing = _by_devices(survey(), step.choice, place)
            if standing is not None:
                found.append(standing)
                break
        else:
            return None
    return tuple(found)


def _maskable(order: Order, step: Step, matching: Matching) -> bool:
    """Whether masks tell all: whole devices and partitions of any capacity, none of them close to one another."""
    choice, want = step.choice, step.want
    if not orders(choice) or want.admin_access or want.capacity or choice.preference.memory_percent:
        return False
    if choice.preference.near and want.count > 1:
        return False
    return not any(
        pool.grouped or (matching.selection(pool, step.paths, step.filter).match & pool.multiple)
        for pool, _ in order
        if not pool.problem
    )


def _by_masks(order: Order, step: Step, matching: Matching, place: int) -> Standing | None:
    preference, count = step.choice.preference, step.want.count
    available = total = 0
    lost: Lost | None = None
    for pool, visible in order:
        if pool.problem:
            continue
        matched = matching.selection(pool, step.paths, step.filter).match & visible
        total += matched.bit_count()
        fitting = matched & pool.tolerated(step.want.tolerations) & pool.available
        available += fitting.bit_count()
        if fitting and preference.policy == "binpack" and pool.total:
            cards = cards_of(pool)
            least = cards.cheapest(fitting & cards.partitions, pool.free)
            if least is not None and (lost is None or least < lost):
                lost = least
    if available < count:
        return None
    return place, 0, lost or (), node_rank(preference, available, total, count)


def _by_devices(survey: Survey, choice: Choice, place: int) -> Standing | None:
    count = choice.want.count if choice.want.mode == "ExactCount" else 1
    preference = choice.preference
    candidates = [one for one in survey.fitting(choice) if one.fault is None]
    if len(candidates) < count:
        return None
    if not orders(choice):
        return place, 0, (), ()
    first = arrange(preference, 1, candidates) if candidates[0].takes is not None else candidates
    rank = node_rank(
        preference,
        available=sum(map(_left, candidates)),
        total=sum(_whole(unit) for unit, fault in survey.matched(choice) if fault is None),
        asked=sum(_asked(one) for one in first[:count]),
    )
    lost = _lost(candidates) if preference.policy == "binpack" else ()
    return place, closeness(preference, count, candidates), lost, rank


def _whole(unit: Unit) -> int:
    return MILLION if unit.device.allow_multiple else 1


def _left(candidate: Candidate) -> int:
    return 1 if candidate.takes is None else MILLION - share_load(candidate, candidate.unit.use.consumed, picked=False)


def _asked(candidate: Candidate) -> int:
    return 1 if candidate.takes is None else share_load(candidate, {})


def _lost(candidates: Sequence[Candidate]) -> Lost:
    cut = [one.unit for one in candidates if one.takes is None and partial(one.unit)]
    return min((cards_of(unit.pool).cost(unit, unit.pool.free)[0] for unit in cut), default=())
