"""The values the controller's state is made of. Pure."""

from dataclasses import dataclass, field

from controller.allocation import Unsatisfiable
from driver.kube.api import Object
from driver.model import Claim, DeviceClass


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why one node does not take a pod: predicates, or else its devices."""

    reasons: tuple[str, ...] = ()
    devices: Unsatisfiable | None = None
    claims: tuple[str, ...] = ()
    """Keys of the claims ``devices`` speaks of; a refusal also holds for other claims with equal specs."""


Refusals = dict[str, tuple[tuple[int, int], NodeRefusal]]
"""Node name to the versions (of everything, of the node) at which it refused, and why."""


@dataclass(slots=True)
class Changes:
    """What has to be looked at again after a change."""

    pods: dict[str, None] = field(default_factory=dict)
    """Keys, in order."""
    claims: dict[str, None] = field(default_factory=dict)
    freed: bool = False
    """Whether a pod that could not be placed before might be now."""
    unreadable: list[str] = field(default_factory=list)
    """Objects that cannot be understood, and why; they are left out."""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim as the API wrote it and as a value."""

    raw: Object
    claim: Claim
    shape: str
    """Equal for claims with equal specs."""


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A device class, and whether it selects devices of our driver."""

    value: DeviceClass
    ours: bool
    extended_resource: str
