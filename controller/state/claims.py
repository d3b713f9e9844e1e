"""Claims by key. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from driver.kube.api import Object
from driver.model import Claim
from driver.wire import claim_from


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim as the API returned it and as a value."""

    raw: Object
    claim: Claim
    shape: str
    """Equal for claims with equal specs."""


def record_from(obj: Object) -> ClaimRecord:
    """The record of a ResourceClaim object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return ClaimRecord({**obj, "metadata": metadata}, claim_from(obj), json.dumps(obj["spec"], sort_keys=True))


class Claims(Mapping[str, ClaimRecord]):
    """All claims by key (``namespace/name``)."""

    def __init__(self) -> None:
        self._claims: dict[str, ClaimRecord] = {}

    def __getitem__(self, key: str) -> ClaimRecord:
        return self._claims[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def put(self, record: ClaimRecord) -> Claim | None:
        """Add or replace a claim; returns it as it was before, None if it was not known."""
        before = self._claims.get(record.claim.key)
        self._claims[record.claim.key] = record
        return before.claim if before else None

    def remove(self, key: str) -> Claim | None:
        """Remove a claim and return it; None if it is not known."""
        before = self._claims.pop(key, None)
        return before.claim if before else None


def holds_devices_of(claim: Claim, driver: str) -> bool:
    """Whether the claim's allocation contains a device of the driver."""
    results = claim.allocation.results if claim.allocation else ()
    return any(result.device.driver == driver for result in results)
