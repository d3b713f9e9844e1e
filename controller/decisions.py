"""What can be decided about a pod or a claim, as values that ``controller.loop`` carries out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.model import Allocation


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something about the pod or its claims changes."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The pod cannot go on for now. Tried again when capacity is freed, and after a back-off."""

    reason: str
    """CamelCase, for the condition and metrics."""
    message: str
    claims: tuple[str, ...] = ()
    """Keys of claims that are at fault themselves; they get an Event of their own."""
    quiet: bool = False
    """Nothing a user must know."""
    after: float | None = None
    """Seconds after which to look again; None leaves it to the back-off."""


@dataclass(frozen=True, slots=True)
class Unallocatable:
    """No node takes the pod now. Why is found by ``controller.reconcile.refusals`` only when it is going to be said."""

    pod: str
    """Key."""
    claims: tuple[str, ...]
    """Keys of the claims that want devices."""
    avoided: frozenset[str] = frozenset()
    """Nodes that kube-scheduler refused the pod on not long ago."""
    after: float | None = None
    """As in ``Wait``."""


@dataclass(frozen=True, slots=True)
class Lift:
    """The pod needs nothing of ours: remove our gate."""


@dataclass(frozen=True, slots=True)
class Place:
    """Give the pod these devices on this node, then remove our gate if it is there."""

    node: str
    allocations: tuple[tuple[str, Allocation], ...] = ()
    """Claim key and what it gets; also reserved for the pod."""
    reserve: tuple[str, ...] = ()
    """Claims allocated already that are not reserved for the pod yet."""


@dataclass(frozen=True, slots=True)
class Release:
    """First half of taking an allocation back from a pod that kube-scheduler refuses: drop the pod's reservation."""

    claims: tuple[str, ...]
    node: str


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Clear the allocations of these claims."""

    claims: tuple[str, ...]
    node: str
    message: str
    refused: bool = False
    """Whether because kube-scheduler refused the pod; then the node is avoided for a while."""


@dataclass(frozen=True, slots=True)
class Free:
    """Clear the allocation of a claim that nobody uses."""

    message: str


Decision = Idle | Wait | Unallocatable | Lift | Place | Release | TakeBack
ClaimDecision = Idle | Wait | Free


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered about a pod between decisions. Losing it costs a retry, never correctness."""

    refusals: int = 0
    """How often kube-scheduler refused it where it was put."""
    avoid: Mapping[str, float] = field(default_factory=dict)
    """Node to the time (epoch seconds) until which it is not tried."""
    released: float | None = None
    """When (epoch seconds) the pod's reservation was dropped because of a refusal."""
