"""Turns a decision into changes of the ``status`` of each of its claims. Pure.

No other module does. The controller writes these changes through the API; ``lode simulate`` and ``lode explain`` apply
them to their own state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from controller.reconcile.decisions import Decision, PlacePod, Release, TakeBack
from driver.kube.api import Object
from driver.model import Allocation, Claim, Consumer
from driver.wire import allocation_to, consumer_to


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate the claim and reserve it for its first consumer. The claim must have the finalizer before."""

    claim: str
    """Key of the claim."""
    allocation: Allocation
    consumer: Consumer
    sharers: tuple[Consumer, ...] = ()
    """Further consumers that start together with the first one."""
    devices: tuple[Object, ...] = ()
    """The entries of ``status.devices``: which card each device is. A write of its own could be lost."""

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """All consumers that the claim is reserved for."""
        return (self.consumer, *self.sharers)

    def status_patch(self, claim: Claim) -> Object:
        """Return the merge patch of the claim's status."""
        reserved = [consumer_to(consumer) for consumer in self.consumers]
        patch: Object = {"allocation": allocation_to(self.allocation), "reservedFor": reserved}
        return {**patch, "devices": [*self.devices]} if self.devices else patch


@dataclass(frozen=True, slots=True)
class Reserve:
    """Add a consumer to an allocated claim."""

    claim: str
    consumer: Consumer

    def status_patch(self, claim: Claim) -> Object:
        """Return the merge patch of the claim's status."""
        return {"reservedFor": [consumer_to(consumer) for consumer in (*claim.reserved_for, self.consumer)]}


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Remove a consumer from an allocated claim; the claim stays allocated."""

    claim: str
    consumer: Consumer

    def status_patch(self, claim: Claim) -> Object:
        """Return the merge patch of the claim's status; empty if the claim is not reserved for the consumer."""
        kept = [consumer for consumer in claim.reserved_for if consumer.uid != self.consumer.uid]
        if len(kept) == len(claim.reserved_for):
            return {}
        return {"reservedFor": [consumer_to(consumer) for consumer in kept]}


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Clear the claim's allocation and reservations."""

    claim: str

    def status_patch(self, claim: Claim) -> Object:
        """Return the merge patch of the claim's status; empty if the claim holds nothing."""
        if claim.allocation is None and not claim.reserved_for:
            return {}
        return {"allocation": None, "reservedFor": None, "devices": None}


ClaimUpdate = Allocate | Reserve | Unreserve | Deallocate


def claim_updates(
    decision: Decision,
    consumer: Callable[[str], Consumer],
    devices: Callable[[Allocation], tuple[Object, ...]],
    timestamp: str,
) -> tuple[ClaimUpdate, ...]:
    """Return the updates of claims that carry the decision out, in order.

    Args:
        consumer: returns the consumer of a claim (key) for the pod of the decision.
        devices: returns the entries of ``status.devices`` for an allocation (``State.device_statuses``).
        timestamp: of allocations, RFC 3339 in whole seconds.
    """
    match decision:
        case PlacePod(_, allocations, reserve):
            sharers = dict(decision.sharers)
            stamped = ((key, replace(value, timestamp=timestamp)) for key, value in allocations)
            return (
                *(Allocate(key, value, consumer(key), sharers.get(key, ()), devices(value)) for key, value in stamped),
                *(Reserve(key, consumer(key)) for key in reserve),
            )
        case Release(claims):
            return tuple(Unreserve(key, consumer(key)) for key in claims)
        case TakeBack(claims):
            return tuple(Deallocate(key) for key in claims)
    return ()


def patched_status(before: Object, patch: Object) -> Object:
    """Return a claim's status after a merge patch of its fields."""
    return {name: value for name, value in {**before, **patch}.items() if value is not None}
