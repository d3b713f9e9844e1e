"""Finds a node, and devices there, for a pod. The same input gives the same answer."""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from controller.allocation import CompiledRequest, Fleet, NodeReasons, NodeScore, NodeSlot
from controller.placement.needs import Needs
from controller.placement.nodes import Nodes
from controller.placement.podcheck import PodCheck, harm
from controller.placement.preferences import has_preferences, preferred_first
from controller.refusal import Refusal
from driver.errors import Fault
from driver.model import Allocation, Claim

Preferred = Callable[[Sequence[str]], Sequence[str]]
"""Sorts names of nodes into the order in which they are tried."""

_MAX_PREEMPTIBLE = 100
"""Most nodes that are compared by the harm of evictions there, as in kube-scheduler."""

IsEligible = Callable[[str], bool]
"""Says whether the node with this name may be chosen, apart from devices."""


@dataclass(frozen=True, slots=True)
class PodDemand:
    """A pod to place, with its needs and claims.

    Attributes:
        key: ``namespace/name``.
        needs: needs for the node predicates.
        claims: claims to allocate.
        other_drivers_claims: claims that kube-scheduler will allocate on the node; the node must fit them, too.
        among: the only nodes that may be chosen, because other claims of the pod are allocated there; None for any.
        avoid: nodes that must not be chosen.
        last: nodes to try after all others, in this order.
        bound_to: the node that the pod is bound to; then only cordons and taints count of all predicates. "" for none.
    """

    key: str
    needs: Needs
    claims: tuple[Claim, ...]
    among: Collection[str] | None = None
    avoid: frozenset[str] = frozenset()
    bound_to: str = ""
    other_drivers_claims: tuple[Claim, ...] = ()
    last: tuple[str, ...] = ()

    def allows(self, node: str) -> bool:
        """Whether the node may be chosen, as far as the demand itself says."""
        return node not in self.avoid and self.bound_to in ("", node) and (self.among is None or node in self.among)

    def given(self, placed: "Placed") -> Iterator[tuple[Claim, Allocation]]:
        """What each claim gets at the place, those of other drivers included."""
        allocations = *placed.allocations, *placed.other_drivers_allocations
        return zip((*self.claims, *self.other_drivers_claims), allocations, strict=True)

    def insisting(self) -> "PodDemand | None":
        """The same with all alignments required that its claims prefer; None if they prefer none."""
        if not any(one.preferred for claim in self.claims for one in claim.aligned):
            return None
        claims = [
            replace(claim, aligned=tuple([replace(one, preferred=False) for one in claim.aligned]))
            for claim in self.claims
        ]
        return replace(self, claims=tuple(claims))


@dataclass(frozen=True, slots=True)
class Placed:
    """A node that fits all claims of a pod, with one allocation for each claim, in order.

    Attributes:
        other_drivers_allocations: allocations that kube-scheduler would choose for the claims of other drivers, one for
            each claim, in order.
    """

    node: str
    allocations: tuple[Allocation, ...]
    other_drivers_allocations: tuple[Allocation, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Placement(Placed):
    """A node and allocations for a pod."""

    pod: str


def find_place(pod: PodDemand, fleet: Fleet, nodes: Nodes) -> Placement | Refusal[None]:
    """Find a node, and devices there, for the pod; where it has what its claims prefer, if there is such a node.

    Nobody is evicted for what they prefer.
    """
    if (insisting := pod.insisting()) is not None:
        first = _find_place(replace(insisting, needs=replace(pod.needs, preempts=False)), fleet, nodes)
        if isinstance(first, Placement):
            return first
    return _find_place(pod, fleet, nodes)


def _find_place(pod: PodDemand, fleet: Fleet, nodes: Nodes) -> Placement | Refusal[None]:
    check = PodCheck(pod.key, pod.needs, nodes)
    if pod.bound_to:
        closed = pod.bound_to in pod.avoid or check.closed(pod.bound_to)
        found = () if closed else _on(pod.bound_to, fleet, nodes, pod.claims)
    else:
        prefers = has_preferences(pod.needs, nodes)
        preferred = partial(preferred_first, pod.key, pod.needs, nodes) if prefers else None
        found = place(
            fleet,
            pod.claims,
            _eligible(pod, check),
            other_drivers_claims=pod.other_drivers_claims,
            last=pod.last,
            preferred=preferred,
        )
        if not found:
            found = _preempting(pod, check, fleet, nodes)
    return _placement(pod, found) if isinstance(found, Placed) else Refusal(pod.key, None, found)


def _preempting(pod: PodDemand, check: PodCheck, fleet: Fleet, nodes: Nodes) -> Placed | tuple[Fault, ...]:
    """Find a place for the pod where kube-scheduler evicts pods of lower priority for it."""
    for name in _preemptible(pod, check, nodes):
        found = place(fleet, pod.claims, _only(name), pod.other_drivers_claims)
        if found:
            return found
    return ()


def place(
    fleet: Fleet,
    claims: Sequence[Claim],
    is_eligible: IsEligible | None = None,
    other_drivers_claims: Sequence[Claim] = (),
    last: Sequence[str] = (),
    preferred: Preferred | None = None,
) -> Placed | tuple[Fault, ...]:
    """Find the first node that fits all ``claims``, and allocate them there.

    If a request has alternatives or preferences, find the best node (``controller.allocation.nodefit.score``).
    ``Fleet.allocate`` gives the answer, and the reasons, for one given node.

    Args:
        is_eligible: called for nodes in the order in which they are tried, and only for nodes that fit otherwise.
        other_drivers_claims: claims that the node must fit, too. They take no devices away from ``claims``.
        last: nodes to try after all others, in this order.
        preferred: sorts nodes that are equal as to devices: all nodes, if no request has alternatives or preferences.

    Returns:
        The node and the allocations; or else what is wrong with the claims as written, so that no node can ever fit
        them: nothing, if only no node fits them now.
    """
    request, others = fleet.compile(claims), fleet.compile(other_drivers_claims)
    if not isinstance(request, CompiledRequest):
        return request
    if not isinstance(others, CompiledRequest):
        return others
    search = _NodeSearch(fleet, (request, claims), (others, other_drivers_claims), is_eligible or _any_node)
    slots: Iterable[NodeSlot] = fleet.candidates(request)
    if preferred is not None:
        slots = _sorted(slots, preferred, is_eligible or _any_node)
    found = search.best_first(slots) if request.scored or others.scored else search.in_order(slots)
    return next(_deferring(found, last), ())


def _sorted(slots: Iterable[NodeSlot], preferred: Preferred, is_eligible: IsEligible) -> Iterable[NodeSlot]:
    """Slots of eligible nodes in the order of preference."""
    possible = {slot.name: slot for slot in slots if is_eligible(slot.name)}
    return [possible[name] for name in preferred(tuple(possible))]


def _deferring(found: Iterable[Placed], last: Sequence[str]) -> Iterator[Placed]:
    """Move results on the nodes ``last`` to the end, in the order of ``last``."""
    positions, deferred = {name: position for position, name in enumerate(last)}, list[Placed]()
    for one in found:
        if one.node in positions:
            deferred.append(one)
        else:
            yield one
    yield from sorted(deferred, key=lambda one: positions[one.node])


def place_on(node: str, pod: PodDemand, fleet: Fleet, nodes: Nodes) -> Placement | None:
    """Place the pod on one given node, without evictions; None if the node does not take it."""
    if (insisting := pod.insisting()) is not None and (found := _place_on(node, insisting, fleet, nodes)):
        return found
    return _place_on(node, pod, fleet, nodes)


def _place_on(node: str, pod: PodDemand, fleet: Fleet, nodes: Nodes) -> Placement | None:
    check = PodCheck(pod.key, pod.needs, nodes)
    found: Placed | tuple[Fault, ...] | None = None
    if not pod.allows(node):
        return None
    if pod.bound_to:
        found = None if check.closed(node) else _on(node, fleet, nodes, pod.claims)
    elif check.passes(node):
        request, others = fleet.compile(pod.claims), fleet.compile(pod.other_drivers_claims)
        if isinstance(request, CompiledRequest) and isinstance(others, CompiledRequest):
            search = _NodeSearch(fleet, (request, pod.claims), (others, pod.other_drivers_claims), _any_node)
            found = search.fit(fleet.slot(node, nodes.labels_of(node)))
    return _placement(pod, found) if isinstance(found, Placed) else None


def _placement(pod: PodDemand, found: Placed) -> Placement:
    return Placement(found.node, found.allocations, pod.key, other_drivers_allocations=found.other_drivers_allocations)


_Claims = tuple[CompiledRequest, Sequence[Claim]]


class _NodeSearch:
    """Looks for a node for claims of ours and of other drivers."""

    def __init__(self, fleet: Fleet, ours: _Claims, others: _Claims, is_eligible: IsEligible):
        self._fleet = fleet
        self._ours = ours
        self._others = others
        self._is_eligible = is_eligible

    def fit(self, slot: NodeSlot) -> Placed | None:
        """Allocate the claims on the node; None if it is not eligible or does not fit all of them."""
        if not self._is_eligible(slot.name):
            return None
        other_drivers = self._fleet.fit(slot, *self._others) if self._others[1] else ()
        allocations = None if other_drivers is None else self._fleet.fit(slot, *self._ours)
        if other_drivers is None or allocations is None:
            return None
        return Placed(slot.name, allocations, other_drivers_allocations=other_drivers)

    def in_order(self, slots: Iterable[NodeSlot]) -> Iterator[Placed]:
        """Results for the nodes that fit, in the order given."""
        return (found for slot in slots if (found := self.fit(slot)) is not None)

    def best_first(self, slots: Iterable[NodeSlot]) -> Iterator[Placed]:
        """Results for the nodes that fit, smallest score first. Nodes with equal scores stay in the order given.

        A score regards each request alone. A node that fits only with later alternatives is put back, and has its turn
        when no other node can be better.
        """
        scored = ((self._score(slot), slot) for slot in slots)
        ranked: list[tuple[NodeScore, int, NodeSlot, Placed | None]]
        ranked = [(score, at, slot, None) for at, (score, slot) in enumerate(scored) if score is not None]
        heapq.heapify(ranked)
        while ranked:
            score, at, slot, found = heapq.heappop(ranked)
            if found is None:
                found = self.fit(slot)
                if found is None:
                    continue
                refined = self._refined(slot, found)
                if refined > score:
                    heapq.heappush(ranked, (refined, at, slot, found))
                    continue
            yield found

    def _score(self, slot: NodeSlot) -> NodeScore | None:
        ours, others = self._fleet.score(slot, self._ours[0]), self._fleet.score(slot, self._others[0])
        return None if ours is None or others is None else _sum(ours, others)

    def _refined(self, slot: NodeSlot, found: Placed) -> NodeScore:
        return _sum(
            self._fleet.refine(slot, *self._ours, found.allocations),
            self._fleet.refine(slot, *self._others, found.other_drivers_allocations),
        )


def _any_node(_: str) -> bool:
    return True


def _sum(ours: NodeScore, others: NodeScore) -> NodeScore:
    return ours[0] + others[0], ours[1]


def _on(name: str, fleet: Fleet, nodes: Nodes, claims: Sequence[Claim]) -> Placed | tuple[Fault, ...]:
    """Allocate the claims on one given node; or else return what is wrong with them as written."""
    found = fleet.allocate(name, nodes.labels_of(name), claims)
    return found.faults if isinstance(found, NodeReasons) else Placed(name, found)


def _eligible(pod: PodDemand, check: PodCheck) -> IsEligible:
    return lambda name: pod.allows(name) and check.passes(name)


def _only(name: str) -> IsEligible:
    return lambda other: other == name


def _preemptible(pod: PodDemand, check: PodCheck, nodes: Nodes) -> Sequence[str]:
    """Nodes where kube-scheduler would make room for the pod, those with the least harm first.

    There are none if any node has room without evictions. Then only the pod's allocation excludes that node, and
    kube-scheduler clears the allocation instead of evicting pods (plugin DynamicResources, PostFilter).
    """
    if not pod.needs.preempts or not nodes.pods.has_below(pod.needs.priority) or any(map(check.passes, nodes)):
        return ()
    found = ((check.victims(name), name) for name in nodes if pod.allows(name))
    some = islice(((harm(its), name) for its, name in found if its is not None), _MAX_PREEMPTIBLE)
    return [name for _, name in sorted(some)]
