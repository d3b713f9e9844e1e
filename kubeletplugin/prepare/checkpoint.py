"""The checkpoint of the claims prepared on a node, as bytes. Pure.

The first line has the kind, the version and the SHA-256 of all bytes after that line. Each claim is decoded on its own,
so a damaged one does not affect the others. Unknown fields are kept, at the top and in each claim while it keeps its
devices, so that a newer and an older version can run in turn. A change that an older version must not misread gets a
new ``VERSION``. Checkpoints of older versions are read, and rewritten at the first write.

Version 2: claims have the field ``cards``. Version 3: claims have ``steps``, the config of their allocation, and may be
``stopping``. An older version would forget what exists on the hardware, so it does not read version 3.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from driver.errors import SENSELESS, InvalidInput, LodeError, OperatorFault
from driver.kube.codec import encode_object, encoded_once
from driver.model import Allocation
from driver.wire import allocation_from, allocation_to
from kubeletplugin.hardware.actions import Action, Handle, action_from, action_to
from kubeletplugin.inventory import Fabric
from kubeletplugin.offers import Recorded
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

VERSION = 3
_NO_VERSION = 1000
_KIND = "LodeCheckpoint"
_FABRIC_FIELDS = {"ibCluster": "ib_cluster", "ibLeaf": "ib_leaf", "rail": "rail"}
_PLAN_FIELDS = {"namespace", "name", "podClaimName", "facts", "allocation"}
_CLAIM_FIELDS = {"state", "bootId", "cards", "steps", "guessed", *_PLAN_FIELDS}

State = Literal["started", "completed", "stopping"]
"""``started``: the kubelet has no answer yet, and files may be missing. ``completed``: all files are written.
``stopping``: the claim is given up; its files are removed, and then its steps are undone."""


_UNREADABLE = (InvalidInput, *SENSELESS)
"""Errors that content raises if no version of this program wrote it."""


class CorruptCheckpoint(LodeError):
    """The file, or a claim in it, is damaged. The plugin rebuilds it; nobody else must act."""

    def __init__(self, message: str, left: "Checkpoint | None" = None):
        super().__init__(message)
        self.left = left or Checkpoint()
        """The claims that can be read."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the hardware that a claim needs."""

    action: Action
    handle: Handle | None = None
    """The answer of the hardware; None if the action may not have been carried out."""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """One claim: its plan, how far it was prepared, and during which boot of the machine."""

    plan: ClaimPlan
    state: State
    boot_id: str
    cards: Mapping[str, str] = field(default_factory=dict)
    """The uuid of the card behind each device, by the device's name. Empty if version 1 wrote the claim."""
    steps: tuple[Step, ...] = ()
    """The steps, in the order in which they are carried out."""
    guessed: bool = False
    """Whether the record was lost and rebuilt from the claim's metadata files, which name its devices but not their
    use. Its files stay unchanged until the API says it, or it is prepared again. See also ``is_unknown``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields written by a newer version."""

    @classmethod
    def unknown(cls, uid: str, boot_id: str) -> "PreparedClaim":
        """A prepared claim without any record. It may hold any device of the node."""
        return cls(ClaimPlan(ClaimRef("", "", uid), ()), "completed", boot_id, guessed=True)

    @property
    def is_unknown(self) -> bool:
        """Whether only the uid of the claim is known."""
        return self.guessed and not self.plan.results

    @property
    def handles(self) -> dict[str, Handle]:
        """The handles so far, by the key of the action."""
        return {step.action.key: step.handle for step in self.steps if step.handle is not None}

    @property
    def keys(self) -> frozenset[str]:
        """The keys of its actions."""
        return frozenset(step.action.key for step in self.steps)

    @property
    def used_cards(self) -> frozenset[str]:
        """The uuids of the cards that the claim uses, without those that it only monitors (admin access)."""
        names = [result.device.device for result in self.plan.results if not result.admin_access]
        return frozenset(self.cards[name] for name in names if name in self.cards)

    def with_handle(self, key: str, handle: Handle) -> "PreparedClaim":
        """The claim after the action of that key was carried out."""
        steps = tuple(replace(step, handle=handle) if step.action.key == key else step for step in self.steps)
        return replace(self, steps=steps)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All claims by uid."""

    claims: Mapping[str, PreparedClaim] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields written by a newer version."""

    @property
    def recorded(self) -> Recorded:
        """The actions and devices that claims have or may have."""
        claims = self.claims.values()
        held = [
            (claim.cards.get(name := it.device.device), name)
            for claim in claims
            for it in claim.plan.results
            if not it.admin_access
        ]
        return Recorded(
            frozenset(key for claim in claims for key in claim.keys),
            frozenset(name for _, name in held),
            frozenset((uuid, name) for uuid, name in held if uuid is not None),
        )

    @property
    def unknown(self) -> frozenset[str]:
        """The uids of claims of which only the uid is known."""
        return frozenset(uid for uid, claim in self.claims.items() if claim.is_unknown)

    @property
    def to_undo(self) -> "Checkpoint":
        """The claims to undo if the checkpoint is damaged: those with steps, as ``stopping`` and without handles."""

        def given_up(claim: PreparedClaim) -> PreparedClaim:
            # Without handles, because these change with each step that is carried out, and the file would be written
            # each time. The hardware finds the objects by the keys of the actions.
            return replace(claim, state="stopping", steps=tuple(Step(step.action) for step in claim.steps))

        return Checkpoint({uid: given_up(claim) for uid, claim in self.claims.items() if claim.steps})

    def with_claim(self, claim: PreparedClaim) -> "Checkpoint":
        """The checkpoint with ``claim`` added, or replaced if it was there."""
        return replace(self, claims={**self.claims, claim.plan.ref.uid: claim})

    def without(self, *uids: str) -> "Checkpoint":
        """The checkpoint without these claims."""
        return replace(self, claims={uid: claim for uid, claim in self.claims.items() if uid not in uids})

    def only(self, uids: Collection[str]) -> "Checkpoint":
        """The checkpoint with only those of these claims that it has."""
        return replace(self, claims={uid: claim for uid, claim in self.claims.items() if uid in uids})

    def unchanged(self, judged: Mapping[str, PreparedClaim]) -> frozenset[str]:
        """The uids of those claims that are still recorded exactly like this. A claim that was prepared again meanwhile
        is not.
        """
        return frozenset(uid for uid, claim in judged.items() if self.claims.get(uid) == claim)

    def others(self, uid: str) -> tuple[PreparedClaim, ...]:
        """All claims but this one."""
        return tuple(claim for other, claim in self.claims.items() if other != uid)


class Encoder:
    """Encodes successive checkpoints; an unchanged claim is encoded once."""

    def __init__(self) -> None:
        self._encoded: dict[str, tuple[PreparedClaim, object]] = {}

    def encode(self, checkpoint: Checkpoint) -> bytes:
        """The file's content."""
        last, self._encoded = self._encoded, {}
        for uid, claim in checkpoint.claims.items():
            known = last.get(uid)
            # By identity: equal claims may be made anew by every read, and comparing them costs more than encoding
            # them.
            if known is None or known[0] is not claim:
                known = claim, encoded_once(_claim_to(claim))
            self._encoded[uid] = known
        claims = {uid: encoded for uid, (_, encoded) in self._encoded.items()}
        body = encode_object({**checkpoint.extra, "claims": claims}) + b"\n"
        header = {"kind": _KIND, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
        return encode_object(header) + b"\n" + body


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's content."""
    return Encoder().encode(checkpoint)


def decode(data: bytes, path: str) -> Checkpoint:
    """The checkpoint stored in ``data``, which was read from ``path``.

    Raises:
        CorruptCheckpoint: truncated, altered, not a checkpoint, or some of its claims cannot be read.
        OperatorFault: a newer version wrote it, and this one cannot read it.
    """
    first, _, body = data.partition(b"\n")
    try:
        header = json.loads(first)
        kind, version, checksum = header["kind"], _version(header["version"]), header["sha256"]
    except _UNREADABLE as error:
        raise CorruptCheckpoint(f"{path}: the first line is not a checkpoint header") from error
    # Before the checksum: a newer version may compute it in another way, and its claims must not count as damaged, or
    # they would be rebuilt without what only it knows (test_a_checkpoint_of_a_newer_version_is_left_as_it_is).
    if kind == _KIND and version > VERSION:
        raise OperatorFault(
            f"{path}: version: written by a newer kubelet plugin: {version} (this one reads up to {VERSION}); "
            "run the newer plugin again, and drain the node while it runs before you go back to this one"
        )
    if kind != _KIND or checksum != hashlib.sha256(body).hexdigest():
        raise CorruptCheckpoint(f"{path}: the content does not match the checksum")
    claims: dict[str, PreparedClaim] = {}
    faults: dict[str, str] = {}
    try:
        raw = json.loads(body)
        records = raw.pop("claims").items()
    except _UNREADABLE as error:
        raise CorruptCheckpoint(f"{path}: the content cannot be decoded: {error!r}") from error
    for uid, record in records:
        try:
            # One by one, so that a claim that cannot be read costs no other claim its record
            # (test_a_record_that_cannot_be_read_is_made_anew_and_the_others_stay_as_they_are).
            claims[uid] = _claim_from(uid, record)
        except _UNREADABLE as error:
            faults[uid] = repr(error)
    checkpoint = Checkpoint(claims, raw)
    if faults:
        raise CorruptCheckpoint(f"{path}: claims that cannot be decoded: {faults}", checkpoint)
    return checkpoint


def _version(value: object) -> int:
    """A version that a program may have written. Any other number means damage, not a newer version."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _NO_VERSION:
        raise ValueError(f"no version: {value!r}")
    return value


def encode_record(claim: PreparedClaim) -> str:
    """A prepared claim as one line of text, for a file of its own."""
    raw = {"uid": claim.plan.ref.uid, "cards": dict(claim.cards), "steps": _steps_to(claim.steps)}
    return encode_object({**raw, **_plan_to(claim.plan)}).decode()


def decode_record(text: str, uid: str, boot_id: str) -> PreparedClaim | None:
    """The completed claim in a text of ``encode_record``; None if the text is damaged or of another claim."""
    try:
        raw = json.loads(text)
        plan, steps = _plan_from(raw["uid"], raw), _steps_from(raw.get("steps", []))
        # A spec is in a folder that a reboot empties, so its record is of this boot, whatever it says.
        return PreparedClaim(plan, "completed", boot_id, _texts(raw["cards"]), steps) if raw["uid"] == uid else None
    except _UNREADABLE:
        return None


def _claim_to(claim: PreparedClaim) -> dict[str, Any]:
    return {
        **claim.extra,
        "state": claim.state,
        "bootId": claim.boot_id,
        "cards": dict(claim.cards),
        "steps": _steps_to(claim.steps),
        **_plan_to(claim.plan),
        **({"guessed": True} if claim.guessed else {}),
    }


def _plan_to(plan: ClaimPlan) -> dict[str, Any]:
    return {
        "namespace": plan.ref.namespace,
        "name": plan.ref.name,
        "podClaimName": plan.pod_claim_name,
        "facts": {name: getattr(plan.fabric, field_name) for name, field_name in _FABRIC_FIELDS.items()},
        "allocation": allocation_to(Allocation(plan.results, plan.config)),
    }


def _claim_from(uid: str, raw: dict[str, Any]) -> PreparedClaim:
    if raw["state"] not in get_args(State):
        raise ValueError(f"claim {uid}: unknown state: {raw['state']!r}")
    extra = {name: value for name, value in raw.items() if name not in _CLAIM_FIELDS}
    return PreparedClaim(
        _plan_from(uid, raw),
        raw["state"],
        _text(raw["bootId"]),
        cards=_texts(raw.get("cards", {})),
        steps=_steps_from(raw.get("steps", [])),
        guessed=bool(raw.get("guessed")),
        extra=extra,
    )


def _steps_to(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [
        {"action": action_to(step.action), "handle": None if step.handle is None else dict(step.handle)}
        for step in steps
    ]


def _steps_from(raw: list[dict[str, Any]]) -> tuple[Step, ...]:
    steps = tuple(
        Step(action_from(step["action"]), None if step["handle"] is None else _texts(step["handle"])) for step in raw
    )
    for step in steps:
        _text(step.action.card)
    return steps


def _plan_from(uid: str, raw: dict[str, Any]) -> ClaimPlan:
    fabric = Fabric(**{field_name: _text(raw["facts"][name]) for name, field_name in _FABRIC_FIELDS.items()})
    allocation, ref = allocation_from(raw["allocation"]), ClaimRef(_text(raw["namespace"]), _text(raw["name"]), uid)
    for result in allocation.results:
        for text in (result.request, result.device.driver, result.device.pool, result.device.device, result.share_id):
            _text(text)
    return ClaimPlan(ref, allocation.results, _text(raw["podClaimName"]), fabric, allocation.config)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _texts(value: Mapping[str, object]) -> dict[str, str]:
    return {name: _text(item) for name, item in value.items()}
