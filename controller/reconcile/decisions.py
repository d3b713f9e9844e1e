"""Decisions about a pod, gang or claim, as values; and what each changes in the ``status`` of claims. Pure.

Nobody else says what a decision changes. The controller writes these changes through the API; ``lode simulate`` and
``lode explain`` apply them to their own state.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from controller.allocation import NodeReasons
from controller.gangs import Gang, GangPlan, TriedDomains
from controller.refusal import Refusal
from controller.state import PodView, State
from controller.state.kept_places import KeptPlace
from controller.state.knownnodes import Revision
from driver.kube.api import Object
from driver.limits import bounded
from driver.model import Allocation, Claim, Consumer
from driver.wire import allocation_to, consumer_to


class Reason(StrEnum):
    """The reason why a pod or claim waits, in conditions, in Events and as a label value of metrics."""

    AMBIGUOUS_CLASS = "AmbiguousClass"
    BOUND_WITHOUT_DEVICES = "BoundWithoutDevices"
    CLAIM_DELETING = "ClaimDeleting"
    CLAIM_FULL = "ClaimFull"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    DEVICE_UNUSABLE = "DeviceUnusable"
    DOUBLE_USE = "DoubleUse"
    EVALUATING = "Evaluating"
    FIELDS_DROPPED = "FieldsDropped"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_INVALID = "GangInvalid"
    IMPOSSIBLE = "Impossible"
    INVALID_CLAIM = "InvalidClaim"
    INVALID_PARAMETERS = "InvalidParameters"
    MIXED_CLAIM = "MixedClaim"
    NODE_UNUSABLE = "NodeUnusable"
    NOT_BOUND = "NotBound"
    OTHER_GATES = "OtherGates"
    PREEMPTING = "Preempting"
    QUOTA_EXCEEDED = "QuotaExceeded"
    QUOTA_INVALID = "QuotaInvalid"
    REFUSED = "Refused"
    TEMPLATE_INVALID = "TemplateInvalid"
    TEMPLATE_REFUSED = "TemplateRefused"
    UNALLOCATABLE = "Unallocatable"
    UNKNOWN_CLASS = "UnknownClass"
    UNKNOWN_SCHEDULER = "UnknownScheduler"
    UNREADABLE = "Unreadable"
    UNUSED = "Unused"
    WRITE_REFUSED = "WriteRefused"


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something about the pod or its claims changes."""

    after: float | None = None
    """Seconds after which there may be something to do although nothing has changed; None if there is not."""


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """What a pod asks of nodes, and which nodes it did not ask: all that it takes to ask for reasons if none takes it.

    ``controller.explaining`` asks for them. That is costly, so it is done to report them.
    """

    claims: tuple[str, ...]
    """Keys of the claims that need devices: ours, then those of other drivers, which the node must fit, too."""
    shape: Hashable = None
    """Equal for pods that the same nodes refuse for the same reasons: equal needs, and claims with equal specs."""
    by_every_node: bool = False
    """True if every node refuses every pod of this shape, until something changes."""
    own: str = ""
    """Key of the pod if the answer is about it alone: kube-scheduler refused it somewhere, or its claims name nodes. ""
    if it holds for all pods of the shape."""
    refused: Mapping[str, NodeReasons] = field(default_factory=dict)
    """Nodes that are not tried because kube-scheduler refused the pod there, each with what it said."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are not tried because they are held back for a pod that comes first, each with that pod."""
    bound_to: str = ""
    """The node that the pod is bound to already, and cannot leave; "" for none."""
    tied_by: tuple[str, ...] = ()
    """Keys of the pod's claims that hold devices, so that only nodes are tried that reach these."""
    lenient: bool = False
    """True if a node may help without taking the pod itself. Then only another decision can tell."""

    @property
    def reason(self) -> Reason:
        """The reason why the pod waits."""
        return Reason.BOUND_WITHOUT_DEVICES if self.bound_to else Reason.UNALLOCATABLE

    @property
    def group(self) -> Hashable:
        """Equal for pods that wait together: if the first one in the order is refused, so are the others."""
        return (self.shape, self.own) if self.own else self.shape


PodRefusal = Refusal[PodQuestion]
"""No node takes the pod now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The pod cannot be placed now. It is tried again when capacity is freed, and after a back-off."""

    reason: Reason
    message: str
    claims: tuple[str, ...] = ()
    """Keys of claims that have the fault themselves; each gets an Event, too."""
    report: bool = True
    """True if the pod gets a condition and an Event. False if the wait passes without anybody acting."""
    after: float | None = None
    """Seconds after which to try again; None leaves it to the back-off."""
    group: Hashable = None
    """Equal for pods of a namespace that wait for its quotas together: if the first in the order is refused, so are
    the others."""
    unschedulable: str = ""
    """kube-scheduler's words, if the pod may be another driver's alone, so that it is said to be Unschedulable as if it
    had no gate of ours; "" if it is not."""
    nowhere: PodRefusal | None = None
    """A member of the pod's gang that no node takes, even without the others. Why, is told as to a single pod."""

    def __post_init__(self) -> None:
        # Users write parts of it, and each pod of a claim gets it in its condition, its Event and the log.
        object.__setattr__(self, "message", bounded(self.message))


@dataclass(frozen=True, slots=True)
class LetGo:
    """The pod needs no devices of our driver: remove our gate if the pod has it, and end our condition."""


@dataclass(frozen=True, slots=True)
class PlacePod:
    """Give the pod these devices on this node, then remove our gate if the pod has it."""

    node: str
    allocations: tuple[tuple[str, Allocation], ...] = ()
    """Claim keys, and the allocation of each; the claims are also reserved for the pod."""
    reserve: tuple[str, ...] = ()
    """Claims that are allocated already and must be reserved for the pod."""
    shape: Hashable = None
    """As ``PodQuestion.shape``."""
    outdates_verdict: bool = False
    """True if the pod has a verdict of kube-scheduler, which is old from now on (``PodView.unschedulable``)."""
    revision: Revision = ()
    """Revision of the node (``State.revision_of``), if there are allocations."""
    admit: bool = True
    """True if the pod is let go afterwards. False if it has to wait for other members of its gang."""
    sharers: tuple[tuple[str, tuple[Consumer, ...]], ...] = ()
    """Keys of claims that are allocated here, each with the other gang members that it is reserved for at once."""


@dataclass(frozen=True, slots=True)
class Release:
    """First step of taking allocations back from a pod that kube-scheduler may be binding: drop its reservations."""

    claims: tuple[str, ...]
    node: str
    unbound: bool = False
    """True if nobody has bound the pod for long; then it gets no devices for a while."""


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Clear the allocations of these claims."""

    claims: tuple[str, ...]
    node: str
    message: str
    unschedulable: bool = False
    """True if kube-scheduler does not bind the pod there; then the node counts as refused."""
    verdict: str = ""
    """kube-scheduler's message in that case."""
    unbound: bool = False
    """As of the ``Release`` that came before."""
    revision: Revision = ()
    """Revision of the node (``State.revision_of``)."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that has to go, or is going.

    Attributes:
        claims: keys of its claims that are free when it and the others are gone.
        gang: key of its gang; "" for none.
    """

    pod: str
    uid: str
    node: str
    priority: int
    claims: tuple[str, ...] = ()
    gang: str = ""


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """Keep a place for the pod that others hold, and evict one of them; or wait until those that were told to end."""

    place: KeptPlace
    victim: Victim | None = None
    """The pod to evict now; None if all that have to go were told to."""
    awaited: tuple[str, ...] = ()
    """Keys of pods that are being deleted, and that the place waits for."""
    victims: tuple[str, ...] = ()
    """Keys of all pods that are yet to be evicted."""
    party: tuple[Victim, ...] = ()
    """The pods of which the API server has to say first that they may be evicted; none if one goes alone."""


@dataclass(frozen=True, slots=True)
class FreeClaim:
    """Clear the allocation of a claim that nobody uses."""

    message: str


Decision = Idle | Wait | PodRefusal | LetGo | PlacePod | Release | TakeBack | MakeRoom
ClaimDecision = Idle | Wait | FreeClaim


def is_recorded(state: State, pod: PodView, node: str) -> bool:
    """Return whether the pod says itself that room is made for it on the node."""
    known, gated = pod.allocated, state.names.gate in pod.gates
    says = known is not None and (known.status, known.reason) == ("False", Reason.PREEMPTING.value)
    return gated and says and pod.nominated == node


@dataclass(frozen=True, slots=True)
class GangDecision:
    """The decisions about all members of a gang.

    Attributes:
        members: by key, in the order in which it is carried out.
        lacking: members that wait for room, one for each shape.
        after: seconds after which the gang is decided again although nothing has changed; None if only a change helps.
        decided: False if the search for a domain ended before everything was tried, so a longer one may find one.
    """

    members: Mapping[str, Decision]
    lacking: tuple[PodRefusal, ...] = ()
    after: float | None = None
    decided: bool = True
    plan: GangPlan | None = None
    """The places of members that had none yet, and of members that do not exist yet."""
    asked: Gang | None = None
    """The gang as a place was looked for; None if none was."""
    refusal: Refusal[TriedDomains] | None = None
    """The reason why no domain takes the gang."""
    started: bool = False
    """True if as many members have or get their place as have to start."""

    @property
    def makes_room(self) -> bool:
        """Whether others are evicted for members, or have been told to end."""
        return any(isinstance(one, MakeRoom) for one in self.members.values())


# What a decision changes in claims


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
