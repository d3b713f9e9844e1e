"""What a decision means for the claims it is about: the new ``status`` of each. Pure.

The one interpretation of decisions: the controller writes these updates through the API, ``lode simulate`` and ``lode
explain`` apply them to their own state.
"""

from dataclasses import dataclass, replace

from controller.reconcile.decisions import Decision, Place, Release, TakeBack
from driver.kube.api import Object
from driver.model import Allocation, Consumer
from driver.wire import allocation_to, consumer_to


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate the claim and reserve it for its first consumer. The claim must have the finalizer before."""

    claim: str
    """Key."""
    allocation: Allocation
    consumer: Consumer

    def status(self, before: Object) -> Object:
        """The claim's status after the update."""
        return {**before, "allocation": allocation_to(self.allocation), "reservedFor": [consumer_to(self.consumer)]}


@dataclass(frozen=True, slots=True)
class Reserve:
    """Add a consumer to an allocated claim."""

    claim: str
    consumer: Consumer

    def status(self, before: Object) -> Object:
        """The claim's status after the update."""
        return {**before, "reservedFor": [*(before.get("reservedFor") or ()), consumer_to(self.consumer)]}


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Remove a consumer from an allocated claim; the claim stays allocated."""

    claim: str
    consumer: Consumer

    def status(self, before: Object) -> Object:
        """The claim's status after the update; ``before`` itself if the claim is not reserved for the consumer."""
        consumers = before.get("reservedFor") or []
        kept = [consumer for consumer in consumers if consumer["uid"] != self.consumer.uid]
        return {**before, "reservedFor": kept} if len(kept) < len(consumers) else before


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Clear the claim's allocation and reservations."""

    claim: str

    def status(self, before: Object) -> Object:
        """The claim's status after the update."""
        return {}


ClaimUpdate = Allocate | Reserve | Unreserve | Deallocate


def claim_updates(decision: Decision, pod: Consumer, timestamp: str) -> tuple[ClaimUpdate, ...]:
    """The updates of claims that carry the decision out, in order.

    Args:
        pod: the pod that the decision is about, as a consumer.
        timestamp: of allocations, RFC 3339 in whole seconds.
    """
    match decision:
        case Place(_, allocations, reserve):
            return (
                *(Allocate(key, replace(value, timestamp=timestamp), pod) for key, value in allocations),
                *(Reserve(key, pod) for key in reserve),
            )
        case Release(claims):
            return tuple(Unreserve(key, pod) for key in claims)
        case TakeBack(claims):
            return tuple(Deallocate(key) for key in claims)
    return ()
