"""The nodes that a pod may be placed on, and its demand. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.placement import PodDemand
from controller.state import ClaimRecord, PodView, State
from driver.model import Claim
from driver.node_selectors import selects


@dataclass(frozen=True, slots=True)
class NodeRestrictions:
    """The nodes that are closed to a pod because of other pods, and those that are tried last."""

    held: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are held back for pods that come first, each with that pod."""
    only: frozenset[str] = frozenset()
    """The nodes where room is kept for it, so that it goes to no other one; empty for all nodes."""
    retried: tuple[str, ...] = ()
    """Nodes where kube-scheduler is trying another pod of the shape; they are tried after others."""

    def limit(self, reachable: Collection[str] | None) -> Collection[str] | None:
        """Return those of the nodes that are open to the pod because of kept room, in order; None for all nodes."""
        if not self.only:
            return reachable
        return [name for name in sorted(self.only) if reachable is None or name in reachable]


ANY_NODE = NodeRestrictions()


def demand_of(
    pod: PodView,
    claims: Sequence[Claim],
    reachable: Collection[str] | None,
    *,
    other_drivers_claims: Sequence[Claim] = (),
    avoid: Iterable[str] = (),
    last: Sequence[str] = (),
) -> PodDemand:
    """Combine the needs of the pod: a node with devices for ``claims``, or devices on the node that it is bound to.

    Args:
        reachable: the nodes from which everything that the pod's claims hold can be reached; None for all.
        other_drivers_claims: unallocated claims of other drivers that the node must fit, too.
        avoid: nodes that must not be chosen.
        last: nodes that are tried after all others, in this order.
    """
    return PodDemand(
        pod.key,
        pod.needs,
        tuple(claims),
        reachable,
        avoid=frozenset(avoid),
        bound_to=pod.node_name,
        other_drivers_claims=tuple(other_drivers_claims),
        last=tuple(dict.fromkeys(last)),
    )


def reachable_nodes(state: State, records: Iterable[ClaimRecord]) -> Collection[str] | None:
    """Return the nodes, in order, that reach everything the claims hold; None if the claims hold nothing."""
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
