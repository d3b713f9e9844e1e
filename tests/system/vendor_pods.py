"""Pods of the histories on vendors' libraries."""

from dataclasses import dataclass, field
from typing import Literal

from kubeletplugin.prepare import ClaimRef
from tests.system.vendor_machines import Existing

PodState = Literal["pending", "running", "ended"]


@dataclass(slots=True)
class Pod:
    """A pod with one claim for one device."""

    ref: ClaimRef
    device: str
    strategy: str
    fits: bool
    """Whether what was offered then had room for it beside the other claims."""
    state: PodState = "pending"
    allocated: bool = True
    """Whether the API knows the claim."""
    has: Existing = field(default_factory=dict)
    """What its containers have on the cards: which one it is, by the key of its action."""

    def excludes(self, other: "Pod") -> bool:
        """Whether the two cannot have their devices at once."""
        (card, part), (others, others_part) = parts_of(self.device), parts_of(other.device)
        if card != others:
            return False
        if part == others_part == "share":
            return (self.strategy == "mps") != (other.strategy == "mps")
        return part == others_part or "" in (part, others_part) or "share" in (part, others_part)


def parts_of(device: str) -> tuple[str, str]:
    """The card of a device, and the part of it; "" for all."""
    unit, number, *rest = device.split("-")
    return f"{unit}-{number}", "-".join(rest)
