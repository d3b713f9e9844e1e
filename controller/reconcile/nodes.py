"""Which node a pod goes to. Pure."""

from collections.abc import Collection, Iterable, Sequence

from controller.allocation import Placed, Unsatisfiable
from controller.placement import fits, selects
from controller.reconcile.history import PlacementHistory
from controller.state import ClaimRecord, PodView, State
from driver.model import Claim


def choose_node(
    state: State,
    pod: PodView,
    claims: Sequence[Claim],
    reachable: Collection[str] | None,
    now: float,
    history: PlacementHistory,
) -> Placed | Unsatisfiable | None:
    """A node for the pod with devices for ``claims``; if the pod is bound already, devices on its node.

    None if no node takes the pod; Unsatisfiable if the claims cannot be allocated on the node that the pod is bound to,
    or are themselves at fault.

    Args:
        reachable: the nodes from which everything that the pod's claims hold can be reached; None for all.
    """
    if pod.node_name:
        answer = state.devices.allocate(pod.node_name, state.nodes.labels_of(pod.node_name), claims)
        return Placed(pod.node_name, answer) if isinstance(answer, tuple) else answer

    def eligible(name: str) -> bool:
        if history.avoid.get(name, now) > now or (reachable is not None and name not in reachable):
            return False
        return not fits(pod.key, pod.needs, state.nodes.view(name), state.nodes.extended_resources)

    return state.devices.place(claims, eligible)


def reachable_nodes(state: State, records: Iterable[ClaimRecord]) -> Collection[str] | None:
    """The nodes, in order, from which everything that the claims hold can be reached; None if they hold nothing."""
    allocations = (record.claim.allocation for record in records)
    selectors = [allocation.nodes for allocation in allocations if allocation and allocation.nodes]
    if not selectors:
        return None
    # A dict is a set that keeps its order.
    return dict.fromkeys(
        name
        for name in state.nodes
        if all(selects(selector, name, state.nodes.labels_of(name)) for selector in selectors)
    )
