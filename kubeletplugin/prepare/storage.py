"""The checkpoint and the claims' files on this node's disk. Callers hold the lock."""

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Final

from driver.errors import OperatorFault
from driver.files import SPARE, Files, Loss
from driver.settings import Settings
from kubeletplugin.prepare import cdi, metadata
from kubeletplugin.prepare import checkpoint as codec
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint, PreparedClaim
from kubeletplugin.prepare.container import ClaimPaths, cards_in
from kubeletplugin.prepare.plan import ClaimPlan

_LOCK: Final = ".lock"
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Uuids that the file of a lock is named after; that of any other is named after its digest."""
_RESERVED: Final = 64 * 1024
"""Unit of the reserved room, in bytes. A claim takes about one kilobyte."""


def plugin_directory(settings: Settings) -> str:
    """The folder of this driver's plugin: ``<kubelet root>/plugins/<driver>``."""
    return posixpath.join(settings.kubeletplugin.kubelet_root, "plugins", settings.driver_name)


class ClaimStorage:
    """Reads and writes one node's checkpoint, CDI specs and metadata files.

    Args:
        repair: rebuilds and stores a damaged checkpoint from the claims that can be read; None raises an error instead.
    """

    def __init__(
        self, files: Files, settings: Settings, repair: Callable[[CorruptCheckpoint], Checkpoint] | None = None
    ):
        self._repair = repair
        directory = plugin_directory(settings)
        self.paths = ClaimPaths(
            driver=settings.driver_name,
            cdi_root=settings.kubeletplugin.cdi_root,
            metadata_root=posixpath.join(directory, "dra-device-metadata"),
        )
        self.checkpoint_path = posixpath.join(directory, "checkpoint.json")
        self.actions_path = posixpath.join(directory, "actions.json")
        self._lock_path = posixpath.join(directory, f"prepare{_LOCK}")
        self._card_lock_prefix = posixpath.join(directory, "card-")
        self._files = files
        self._encoder = codec.Encoder()
        self._reserved = 0
        self._last: tuple[bytes, Checkpoint] | None = None
        """The bytes read last, and the checkpoint in them, because most of the time nothing has changed."""

    def lock(self) -> AbstractContextManager[None]:
        """Exclusive across the threads and processes of this node while held."""
        return self._files.lock(self._lock_path)

    @contextmanager
    def card_locks(self, uuids: Iterable[str]) -> Iterator[None]:
        """Exclusive for changes of these cards. Taken before ``lock``, never while it is held."""
        with ExitStack() as stack:
            # In one order in all programs, so that two that need the same two cards never wait for each other.
            for uuid in sorted(set(uuids)):
                stack.enter_context(self._files.lock(self._card_lock(uuid)))
            yield

    def is_worked_on(self, claim: PreparedClaim) -> bool:
        """Whether a running program holds the lock of a card of the claim's steps.

        A program that prepares a claim holds these locks from before the claim is stored until it is completed.
        """
        return any(self._files.is_locked(self._card_lock(uuid)) for uuid in {step.action.card for step in claim.steps})

    def _card_lock(self, uuid: str) -> str:
        # A device plugin names its devices as it likes: with slashes, or with more letters than the name of a file has.
        name = uuid if _PLAIN.fullmatch(uuid) else hashlib.sha256(uuid.encode()).hexdigest()[:32]
        return f"{self._card_lock_prefix}{name}{_LOCK}"

    def load(self) -> Checkpoint:
        """The checkpoint; an empty one before the first claim. A damaged one is repaired.

        Raises:
            CorruptCheckpoint: damaged, or missing on a node with claims, and nobody repairs it; see ``quarantine``.
            OperatorFault: a newer version wrote it, and this one cannot read it.
        """
        try:
            return self._read()
        except CorruptCheckpoint as error:
            if self._repair is None:
                raise
            return self._repair(error)

    def _read(self) -> Checkpoint:
        # Forgotten first: if this read fails, a later save must not take an old checkpoint for the one on the disk.
        last, self._last = self._last, None
        data = self._files.read(self.checkpoint_path)
        if data is None:
            return self._missing()
        self._last = data, self._decoded(data, last)
        return self._last[1]

    def peek(self) -> Checkpoint:
        """The present checkpoint, or that of a moment ago. The caller need not hold the lock: the file is replaced as a
        whole.

        Raises:
            CorruptCheckpoint: damaged, or missing on a node with claims; the next ``load`` repairs it.
            OperatorFault: as ``load``.
        """
        data = self._files.read(self.checkpoint_path)
        return self._decoded(data, self._last) if data is not None else self._missing()

    def _missing(self) -> Checkpoint:
        """Only a node that has never had a claim has no checkpoint: an empty one is written before the first file."""
        if self.uids_with_cdi_spec() or self._files.read(self.actions_path) is not None:
            raise CorruptCheckpoint(f"{self.checkpoint_path}: is missing, though there are files of claims")
        return Checkpoint()

    def _decoded(self, data: bytes, last: tuple[bytes, Checkpoint] | None) -> Checkpoint:
        return last[1] if last is not None and last[0] == data else codec.decode(data, self.checkpoint_path)

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint.

        The steps of claims are written before to a file of their own (``actions.json``). So they are known even if the
        checkpoint is damaged before a claim has any other file. A loss of power may lose records of claims without
        steps, or bring them back: no container of them is left then. The kubelet has those that it still needs prepared
        again, and those that are no longer allocated are given up (``Recovery.stale``). So a change of such claims
        alone need not reach the disk, nor need the file if it has only such claims. A change that only ends claims, or
        repairs the checkpoint, succeeds on a full disk (``reserve``).
        """
        last, self._last = self._last, None
        may_lose = _may_lose(last[1], checkpoint) if last is not None else "nothing"
        ends = last is None or _ends_only(last[1], checkpoint)
        # Before the checkpoint, not after: a loss of power in between leaves steps that are recorded and not needed,
        # which does no harm. The other order could leave a partition that nobody knows to be ours.
        if may_lose == "nothing":
            self._save_actions(checkpoint.to_undo, ends)
        data = self._encoder.encode(checkpoint)
        # The next prepare removes the file of before. After an end, none may come.
        self._files.write(self.checkpoint_path, data, may_lose, free_later=not ends, may_use_reserve=ends)
        self._last = data, checkpoint

    @property
    def wants_reserve(self) -> bool:
        """Whether the reserved room is too small for the recorded claims."""
        return self._last is not None and len(self._last[0]) > self._reserved

    def reserve(self) -> None:
        """Reserve room on the disk for ending the recorded claims. If the disk is full, it is tried again later."""
        with suppress(OSError):
            for path in (self.actions_path, self.checkpoint_path):
                if data := self._files.read(path):
                    size = -(-len(data) // _RESERVED) * _RESERVED
                    self._files.reserve(path, size)
                    self._reserved = size

    def _save_actions(self, actions: Checkpoint, ends: bool) -> None:
        wanted = codec.encode(actions) if actions.claims else None
        present = self._files.read(self.actions_path)
        if wanted is None and present is not None:
            self._files.remove(self.actions_path)
        elif wanted is not None and wanted != present:
            self._files.write(self.actions_path, wanted, may_use_reserve=ends)

    def clear(self) -> None:
        """Remove a checkpoint without claims: a missing one means the same."""
        for path in (self.actions_path, self.checkpoint_path):
            self._files.remove(path)
            self._files.remove(path + SPARE)

    def remove_locks(self) -> None:
        """Remove the lock files that no program holds. The caller does not hold the lock."""
        folder, prefix = posixpath.split(self._card_lock_prefix)
        for name in self._files.names(folder):
            if name.startswith(prefix) and name.endswith(_LOCK):
                self._files.remove_lock(posixpath.join(folder, name))
        self._files.remove_lock(self._lock_path)

    def to_undo(self) -> tuple[PreparedClaim, ...]:
        """The claims in ``actions.json``, as ``stopping``.

        Called when the checkpoint is damaged.
        """
        data = self._files.read(self.actions_path)
        try:
            claims = codec.decode(data, self.actions_path).claims if data is not None else {}
        except CorruptCheckpoint as error:
            claims = error.left.claims
        except OperatorFault:
            claims = {}
        return tuple(claims.values())

    def quarantine(self) -> str:
        """Copy an unreadable checkpoint for a person to look at.

        Returns the path of the copy; "" if the checkpoint is empty, or if there is no room for a copy.
        """
        data = self._files.read(self.checkpoint_path)
        copy = f"{self.checkpoint_path}.corrupt-{hashlib.sha256(data or b'').hexdigest()[:12]}"
        try:
            if data:
                self._files.write(copy, data)
        except OSError:
            return ""
        return copy if data else ""

    def write(self, uid: str, wanted: Mapping[str, bytes]) -> None:
        """Make the claim's files equal ``wanted``, in that order. Files that are right already are not written.

        They are not synced: after a loss of power the next start writes them again, before any container can use them.
        """
        if self._last is None and wanted:
            self._begin()
        obsolete = [path for path in self._metadata_files(uid) if path not in wanted]
        # A container must never be started from a spec that mounts files which are gone.
        if obsolete or not wanted:
            # The CDI spec mounts them. It is written again last.
            self._files.remove(self.paths.cdi_file(uid))
        for path in obsolete:
            self._files.remove(path)
        for path, content in wanted.items():
            if self._files.read(path) != content:
                self._files.write(path, content, "content")

    def _begin(self) -> None:
        """Write an empty checkpoint if there is none, so that files of claims without a checkpoint always mean
        damage."""
        if self._files.read(self.checkpoint_path) is None:
            self._files.write(self.checkpoint_path, codec.encode(Checkpoint()), "content")

    def remove(self, uid: str) -> None:
        """Remove the claim's files: the CDI spec first, because it refers to the others."""
        self._files.remove(self.paths.cdi_file(uid))
        for path in self._metadata_files(uid):
            self._files.remove(path)
        self.sweep()

    def let_containers_read(self) -> None:
        """Label metadata files so that containers can read them where SELinux is enforcing. Only runtimes read CDI
        specs.

        Raises:
            OSError: the files cannot be labelled.
        """
        self._files.let_containers_read(self.paths.metadata_root)

    def tidy(self) -> None:
        """Remove the previous checkpoint, at a time when no caller waits."""
        self._files.tidy()

    def sweep(self) -> None:
        """Remove the temporary files of an instance that was killed during a write."""
        self._files.sweep(self.paths.cdi_root, self.paths.cdi_prefix)
        self._files.sweep(self.paths.metadata_root)
        for path in (self.checkpoint_path, self.actions_path):
            self._files.sweep(*posixpath.split(path))

    def uids(self) -> set[str]:
        """Uids of claims with files of any kind."""
        names = self._files.names(self.paths.metadata_root)
        return self.uids_with_cdi_spec() | {metadata.claim_uid(name) for name in names}

    def uids_with_cdi_spec(self) -> set[str]:
        """Uids of claims with a CDI spec: they were prepared since the last boot."""
        return {uid for name in self._files.names(self.paths.cdi_root) if (uid := self.paths.cdi_uid(name))}

    def records(self, boot_id: str) -> list[PreparedClaim]:
        """The claims prepared since the last boot whose CDI specs have a record."""
        found = (
            codec.decode_record(cdi.annotation(self._spec(uid), self.paths.record), uid, boot_id)
            for uid in sorted(self.uids_with_cdi_spec())
        )
        return [claim for claim in found if claim is not None]

    def cards_in_spec(self, uid: str) -> dict[str, str]:
        """The uuid of the card behind each device of the claim's CDI spec; {} if that is missing or damaged."""
        return cards_in(self._spec(uid))

    def plan_in_metadata(self, uid: str) -> ClaimPlan | None:
        """The plan in the metadata files of a claim (``metadata.plan_in``); None if none of them can be read."""
        plans = [metadata.plan_in(self._files.read(path) or b"") for path in self._metadata_files(uid)]
        known = [plan for plan in plans if plan is not None and plan.ref.uid == uid]
        return replace(known[0], results=tuple(it for plan in known for it in plan.results)) if known else None

    def _spec(self, uid: str) -> bytes:
        return self._files.read(self.paths.cdi_file(uid)) or b""

    def _metadata_files(self, uid: str) -> list[str]:
        names = self._files.names(self.paths.metadata_root)
        return [posixpath.join(self.paths.metadata_root, name) for name in names if metadata.claim_uid(name) == uid]


def _may_lose(before: Checkpoint, after: Checkpoint) -> Loss:
    """The part of the written checkpoint that a loss of power may lose."""
    if _changes_steps(before, after):
        return "nothing"
    return "change" if any(claim.steps for claim in after.claims.values()) else "content"


def _ends_only(before: Checkpoint, after: Checkpoint) -> bool:
    """Whether the change only removes claims and gives claims up."""
    return all(claim.state == "stopping" for uid, claim in after.claims.items() if before.claims.get(uid) != claim)


def _changes_steps(before: Checkpoint, after: Checkpoint) -> bool:
    """Whether the change concerns a claim with steps, before it or after it."""
    changed = [(before.claims.get(uid), after.claims.get(uid)) for uid in before.claims.keys() | after.claims.keys()]
    return any(claim.steps for pair in changed if pair[0] != pair[1] for claim in pair if claim is not None)
