"""What the node remembers of the claims it prepared, as bytes. Pure.

First line: kind, version and the SHA-256 of everything after that line, so that the checksum is of what is stored and
not of what one version of this program would write. Fields that this version does not know are kept, at the top and in
each claim, so that a newer and an older version can take turns. A change that an older version must not misread gets
a new ``VERSION``.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from driver.errors import LodeError, OperatorFault
from driver.model import Allocation
from driver.wire import allocation_from, allocation_to
from kubeletplugin.inventory import Facts
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import Plan

VERSION = 1
_KIND = "LodeCheckpoint"
_FACTS = {"ibCluster": "ib_cluster", "ibLeaf": "ib_leaf", "rail": "rail"}
_CLAIM_FIELDS = {"state", "bootId", "namespace", "name", "podClaimName", "facts", "allocation"}

State = Literal["started", "completed"]
"""``started``: files may be missing or half there, the kubelet was told nothing. ``completed``: all is in place."""


class CorruptCheckpoint(LodeError):
    """The bytes are not what was written. We rebuild from the API; nobody else needs to act."""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """One claim: what it was prepared with, how far, and in which life of the machine."""

    plan: Plan
    state: State
    boot_id: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields written by a newer version."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All claims by uid."""

    claims: Mapping[str, ClaimRecord] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields written by a newer version."""

    def having(self, record: ClaimRecord) -> "Checkpoint":
        """With ``record`` in the place of what was known of its claim."""
        return replace(self, claims={**self.claims, record.plan.ref.uid: record})

    def without(self, *uids: str) -> "Checkpoint":
        """Without these claims."""
        return replace(self, claims={uid: record for uid, record in self.claims.items() if uid not in uids})


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's content."""
    claims = {uid: _claim_to(record) for uid, record in checkpoint.claims.items()}
    body = json.dumps({**checkpoint.extra, "claims": claims}).encode() + b"\n"
    header = {"kind": _KIND, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(header).encode() + b"\n" + body


def decode(data: bytes, path: str) -> Checkpoint:
    """The checkpoint stored in ``data``, which was read from ``path``.

    Raises:
        CorruptCheckpoint: cut short, altered, or no checkpoint.
        OperatorFault: written by a version newer than this one can read.
    """
    first, _, body = data.partition(b"\n")
    try:
        header = json.loads(first)
        kind, version, checksum = header["kind"], int(header["version"]), header["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptCheckpoint(f"{path}: the first line is no checkpoint header") from error
    if kind == _KIND and version > VERSION:
        raise OperatorFault(
            f"{path}: version {version} was written by a newer kubelet plugin, this one reads up to {VERSION}. "
            "Run the newer plugin again; or, to stay with this one, drain the node and remove the file."
        )
    if kind != _KIND or checksum != hashlib.sha256(body).hexdigest():
        raise CorruptCheckpoint(f"{path}: the content does not match its checksum")
    try:
        raw = json.loads(body)
        claims = {uid: _claim_from(uid, claim) for uid, claim in raw.pop("claims").items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptCheckpoint(f"{path}: the content cannot be understood: {error!r}") from error
    return Checkpoint(claims, raw)


def _claim_to(record: ClaimRecord) -> dict[str, Any]:
    plan = record.plan
    return {
        **record.extra,
        "state": record.state,
        "bootId": record.boot_id,
        "namespace": plan.ref.namespace,
        "name": plan.ref.name,
        "podClaimName": plan.pod_claim_name,
        "facts": {name: getattr(plan.facts, field_name) for name, field_name in _FACTS.items()},
        "allocation": allocation_to(Allocation(plan.results)),
    }


def _claim_from(uid: str, raw: dict[str, Any]) -> ClaimRecord:
    if raw["state"] not in ("started", "completed"):
        raise ValueError(f"state {raw['state']!r} of claim {uid}")
    facts = Facts(**{field_name: raw["facts"][name] for name, field_name in _FACTS.items()})
    results = allocation_from(raw["allocation"]).results
    plan = Plan(ClaimRef(raw["namespace"], raw["name"], uid), results, raw["podClaimName"], facts)
    extra = {name: value for name, value in raw.items() if name not in _CLAIM_FIELDS}
    return ClaimRecord(plan, raw["state"], raw["bootId"], extra)
