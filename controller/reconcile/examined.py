"""A pod that is about to be placed: one that needs devices, or one that has them. Pure."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from controller.reconcile.history import PlacementHistory
from controller.state import ClaimRecord, PodView, State


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

    def refused(self, state: State, history: PlacementHistory, now: float) -> Mapping[str, str]:
        """Return the nodes where a refusal by kube-scheduler holds at ``now`` (``State.at``), each with its message."""
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
