"""The search for devices on one node, where the first fit is not a solution."""

from collections.abc import Sequence

from controller.allocation.devices.device_index import DeviceIndex
from controller.allocation.devices.node_availability import NodeMemory
from controller.allocation.devices.pools import NodeSlot
from controller.allocation.nodefit.candidates import NodeCandidates
from controller.allocation.nodefit.fingerprint import fingerprint
from controller.allocation.nodefit.shortages import SearchFailure
from controller.allocation.ordering.partition_cost import PartitionCosts
from controller.allocation.requests.compiled import CompiledRequest
from controller.allocation.search.attempt import Attempt, FaultyDevice, Pick
from controller.allocation.search.search import Search, SearchEnded, first_fit
from driver.model import Claim


class NodeSearch:
    """Searches nodes of a fleet.

    Args:
        costs: the costs of partitions.

    Attributes:
        effort: the work of all searches so far, in the unit of ``Search.effort``.
    """

    def __init__(self, index: DeviceIndex, costs: PartitionCosts):
        self._index = index
        self._costs = costs
        self.effort = 0

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
            if not isinstance(found, SearchFailure):
                return found
            known = -steps if found.undecided else 0
            if state is not None:
                memory.learn_count(state, known)
            if found.lasting:
                memory.learn_impossible(slot)
        memory.learn_no_fit(slot, self._index.shared_usage_version, too_few_steps=-known)
        return None

    def search(
        self, node: NodeCandidates, request: CompiledRequest, claims: Sequence[Claim], steps: int
    ) -> Sequence[Pick] | SearchFailure:
        """The picks of a search with so many steps, or the reason for none."""
        try:
            attempt = Attempt(claims)
            picks = first_fit(attempt, node.offers(request.demands, attempt))
            if picks is not None:
                return picks
        except FaultyDevice as faulty:
            return SearchFailure(faulty=faulty)
        # A pick would have to be undone.
        tasks = node.tasks(request.demands)
        if tasks is None:
            return SearchFailure()
        search = Search(claims, tasks, steps)
        try:
            return search.picks if search.run() else SearchFailure(search)
        except SearchEnded:
            return SearchFailure(search, undecided=True)
        except FaultyDevice as faulty:
            return SearchFailure(search, faulty=faulty)
        finally:
            self.effort += search.effort
