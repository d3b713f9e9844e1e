"""A pod that is about to be placed: what it has and needs, the nodes that it may go to, and what quotas allow. Pure."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.allocation import NodeReasons
from controller.placement import PodDemand
from controller.quotas import render
from controller.reconcile.decisions import Reason, Wait
from controller.reconcile.history import PlacementHistory
from controller.state import ClaimRecord, PodView, State
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class NeedsDevices:
    """A pod that needs a node, and devices there for its claims that we have to allocate."""

    pod: PodView
    records: tuple[ClaimRecord, ...]
    """All claims of the pod."""
    unallocated: tuple[ClaimRecord, ...]
    """Claims that this controller has to allocate."""
    others: tuple[ClaimRecord, ...]
    """Claims that kube-scheduler has to allocate from devices of other drivers."""

    def other_drivers_claims(self, state: State) -> tuple[ClaimRecord, ...]:
        """Return the claims of other drivers that the node must fit, too.

        kube-scheduler allocates these from the same slices, but only on the node chosen here. A claim for which no
        slice has a device is left out: its driver may have other means, and kube-scheduler decides.
        """
        if self.pod.node_name:
            return ()
        return tuple(record for record in self.others if state.devices.publishes(record.claim))

    def held(self, state: State) -> tuple[ClaimRecord, ...]:
        """Return the claims that hold devices of ours."""
        return tuple(record for record in self.records if state.holds_ours(record.claim))

    def tied_by(self) -> tuple[str, ...]:
        """Return the keys of the claims that hold devices which not every node reaches."""
        return tuple(
            record.claim.key for record in self.records if record.claim.allocation and record.claim.allocation.nodes
        )

    def refused(self, state: State, history: PlacementHistory, now: float) -> Mapping[str, NodeReasons]:
        """Return the nodes where a refusal by kube-scheduler holds at ``now`` (``State.at``), with what it said."""
        if self.pod.node_name:
            return {}
        return history.standing(lambda name: state.revision_of(name, self.pod.needs), now)

    def shape(self, state: State) -> Hashable:
        """Return a value that is equal for pods that the same nodes refuse for the same reasons."""
        claims = tuple(record.shape for record in (*self.unallocated, *self.other_drivers_claims(state)))
        return self.pod.node_name or state.nodes.shape_of(self.pod.needs), claims


@dataclass(frozen=True, slots=True)
class HasDevices:
    """A gated pod whose claims are all allocated."""

    pod: PodView
    ours: tuple[ClaimRecord, ...]
    """Claims that hold devices of ours."""


@dataclass(frozen=True, slots=True)
class NodeRestrictions:
    """The nodes that are closed to a pod because of other pods, and those that are tried last."""

    held: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are held back for pods that come first, each with that pod."""
    kept_places: Mapping[str, str] = field(default_factory=dict)
    """Pods with the node where a place is kept for each, so that it goes to no other one."""
    retried: tuple[str, ...] = ()
    """Nodes where kube-scheduler is trying another pod of the shape; they are tried after others."""

    def limit(self, pod: str, reachable: Collection[str] | None) -> Collection[str] | None:
        """Return those of the nodes that are open to the pod (key) because of kept places; None for all nodes."""
        kept = self.kept_places.get(pod)
        if kept is None:
            return reachable
        return [kept] if reachable is None or kept in reachable else []

    def held_from(self, pod: str) -> Mapping[str, str]:
        """Return the nodes that are held back from the pod (key). A hold that began later does not undo an eviction."""
        kept = self.kept_places.get(pod)
        return self.held if kept is None else {node: holder for node, holder in self.held.items() if node != kept}


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
    return state.nodes.selected(selectors)


def quota_wait(
    state: State, namespace: str, allocations: Iterable[Allocation], group: Hashable = None, subject: str = ""
) -> Wait | None:
    """Return why the namespace may not have these allocations beside what it has; None if it may.

    A pod for which it may not waits. No node helps it, so nobody is preempted and no node is made for it: whoever plans
    that asks here with the allocations of the plan.

    Args:
        allocations: not promised yet.
        group: as ``Wait.group``.
        subject: begins the message, such as the name of a gang; "" for nothing.
    """
    beyond = state.quotas.beyond(namespace, allocations)
    if beyond is None:
        return None
    reason, why = Reason.QUOTA_INVALID if beyond.faults else Reason.QUOTA_EXCEEDED, render(beyond)
    return Wait(reason, f"{subject}: {why}" if subject else why, group=group)
