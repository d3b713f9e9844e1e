"""What can be decided about a pod or a claim, as values. Pure."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.state import Revision
from driver.limits import bounded
from driver.model import Allocation, Consumer


class Reason(StrEnum):
    """Why a pod or claim waits: the reason of conditions and Events, and a label value of metrics."""

    AMBIGUOUS_CLASS = "AmbiguousClass"
    BOUND_WITHOUT_DEVICES = "BoundWithoutDevices"
    CLAIM_DELETING = "ClaimDeleting"
    CLAIM_FULL = "ClaimFull"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
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
    OTHER_GATES = "OtherGates"
    PREEMPTING = "Preempting"
    REFUSED = "Refused"
    UNALLOCATABLE = "Unallocatable"
    UNKNOWN_CLASS = "UnknownClass"
    UNREADABLE = "Unreadable"
    UNUSED = "Unused"
    WRITE_REFUSED = "WriteRefused"


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something about the pod or its claims changes."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The pod cannot be placed now. It is tried again when capacity is freed, and after a back-off."""

    reason: Reason
    message: str
    claims: tuple[str, ...] = ()
    """Keys of claims that are at fault themselves; each gets an Event, too."""
    report: bool = True
    """Whether the pod gets a condition and an Event; False for what passes without anybody acting."""
    after: float | None = None
    """Seconds after which to try again; None leaves it to the back-off."""

    def __post_init__(self) -> None:
        # Users write parts of it, and each pod of a claim gets it in its condition, its Event and the log.
        object.__setattr__(self, "message", bounded(self.message))


@dataclass(frozen=True, slots=True)
class Unallocatable:
    """No node takes the pod now. ``ask_all`` finds the reasons, which is costly, when they are reported."""

    pod: str
    """Key."""
    claims: tuple[str, ...]
    """Keys of the claims that need devices: ours, then those of other drivers that the node must fit, too."""
    shape: Hashable = None
    """Equal for pods that the same nodes refuse for the same reasons: equal needs, and claims with equal specs."""
    by_every_node: bool = False
    """Whether every node refuses every pod of this shape, until something changes."""
    own: bool = False
    """Whether the answer is about this pod alone: kube-scheduler refused it somewhere, or its claims name nodes."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are not tried because kube-scheduler refused the pod there, and its message."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are not tried because they are held back for a pod that comes first, and that pod."""
    after: float | None = None
    """As in ``Wait``."""
    bound_to: str = ""
    """The node that the pod is bound to already, and cannot leave; "" for none."""
    lenient: bool = False
    """Whether a node may help that does not take the pod itself, so that only deciding can tell."""

    @property
    def reason(self) -> Reason:
        """Why the pod waits."""
        return Reason.BOUND_WITHOUT_DEVICES if self.bound_to else Reason.UNALLOCATABLE

    @property
    def group(self) -> Hashable:
        """Equal for pods that wait together: if the first in the order is refused, so are the others."""
        return (self.shape, self.pod) if self.own else self.shape


@dataclass(frozen=True, slots=True)
class LetGo:
    """The pod needs no devices of our driver: remove our gate."""


@dataclass(frozen=True, slots=True)
class PlacePod:
    """Give the pod these devices on this node, then remove our gate if the pod has it."""

    node: str
    allocations: tuple[tuple[str, Allocation], ...] = ()
    """Claim keys, and the allocation of each; the claims are also reserved for the pod."""
    reserve: tuple[str, ...] = ()
    """Claims that are allocated already and must be reserved for the pod."""
    shape: Hashable = None
    """As in ``Unallocatable``."""
    outdates_verdict: bool = False
    """Whether the pod has a verdict of kube-scheduler that this allocation makes old (``PodView.unschedulable``)."""
    revision: Revision = ()
    """Of the node (``State.revision_of``), if there are allocations."""
    admit: bool = True
    """Whether the pod is let go when that is written; not if it has to wait for other members of its gang."""
    sharers: tuple[tuple[str, tuple[Consumer, ...]], ...] = ()
    """Keys of claims that are allocated here, and the other members of the gang that each is reserved for at once."""


@dataclass(frozen=True, slots=True)
class Release:
    """First step of taking allocations back from a pod that kube-scheduler may be binding: drop its reservations."""

    claims: tuple[str, ...]
    node: str


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Clear the allocations of these claims."""

    claims: tuple[str, ...]
    node: str
    message: str
    unschedulable: bool = False
    """Whether the reason is that kube-scheduler does not bind the pod there; then the node counts as refused."""
    verdict: str = ""
    """kube-scheduler's message in that case."""
    revision: Revision = ()
    """Of the node (``State.revision_of``)."""


@dataclass(frozen=True, slots=True)
class FreeClaim:
    """Clear the allocation of a claim that nobody uses."""

    message: str


Decision = Idle | Wait | Unallocatable | LetGo | PlacePod | Release | TakeBack
ClaimDecision = Idle | Wait | FreeClaim
