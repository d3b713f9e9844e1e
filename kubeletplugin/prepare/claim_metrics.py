"""The metrics about prepared claims: how many there are, and which card each device of them is on."""

from collections.abc import Mapping
from dataclasses import dataclass

from driver.observe import Metrics
from kubeletplugin.prepare.checkpoint import Checkpoint

Labels = tuple[str, str, str, str]
"""Namespace and name of a claim, a device of it, and the uuid of the card."""


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A prepared claim, for whoever shows more of it."""

    namespace: str
    name: str
    cards: Mapping[str, str]
    """Uuids of cards by device."""


class ClaimMetrics:
    """Shows the claims of a checkpoint. The caller holds the lock of the checkpoint.

    Args:
        named: whether each device is shown with the name of its claim, which everybody who may read metrics sees.

    Attributes:
        claims: the claims that were shown last, by uid. It is replaced, never changed.
    """

    def __init__(self, metrics: Metrics, *, named: bool):
        self._claims = metrics.gauge("prepared_claims", "Claims that are prepared on this node.")
        self._devices = metrics.gauge(
            "claim_device_info",
            "1 for each device of a prepared claim, with the uuid of its card.",
            "claim_namespace",
            "claim",
            "device",
            "uuid",
        )
        self._named = named
        self.claims: Mapping[str, NamedClaim] = {}
        self._shown: frozenset[Labels] = frozenset()

    def show(self, checkpoint: Checkpoint) -> None:
        """Show the claims that are prepared, or are being prepared; no others any more."""
        claims = [claim for claim in checkpoint.claims.values() if claim.state != "stopping"]
        self._claims.set(len(claims))
        self.claims = {
            claim.plan.ref.uid: NamedClaim(claim.plan.ref.namespace, claim.plan.ref.name, claim.cards)
            for claim in claims
        }
        if not self._named:
            return
        found = frozenset(
            (claim.plan.ref.namespace, claim.plan.ref.name, result.device.device, uuid)
            for claim in claims
            for result in claim.plan.results
            if (uuid := claim.cards.get(result.device.device))
        )
        for labels in self._shown - found:
            self._devices.remove(*labels)
        for labels in found - self._shown:
            self._devices.labels(*labels).set(1)
        self._shown = found
