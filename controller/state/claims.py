"""Claims by key. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from driver.kube.api import Object
from driver.model import Allocation, Claim, Consumer
from driver.wire import claim_from


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim."""

    claim: Claim
    shape: str
    """Equal for claims with equal specs."""


def record_from(obj: Object) -> ClaimRecord:
    """The record of a ResourceClaim object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    return ClaimRecord(claim_from(obj), json.dumps(obj["spec"], sort_keys=True))


@dataclass(frozen=True, slots=True)
class Promise:
    """What was decided to give to a claim. It counts from then on, until the write is known to have failed."""

    uid: str
    """Of the claim."""
    consumer: Consumer
    allocation: Allocation | None = None
    """None if an allocated claim is only reserved for one more consumer."""

    def applied_to(self, claim: Claim) -> Claim:
        """The claim as it will be. What the API says goes first: an allocated claim keeps its allocation."""
        if claim.uid != self.uid:
            return claim
        if self.allocation is not None:
            if claim.allocation is not None:
                return claim
            return replace(claim, allocation=self.allocation, reserved_for=(self.consumer,))
        if claim.allocation is None or self.consumer in claim.reserved_for:
            return claim
        return replace(claim, reserved_for=(*claim.reserved_for, self.consumer))


class Claims(Mapping[str, ClaimRecord]):
    """All claims by key (``namespace/name``), as they will be once everything that was promised is written."""

    def __init__(self) -> None:
        self._claims: dict[str, ClaimRecord] = {}
        self._written: dict[str, Claim] = {}
        """As the API has them, the claims to which something was promised."""
        self._promises: dict[str, Promise] = {}

    def __getitem__(self, key: str) -> ClaimRecord:
        return self._claims[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def put(self, record: ClaimRecord) -> tuple[Claim | None, Claim]:
        """Add or replace a claim; returns it as it was before, None if it was not known, and as it is now."""
        key = record.claim.key
        before = self._claims.get(key)
        if promise := self._promises.get(key):
            self._written[key] = record.claim
            record = replace(record, claim=promise.applied_to(record.claim))
        self._claims[key] = record
        return before.claim if before else None, record.claim

    def remove(self, key: str) -> Claim | None:
        """Remove a claim and return it; None if it is not known."""
        before = self._claims.pop(key, None)
        self._written.pop(key, None)
        return before.claim if before else None

    def promise(self, key: str, promise: Promise) -> tuple[Claim, Claim] | None:
        """Count what is promised to a claim; returns it before and after, None if it is not known."""
        self._promises[key] = promise
        record = self._claims.get(key)
        if record is None:
            return None
        written = self._written.setdefault(key, record.claim)
        return self._replace(key, record, promise.applied_to(written))

    def end_promise(self, key: str) -> tuple[Claim, Claim] | None:
        """Count only what the API says about a claim; returns it before and after, None if it is not known."""
        self._promises.pop(key, None)
        written, record = self._written.pop(key, None), self._claims.get(key)
        return None if written is None or record is None else self._replace(key, record, written)

    @property
    def promised(self) -> tuple[str, ...]:
        """Keys of the claims to which something is promised."""
        return tuple(self._promises)

    def _replace(self, key: str, record: ClaimRecord, claim: Claim) -> tuple[Claim, Claim]:
        self._claims[key] = replace(record, claim=claim)
        return record.claim, claim


def holds_devices_of(claim: Claim, driver: str) -> bool:
    """Whether the claim's allocation contains a device of the driver."""
    results = claim.allocation.results if claim.allocation else ()
    return any(result.device.driver == driver for result in results)
