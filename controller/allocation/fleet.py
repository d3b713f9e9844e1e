"""Allocates devices of the cluster to claims."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from controller.allocation.costs import ClaimCosts
from controller.allocation.devices.columns import NOWHERE, tells
from controller.allocation.devices.layout import bits
from controller.allocation.devices.node_availability import NodeMemory
from controller.allocation.devices.pools import NodeSlot
from controller.allocation.ledger import DeviceLedger
from controller.allocation.nodefit.closer import ChosenCards, chosen_cards
from controller.allocation.nodefit.counts import (
    NodeDeviceCounts,
    NodeValues,
    NodeValuesCounter,
    most_fits,
    node_devices,
)
from controller.allocation.nodefit.fit import GreedyFit, NodeClaims, NodeSearch, QuickAnswer, fit_together
from controller.allocation.nodefit.likeness import DevicePosition, crowding, fingerprint, positions
from controller.allocation.nodefit.partition_cost import PartitionCosts
from controller.allocation.nodefit.score import UNSCORED, NodeScore, alternatives, node_score
from controller.allocation.nodefit.shortages import Searched, WhyNot
from controller.allocation.reasons import NodeReasons
from controller.allocation.requests import CompiledRequest, CompiledRequests
from controller.allocation.rules import PodValues, Values, texts_of, values_of
from controller.allocation.search.attempt import allocations
from controller.allocation.search.search import STEP_LIMIT
from controller.allocation.selectors import MOST_CHARACTERS, CompiledSelectors, Drivers, Filter, Turn
from driver.bounded import BoundedCache, SizedCache
from driver.cel import SelectorError
from driver.errors import Fault
from driver.model import Allocation, Claim, DeviceClass, DeviceId
from driver.names import Names

_NAMES: Final = Names()
_MOST_MEMORIES: Final = 1024
_MOST_SCORED: Final = 16
"""The most compiled requests for which the scores of nodes are remembered."""
_MOST_SCORES: Final = 1 << 16


class Fleet:
    """Allocates the devices of a ledger to claims. Questions only fill caches.

    A question about one node comes in two forms: by name and labels (``allocate``), and for nodes that ``candidates``
    gave (``fit``, ``score``), which is quick. ``controller.placement`` chooses among nodes.

    Args:
        step_limit: the devices that one search may try before the answer is "not decided".
        names: the driver whose parameters are read in claims and classes.
        selectors: compiles expressions; fleets may share it.

    Attributes:
        ledger: the devices and what is in use of them. Events about nodes, slices, taint rules and claims change it.
        turn: the steps that ``too_costly`` may still take; its owner begins a new turn for each decision.
    """

    def __init__(
        self, step_limit: int = STEP_LIMIT, names: Names = _NAMES, selectors: CompiledSelectors | None = None
    ) -> None:
        self._step_limit = step_limit
        self.ledger = DeviceLedger(names)
        self._index = self.ledger.index
        self._classes: dict[str, DeviceClass] = {}
        selectors = selectors or CompiledSelectors(*names.allocated_drivers)
        self._selectors = selectors
        self._requests = CompiledRequests(selectors, names)
        self._claim_costs = ClaimCosts(self._index, selectors, names)
        self.turn = Turn()
        self._fabric = names.fabric
        self._memories: SizedCache[CompiledRequest, NodeMemory] = SizedCache(
            _MOST_MEMORIES, MOST_CHARACTERS, lambda request, _: request.characters
        )
        self._scores: BoundedCache[CompiledRequest, _Scores] = BoundedCache(_MOST_SCORED)
        self._greedy = GreedyFit(self._index)
        self._node_values = NodeValuesCounter(self._index, self._greedy)
        self._costs = PartitionCosts()
        self._search = NodeSearch(self._index, self._costs)
        self._why_not = WhyNot(self._index, self.ledger.claim_keys, selectors)

    # Classes

    def upsert_class(self, device_class: DeviceClass) -> None:
        """Add or replace a DeviceClass."""
        if self._classes.get(device_class.name) != device_class:
            self._classes[device_class.name] = device_class
            self._forget_requests()

    def remove_class(self, name: str) -> None:
        """Remove a DeviceClass."""
        if self._classes.pop(name, None) is not None:
            self._forget_requests()

    # Questions

    def index(self) -> None:
        """Bring all indexes up to date: the pools of nodes, the fabric, the devices of classes.

        Without it, the first question after many events does the same, and takes long.
        """
        self._index.prepare(self._fabric)
        for device_class in self._classes.values():
            # Requests for a class that does not compile are refused with the reason.
            with suppress(SelectorError):
                self._index.selectors.grouping(self._selectors.filter(device_class.selectors, ()).paths)

    def drivers(self, selectors: Sequence[str]) -> Drivers:
        """The drivers that all selectors can select, as far as their text tells."""
        return self._selectors.drivers(selectors)

    def too_costly(self, claims: Sequence[Claim]) -> tuple[Fault, ...]:
        """The faults of a pod's claims whose selectors take too many steps; none if the pod may be placed.

        ``turn`` pays for the evaluation.

        Raises:
            TurnEnded: the turn has no steps left. Ask again in the next one: results so far are remembered.
        """
        return self._claim_costs.faults(claims, self._keys(claims), self._classes, self.turn)

    def compile(
        self, claims: Sequence[Claim], pod_values: Sequence[PodValues] = ()
    ) -> CompiledRequest | tuple[Fault, ...]:
        """The compiled request of claims of one pod or several, or all their faults.

        It waits for no turn. The limit for all claims of a pod together is checked by ``too_costly``.

        Args:
            pod_values: what the values of attributes have to be over all claims of each pod.
        """
        costly = self._claim_costs.faults_of_each(claims, self._keys(claims), self._classes, Turn())
        return costly or self._requests.request_for(claims, self._classes, pod_values)

    def _keys(self, claims: Sequence[Claim]) -> Sequence[Hashable]:
        return [self._requests.key(claim.spec) for claim in claims]

    def allocate(
        self, node_name: str, node_labels: Mapping[str, str], claims: Sequence[Claim]
    ) -> tuple[Allocation, ...] | NodeReasons:
        """Devices of the node for all ``claims`` of a pod: one allocation per claim in order, or the reasons for none.

        Deterministic: the first fit in the order of kube-scheduler's allocator, unless the claims prefer otherwise.
        """
        request = self.compile(claims)
        if not isinstance(request, CompiledRequest):
            return NodeReasons(faults=request)
        slot = self._index.slot(node_name, node_labels)
        order = self._index.order(slot)
        picks = self._greedy.fit(order, request, claims) if request.maskable else QuickAnswer.UNKNOWN
        if isinstance(picks, QuickAnswer):
            node = self._search.node(slot)
            if picks is QuickAnswer.IMPOSSIBLE:
                reasons = self._why_not.reasons(node, claims, request.demands, Searched())
                if reasons.shortages:
                    return reasons
            found = self._search.search(node, request, claims, self._step_limit)
            if found.picks is None:
                return self._why_not.reasons(node, claims, request.demands, found)
            picks = found.picks
        return allocations(claims, picks, node_name)

    @property
    def work(self) -> int:
        """The work of searches and reasons so far. The unit is a device that is looked at: mostly 3 microseconds."""
        return self._why_not.work + self._search.work

    def chosen_cards(
        self, node: str, labels: Mapping[str, str], claims: Sequence[Claim], found: Sequence[Allocation]
    ) -> Sequence[tuple[Claim, ChosenCards]]:
        """The cards of each request for several of them, where pairs differ in links, and why none closer ones.

        Args:
            found: the allocations of these claims, which count.
        """
        request = self.compile(claims)
        if not isinstance(request, CompiledRequest):
            return ()
        of_node, columns = self._search.node(self._index.slot(node, labels)), self._index.columns
        chosen: list[tuple[Claim, ChosenCards]] = []
        for demand in request.demands:
            claim, allocation = claims[demand.claim], found[demand.claim]
            for choice in demand.choices:
                given = [result.device for result in allocation.results if result.request == choice.name]
                if given and (cards := chosen_cards(of_node, choice, given, columns)):
                    chosen.append((claim, cards))
        return chosen

    def publishes(self, claim: Claim) -> bool:
        """True if each request of the claim matches a device of the cluster, in use or not. A faulty one has none."""
        request = self.compile([claim])
        if not isinstance(request, CompiledRequest):
            return False
        self._index.settle()
        return all(any(self._index.selectors.anywhere(c.criteria.filter) for c in d.choices) for d in request.demands)

    def selects_shared(self, request: CompiledRequest) -> bool:
        """True if the request selects a device, in use or not, of a pool that belongs to no single node."""
        self._index.settle()
        pools = [pool for pool in self._index.shared_pools.values() if not pool.problem]
        selection = self._index.selectors.selection
        return any(selection(pool, wanted).match for pool in pools for wanted in request.filters)

    def in_use(self, claims: Sequence[Claim]) -> tuple[int, int, tuple[str, ...]]:
        """Counts the devices that match a request of the claims, and those in use, and names the claims that hold them.

        The keys of these claims are sorted.
        """
        request = self.compile(claims)
        if not isinstance(request, CompiledRequest):
            return 0, 0, ()
        self._index.settle()
        matching = used = 0
        holders = set[str]()
        for pool in self._index.pools.values():
            if pool.problem:
                continue
            match = 0
            for wanted in request.filters:
                match |= self._index.selectors.selection(pool, wanted).match
            matching += match.bit_count()
            if held := match & pool.used:
                used += held.bit_count()
                for index in bits(held):
                    holders.update(pool.devices[index].use.holders)
        return matching, used, tuple(sorted(self.ledger.claim_keys.get(uid, uid) for uid in holders))

    def candidates(self, request: CompiledRequest) -> Iterator[NodeSlot]:
        """The nodes that may fit the request, in natural order. None of them was looked at."""
        return self._index.availability.in_order(self._candidates(request, self._memory(request)))

    def score(self, slot: NodeSlot, request: CompiledRequest) -> NodeScore | None:
        """The score of the node for the request, the smallest is best; None if it does not fit.

        The score can get worse once the node's devices are known: see ``refine``.
        """
        if not request.scored:
            return UNSCORED
        scores = self._scores.get(request)
        if scores is None:
            scores = self._scores[request] = BoundedCache(_MOST_SCORES)
        clock = slot.clock, self._index.shared_usage_version
        known = scores.get(slot)
        if known is None or known[0] != clock:
            order = self._index.order(slot)
            score = node_score(order, request, self._index, self._costs, lambda: self._search.node(slot))
            known = scores[slot] = clock, score
        return known[1]

    def refine(
        self, slot: NodeSlot, request: CompiledRequest, claims: Sequence[Claim], found: Sequence[Allocation]
    ) -> NodeScore:
        """The score for the alternatives that ``fit`` found on the node. ``score`` returns it from now on."""
        known = self.score(slot, request)
        if known is None or request.single_choice:
            return UNSCORED if known is None else known
        score = alternatives(claims, found), known[1]
        self._scores[request][slot] = (slot.clock, self._index.shared_usage_version), score
        return score

    def fit(
        self, slot: NodeSlot, request: CompiledRequest, claims: Sequence[Claim], effort: int = 1
    ) -> tuple[Allocation, ...] | None:
        """The allocation of each claim on the node; None if the node does not fit, which is remembered.

        Args:
            effort: multiplies ``step_limit``.
        """
        memory, steps = self._memory(request), effort * self._step_limit
        if memory.is_no_fit(slot, self._index.shared_usage_version, steps):
            return None
        order = self._index.order(slot)
        picks = self._greedy.fit(order, request, claims) if request.maskable else QuickAnswer.UNKNOWN
        if picks is QuickAnswer.UNKNOWN:
            found = self._search.remembered(slot, request, claims, memory, steps)
            return None if found is None else allocations(claims, found, slot.name)
        if picks is QuickAnswer.IMPOSSIBLE:
            memory.learn_impossible(slot)
            return None
        return allocations(claims, picks, slot.name)

    def is_undecided(self, slot: NodeSlot, request: CompiledRequest) -> bool:
        """True if ``fit`` found nothing on the node because its search ran out of steps."""
        return self._memory(request).is_undecided(slot, self._index.shared_usage_version)

    def fit_together(
        self,
        slots: Sequence[NodeSlot],
        claims: Sequence[Sequence[Claim]],
        effort: int = 1,
        pod_values: Sequence[Sequence[PodValues]] = (),
    ) -> Sequence[tuple[Allocation, ...]] | None:
        """The allocations of the claims of each node, for nodes that share devices; None if they do not fit together.

        Args:
            effort: as of ``fit``.
            pod_values: for each node, as of ``compile``; () for none.

        Raises:
            OutOfSteps: the search ran out of steps, so they may fit all the same.
        """
        parts = []
        for slot, own, values in zip(slots, claims, pod_values or [()] * len(slots), strict=True):
            request = self.compile(own, values)
            if not isinstance(request, CompiledRequest):
                return None
            parts.append(NodeClaims(slot.name, self._search.node(slot), request, own))
        return fit_together(parts, effort * self._step_limit)

    def likeness(self, node: str, labels: Mapping[str, str], request: CompiledRequest) -> Hashable:
        """A key of the node. Nodes with equal keys fit the request alike, also after equal positions are freed.

        A device may be held twice: by a pod, and by what is kept of it for another one.
        """
        order = self._index.order(self._index.slot(node, labels))
        return fingerprint(order, request, self._index), crowding(order)

    def positions(
        self, node: str, labels: Mapping[str, str], allocations: Sequence[Allocation]
    ) -> Sequence[tuple[DevicePosition, ...]]:
        """The positions of each allocation's devices among those of the node, and what it consumes of each, sorted."""
        return positions(self._index.order(self._index.slot(node, labels)), allocations, self._index, self.ledger.usage)

    # Questions about domains of a topology

    def slot(self, name: str, labels: Mapping[str, str], within: tuple[tuple[str, str], ...] = ()) -> NodeSlot:
        """The node for ``fit`` and the questions below; ``within`` leaves only devices with these attribute values."""
        return self._index.slot(name, labels, within)

    @property
    def node_slots(self) -> Mapping[str, NodeSlot]:
        """The known nodes by name. ``slot`` returns the same objects while nodes share no devices."""
        self._index.settle()
        return self._index.slots

    def node_devices(
        self, slot: NodeSlot, filters: Sequence[Filter], attributes: tuple[str, ...] = ()
    ) -> NodeDeviceCounts:
        """Counts the devices of the node that any filter selects, with their values of the attributes."""
        return node_devices(self._index.order(slot), filters, attributes, self._index)

    def node_values(self, slot: NodeSlot, request: CompiledRequest, attribute: str) -> NodeValues:
        """The values of the attribute that the request can get on the node, as far as counting tells."""
        return self._node_values.count(self._index.order(slot), request, attribute)

    def most_fits(self, slot: NodeSlot, request: CompiledRequest, most: int = 1_000) -> int:
        """An upper bound, up to ``most``, on how many times the node fits the request."""
        return most_fits(self._index.order(slot), request, self._greedy, self._index.columns, most)

    @property
    def published(self) -> int:
        """A version that grows when devices are added, removed or published anew; not when they are used."""
        self._index.settle()
        return self._index.pools_version

    @property
    def shared_usage(self) -> int:
        """A version of the devices that nodes share, and of their usage; undoing a change on trial brings it back."""
        return self._index.shared_usage_version

    def values_of(self, device: DeviceId, attribute: str) -> frozenset[str] | None:
        """The domains that a device's value of an attribute names; None if no slice publishes the device."""
        texts = self.texts_of(device, attribute)
        return None if texts is None else texts - {NOWHERE}

    def tells(self, device: DeviceId, attribute: str) -> bool:
        """Whether any device of the device's pool has the attribute, or the pool is not known (``columns.tells``)."""
        pool = self._index.pool_of(device)
        return pool is None or tells(pool, attribute, self._index.columns)

    def texts_of(self, device: DeviceId, attribute: str) -> frozenset[str] | None:
        """A device's values of an attribute as texts, also "", which is no domain; None as of ``values_of``."""
        known = self._index.device(device)
        return None if known is None else texts_of(known.spec, attribute)

    def common_values(self, devices: Iterable[DeviceId], attribute: str) -> Values:
        """What the devices have in common of an attribute, with types; nothing if one of them is not published."""
        known = [self._index.device(device) for device in devices]
        values = [Values() if one is None else values_of(one.spec, attribute) for one in known]
        return values[0].intersection(*values[1:]) if values else Values()

    @property
    def shares_devices(self) -> bool:
        """True if nodes share devices, so that a pod on one node can take devices from another node."""
        self._index.settle()
        return bool(self._index.shared_pools)

    # Which nodes

    def _forget_requests(self) -> None:
        """Forget compiled requests, because a device class changed."""
        self._requests.forget()
        self._claim_costs.forget()
        self._memories.clear()
        self._scores.clear()

    def _memory(self, request: CompiledRequest) -> NodeMemory:
        memory = self._memories.get(request)
        if memory is None:
            memory = self._memories[request] = NodeMemory(self._index.availability)
        return memory

    def _candidates(self, request: CompiledRequest, memory: NodeMemory) -> int:
        self._index.settle()
        availability, shared = self._index.availability, self._index.shared_pools.values()
        # Devices of shared pools may help out on every node.
        spare = sum(pool.available.bit_count() for pool in shared if not pool.problem)
        nodes = availability.with_available(request.min_devices - spare)
        nodes &= self._reach(request, memory) & ~memory.impossible()
        if request.total_devices > request.min_devices and not any(pool.shareable for pool in shared):
            nodes &= availability.with_available(request.total_devices - spare) | availability.sharing
        return nodes

    def _reach(self, request: CompiledRequest, memory: NodeMemory) -> int:
        """The nodes with enough matching devices, in use or not."""
        index, selectors = self._index, self._index.selectors
        versions: list[Hashable] = [index.availability.numbering, index.shared_pools_version]
        for wanted in request.filters:
            grouping = selectors.grouping(wanted.paths)
            versions += (grouping, grouping.version)
        reach = memory.reach(versions)
        if reach is None:
            reach = -1
            for demand in request.demands:
                nodes = 0
                for choice in demand.choices:
                    wanted = choice.criteria.filter
                    shared = sum(
                        selectors.selection(pool, wanted).match.bit_count()
                        for pool in index.shared_pools.values()
                        if not pool.problem
                    )
                    nodes |= selectors.nodes(wanted, choice.count - shared, index.availability.numbering)
                reach &= nodes
            memory.learn_reach(versions, reach)
        return reach


_Scores = BoundedCache[NodeSlot, tuple[Hashable, NodeScore | None]]
