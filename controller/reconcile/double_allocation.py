"""Finds claims that together hold more than there is. It never happens while only this controller allocates. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from controller.reconcile.othernames import named_within
from controller.state import State, epoch_seconds
from driver.model import Claim

SETTLING_SECONDS = 5.0
"""Least time that a double use must last: a claim may be read ahead of the watch that reports another's end."""


@dataclass(frozen=True, slots=True)
class DoubleUse:
    """A claim with devices that older claims hold, too."""

    claim: str
    """Key of the youngest claim. It has to give its devices back."""
    rivals: tuple[str, ...]
    """Keys of the other claims."""
    what: str
    """The device or counter of which more is held than there is."""
    settled_at: float
    """Time (as of ``State.at``) from which the claim has to act."""

    def message(self, reader: str) -> str:
        """Return the text for the author of the claim ``reader``. Claims of other namespaces are not named."""
        namespace = reader.split("/")[0]
        others = [key for key in (self.claim, *self.rivals) if key != reader]
        named = ", ".join(named_within(others, {namespace}, "claim"))
        return f"{self.what} is also held by ResourceClaims: {named}; another program has allocated it"


def double_use(state: State, key: str) -> DoubleUse | None:
    """Return the double use in which the claim ``key`` is the youngest claim; None if there is none."""
    record = state.claims.get(key)
    if record is None or not state.holds_ours(record.claim):
        return None
    rivals = _rivals(state, record.claim)
    if rivals and state.rooms:
        # What is kept for a pod counts beside what its victims hold.
        with state.rooms.ignored():
            rivals = _rivals(state, record.claim)
    if not rivals or any(_age(state.claims[name].claim) > _age(record.claim) for name in rivals):
        return None
    allocation = record.claim.allocation
    settled_at = state.at(allocation.timestamp if allocation else "") + SETTLING_SECONDS
    return DoubleUse(key, tuple(sorted(rivals)), min(rivals.values()), settled_at)


def _rivals(state: State, claim: Claim) -> Mapping[str, str]:
    """Return the claims (by key) that together with this one hold more than there is, and what it is."""
    return {name: what for name, what in state.devices.conflicting_claims(claim).items() if name in state.claims}


def _age(claim: Claim) -> tuple[bool, float, str]:
    """Return a key that is larger for a younger allocation.

    One without a time stamp, which only another program writes, is the youngest.
    """
    stamp = claim.allocation.timestamp if claim.allocation else ""
    return not stamp, epoch_seconds(stamp), claim.uid
