"""Which node a pod goes to. Pure."""

from collections.abc import Collection, Iterable, Sequence

from controller.placement import Plan, PodDemand, Refusal, plan
from controller.reconcile.history import PlacementHistory
from controller.state import ClaimRecord, PodView, State
from driver.model import Claim
from driver.node_selectors import selects


def choose_node(
    state: State,
    pod: PodView,
    claims: Sequence[Claim],
    reachable: Collection[str] | None,
    now: float,
    history: PlacementHistory,
    beside: Sequence[Claim] = (),
) -> Plan | Refusal:
    """A node for the pod with devices for ``claims``; if the pod is bound already, devices on its node.

    Args:
        beside: unallocated claims of other drivers that the node must fit, too.
        reachable: the nodes from which everything that the pod's claims hold can be reached; None for all.
    """
    avoid = frozenset(name for name, until in history.avoid.items() if until > now)
    demand = PodDemand(pod.key, pod.needs, tuple(claims), reachable, avoid, pod.node_name, tuple(beside))
    return plan([demand], state.devices, state.nodes)


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
