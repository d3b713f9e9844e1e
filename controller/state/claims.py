"""Claims by key, and the consumer of a claim that a pod uses: the pod itself, or its PodGroup. Pure."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.membership import Group, GroupObjects, Source
from controller.state.pods import PodView
from driver.errors import LodeError
from driver.kube.api import Object
from driver.kube.codec import size_of
from driver.model import Allocation, Claim, Consumer
from driver.wire import claim_from
from driver.wire.fields import text


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim."""

    claim: Claim
    shape: str
    """Equal for claims with equal specs."""
    created: str = ""
    """``metadata.creationTimestamp``."""
    size: int = 0
    """Bytes of its JSON and, once more, of its parameters; 0 if it is allocated."""


def record_from(obj: Object) -> ClaimRecord:
    """Return the record of a ResourceClaim object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    claim = claim_from(obj)
    shape, created = _shape(obj["spec"], claim), text(obj["metadata"].get("creationTimestamp"))
    parameters = (obj["spec"].get("devices") or {}).get("config") or ()
    size = 0 if claim.allocation else size_of(obj) + (size_of(parameters) if parameters else 0)
    return ClaimRecord(claim, shape, created, size)


def held_record_from(obj: Object, problem: str) -> ClaimRecord:
    """Return the record of a ResourceClaim that cannot be decoded: its devices and its consumers.

    A device counts as held if it is named, even if nothing else of the result can be decoded.

    Raises:
        LodeError, AttributeError, KeyError, TypeError, ValueError: that cannot be decoded either.
    """
    bare: Object = {"metadata": obj["metadata"], "spec": {}, "status": obj.get("status")}
    try:
        claim = claim_from(bare)
    except (LodeError, AttributeError, LookupError, TypeError, ValueError):
        claim = claim_from({**bare, "status": _named_only(obj["status"])})
    return ClaimRecord(replace(claim, problem=problem), f"unreadable {obj['metadata'].get('uid')}")


def _named_only(status: Object) -> Object:
    allocation = status["allocation"]
    results = [
        {name: result[name] for name in ("driver", "pool", "device")} | {"request": str(result.get("request"))}
        for result in allocation["devices"]["results"]
    ]
    return {"allocation": {"devices": {"results": results}, "nodeSelector": allocation.get("nodeSelector")}}


def _shape(spec: Object, claim: Claim) -> str:
    """Return the shape of a spec. Parameters that nest too deeply for an encoder are replaced by their problem."""
    if any(entry.problem for entry in claim.spec.config):
        config = [
            [entry.driver, entry.requests, entry.problem] if entry.problem else raw
            for entry, raw in zip(claim.spec.config, spec["devices"]["config"], strict=True)
        ]
        spec = {**spec, "devices": {**spec["devices"], "config": config}}
    return json.dumps(spec, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Promise:
    """A decision to give something to a claim. It counts until the write is known to have failed."""

    uid: str
    """Uid of the claim."""
    consumers: tuple[Consumer, ...]
    allocation: Allocation | None = None
    """None if an allocated claim is only reserved for more consumers."""

    def applied_to(self, claim: Claim) -> Claim:
        """Return the claim as it will be. The API goes first: an allocated claim keeps its allocation."""
        if claim.uid != self.uid:
            return claim
        if self.allocation is not None:
            if claim.allocation is not None:
                return claim
            return replace(claim, allocation=self.allocation, reserved_for=self.consumers)
        more = tuple(consumer for consumer in self.consumers if consumer not in claim.reserved_for)
        if claim.allocation is None or not more:
            return claim
        return replace(claim, reserved_for=(*claim.reserved_for, *more))


class Claims(Mapping[str, ClaimRecord]):
    """All claims by key (``namespace/name``), as they will be once every promise is written."""

    def __init__(self) -> None:
        self._claims: dict[str, ClaimRecord] = {}
        self._written: dict[str, Claim] = {}
        """The claims with a promise, as the API has them."""
        self._promises: dict[str, Promise] = {}
        self._by_pool: dict[tuple[str, str], dict[str, None]] = {}
        """Keys of the claims that hold devices of a pool, by driver and pool."""

    def __getitem__(self, key: str) -> ClaimRecord:
        return self._claims[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def upsert(self, record: ClaimRecord) -> tuple[Claim | None, Claim]:
        """Add or replace a claim; return it as it was before, None if it was not known, and as it is now."""
        key = record.claim.key
        before = self._claims.get(key)
        if promise := self._promises.get(key):
            self._written[key] = record.claim
            record = replace(record, claim=promise.applied_to(record.claim))
        self._set(key, record)
        return before.claim if before else None, record.claim

    def remove(self, key: str) -> Claim | None:
        """Remove a claim and return it; None if it is not known."""
        before = self._claims.get(key)
        self._set(key, None)
        self._written.pop(key, None)
        return before.claim if before else None

    def promise(self, key: str, promise: Promise) -> tuple[Claim, Claim] | None:
        """Count a promise to a claim; return the claim before and after, None if it is not known."""
        self._promises[key] = promise
        record = self._claims.get(key)
        if record is None:
            return None
        written = self._written.setdefault(key, record.claim)
        return self._replace(key, record, promise.applied_to(written))

    def end_promise(self, key: str) -> tuple[Claim, Claim] | None:
        """End the promise to a claim; return the claim before and after, None if it is not known."""
        self._promises.pop(key, None)
        written, record = self._written.pop(key, None), self._claims.get(key)
        return None if written is None or record is None else self._replace(key, record, written)

    @property
    def promised(self) -> tuple[str, ...]:
        """Return the keys of the claims with a promise."""
        return tuple(self._promises)

    @property
    def pools(self) -> Iterable[tuple[str, str]]:
        """The pools (driver and name) of which claims hold devices."""
        return self._by_pool.keys()

    def holding(self, driver: str, pool: str) -> Collection[str]:
        """Return the keys of the claims that hold devices of the pool."""
        return self._by_pool.get((driver, pool), ())

    def _replace(self, key: str, record: ClaimRecord, claim: Claim) -> tuple[Claim, Claim]:
        self._set(key, replace(record, claim=claim))
        return record.claim, claim

    def _set(self, key: str, record: ClaimRecord | None) -> None:
        before = _pools_of(self._claims.get(key))
        if record is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = record
        after = _pools_of(record)
        for pool in before - after:
            holders = self._by_pool[pool]
            del holders[key]
            if not holders:
                del self._by_pool[pool]
        for pool in after - before:
            self._by_pool.setdefault(pool, {})[key] = None


def _pools_of(record: ClaimRecord | None) -> set[tuple[str, str]]:
    """Yield the driver and pool of each device that the claim holds."""
    allocation = record.claim.allocation if record else None
    return {(result.device.driver, result.device.pool) for result in allocation.results} if allocation else set()


def holds_devices_of(claim: Claim, drivers: Collection[str]) -> bool:
    """Return whether the claim's allocation contains a device of one of the drivers."""
    results = claim.allocation.results if claim.allocation else ()
    return any(result.device.driver in drivers for result in results)


POD_GROUPS: Final = ("scheduling.k8s.io", "podgroups")
"""API group and resource of a PodGroup in ``status.reservedFor``."""


def consumer_of(pod: PodView, claim: str, groups: GroupObjects) -> Consumer:
    """Return the consumer that the claim (``namespace/name``) is reserved for when the pod uses it.

    It is the pod's PodGroup of ``scheduling.k8s.io`` if an entry of the group's ``spec.resourceClaims`` has the same
    name and the same claim or template as the pod's entry; else the pod (scheduling/v1beta1 PodGroupSpec).
    """
    group = _group_of(pod, groups)
    if group is not None and any(
        f"{pod.namespace}/{one.claim}" == claim and (one.entry, one.template or one.claim) in group.claims
        for one in pod.references
    ):
        api_group, resource = POD_GROUPS
        return Consumer(resource, group.key.partition("/")[2], group.uid, api_group)
    return Consumer("pods", pod.name, pod.uid)


def is_made_for(claim: Claim, consumer: Consumer) -> bool:
    """Return whether the claim was created from a template for this pod or PodGroup."""
    if consumer.resource == "pods":
        return claim.owner_pod_uid == consumer.uid
    return claim.owner_pod_group_uid == consumer.uid


def _group_of(pod: PodView, groups: GroupObjects) -> Group | None:
    named = pod.gang.groups if pod.gang is not None else ()
    name = next((group.name for group in named if group.source is Source.POD_GROUP), "")
    return groups.group(Source.POD_GROUP, f"{pod.namespace}/{name}") if name else None
