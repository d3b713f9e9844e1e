"""The score of a node for a pod whose requests have alternatives or preferences. Pure.

The better node satisfies earlier alternatives of ``firstAvailable``, counted over all requests as kube-scheduler does
(``computeScore`` of its plugin dynamicresources): the sum of their positions is smaller. Among nodes that are equal in
this, requests with preferences are compared one after another, in the order of the claims. The better node

1. satisfies an earlier one of its alternatives;
2. has the devices closer together (``device_order``);
3. for partitions under ``binpack``: has the partition that costs least (``partition_cost``);
4. has the better rank by load (``preferences.node_rank``).

The score is computed from bitsets where these are sufficient, else device by device, with the same result.
"""

from collections.abc import Callable, Sequence
from typing import Final

from controller.allocation.devices.device_index import DeviceIndex, Order
from controller.allocation.devices.pools import PoolDevice
from controller.allocation.nodefit.candidates import NodeCandidates
from controller.allocation.nodefit.device_order import NEAREST, Closeness, closeness, in_preferred_order, share_load
from controller.allocation.nodefit.partition_cost import Lost, PartitionCosts, is_partition
from controller.allocation.preferences import MILLION, node_rank
from controller.allocation.requests import CompiledRequest, Demand, RequestChoice
from controller.allocation.search.attempt import Candidate
from driver.model import Allocation, Claim

RequestScore = tuple[int, Closeness, Lost, tuple[int, ...]]
"""Number of the alternative, closeness, cost of a partition, rank by load. The smallest is best."""
NodeScore = tuple[int, tuple[RequestScore, ...]]
"""The positions of all alternatives added up, then a score for each request with a preference. The smallest is best."""
UNSCORED: Final[NodeScore] = (0, ())
"""The score of every node for a request with neither alternatives nor preferences."""


def node_score(
    order: Order,
    request: CompiledRequest,
    index: DeviceIndex,
    costs: PartitionCosts,
    candidates: Callable[[], NodeCandidates],
    *,
    masks: bool = True,
) -> NodeScore | None:
    """The node's score; None if it cannot satisfy a request with alternatives or a preference.

    Each request is looked at alone. Together, the node may only satisfy later alternatives (``alternatives``).

    Args:
        order: the pools of the node, each with its devices.
        candidates: gives these device by device.
        masks: if False, bitsets are not used.
    """
    found: list[RequestScore] = []
    positions = 0
    for demand in request.demands:
        if not any(choice.ordered for choice in demand.choices):
            if len(demand.choices) > 1:
                first = _first_possible(order, demand, index)
                if first is None:
                    return None
                positions += first
            continue
        for number, choice in enumerate(demand.choices):
            if masks and _is_maskable(order, choice, index):
                score = _by_masks(order, choice, index, costs, number)
            else:
                score = _by_devices(candidates(), choice, costs, number)
            if score is not None:
                found.append(score)
                positions += number
                break
        else:
            return None
    return positions, tuple(found)


def alternatives(claims: Sequence[Claim], allocations: Sequence[Allocation]) -> int:
    """The positions of the alternatives that were allocated, from 0, added up over all requests."""
    positions = 0
    for claim, allocation in zip(claims, allocations, strict=True):
        given = {result.request for result in allocation.results}
        for request in claim.spec.requests:
            if request.prioritized:
                names = [f"{request.name}/{want.name}" for want in request.wants]
                positions += sum(position for position, name in enumerate(names) if name in given)
    return positions


def _first_possible(order: Order, demand: Demand, index: DeviceIndex) -> int | None:
    """The first alternative with enough available devices on the node, whatever their capacity."""
    return next((at for at, choice in enumerate(demand.choices) if _has_enough(order, choice, index)), None)


def _has_enough(order: Order, choice: RequestChoice, index: DeviceIndex) -> bool:
    count = 0
    for pool, visible in order:
        if not pool.problem:
            devices = index.selectors.selection(pool, choice.criteria.filter).match & visible
            if not choice.want.admin_access:
                devices &= pool.tolerated(choice.criteria.tolerations) & pool.available
            count += devices.bit_count()
    return count >= choice.count


def _is_maskable(order: Order, choice: RequestChoice, index: DeviceIndex) -> bool:
    """True if bitsets suffice: whole devices and partitions, without capacity requests or locality."""
    want = choice.want
    if not choice.ordered or want.admin_access or not choice.criteria.capacity.is_empty:
        return False
    if choice.preference.near and want.count > 1:
        return False
    return not any(
        pool.compatibility_sets or (index.selectors.selection(pool, choice.criteria.filter).match & pool.shareable)
        for pool, _ in order
        if not pool.problem
    )


def _by_masks(
    order: Order, choice: RequestChoice, index: DeviceIndex, costs: PartitionCosts, number: int
) -> RequestScore | None:
    preference, count = choice.preference, choice.want.count
    available = total = 0
    lost: Lost | None = None
    for pool, visible in order:
        if pool.problem:
            continue
        matching = index.selectors.selection(pool, choice.criteria.filter).match & visible
        total += matching.bit_count()
        eligible = matching & pool.tolerated(choice.criteria.tolerations) & pool.available
        available += eligible.bit_count()
        if eligible and preference.node_ranks.spares_partitions and pool.total:
            cards = costs.cards_of(pool)
            least = cards.cheapest(eligible & cards.partitions, pool.free)
            if least is not None and (lost is None or least < lost):
                lost = least
    if available < count:
        return None
    return number, NEAREST, lost or (), node_rank(preference, available, total, count)


def _by_devices(
    of_node: NodeCandidates, choice: RequestChoice, costs: PartitionCosts, number: int
) -> RequestScore | None:
    count, preference = choice.count, choice.preference
    candidates = [candidate for candidate in of_node.eligible(choice.criteria) if candidate.fault is None]
    if len(candidates) < count:
        return None
    if not choice.ordered:
        return number, NEAREST, (), ()
    first = candidates
    if candidates[0].consumes is not None:
        first = in_preferred_order(choice, 1, candidates, costs)
    rank = node_rank(
        preference,
        available=sum(map(_free, candidates)),
        total=sum(_total(device) for device, fault in of_node.matching(choice.criteria) if fault is None),
        asked=sum(_consumed(candidate) for candidate in first[:count]),
    )
    lost = _lost(candidates, costs) if preference.node_ranks.spares_partitions else ()
    return number, closeness(choice, count, candidates), lost, rank


def _total(device: PoolDevice) -> int:
    return MILLION if device.spec.allow_multiple else 1


def _free(candidate: Candidate) -> int:
    if candidate.consumes is None:
        return 1
    return MILLION - share_load(candidate, candidate.device.use.consumed, picked=False)


def _consumed(candidate: Candidate) -> int:
    return 1 if candidate.consumes is None else share_load(candidate, {})


def _lost(candidates: Sequence[Candidate], costs: PartitionCosts) -> Lost:
    devices = [candidate.device for candidate in candidates if candidate.consumes is None]
    partitions = [device for device in devices if is_partition(device)]
    return min((costs.cards_of(device.pool).cost(device, device.pool.free)[0] for device in partitions), default=())
