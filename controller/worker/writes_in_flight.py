"""The decisions that are being written: they count meanwhile, and are repeated while it is not known how they ended.

That has an end, whatever the API server answers. A sequence is tried ``MOST_TRIES`` times, at most for
``LONGEST_TRIED_SECONDS``, and no longer than the pod exists that it is for. Then nothing more is sent, and as soon as
nothing that was sent can take effect any more, the objects are read: they say what was made, and nothing else counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from controller.state import Changes, Promise, State
from controller.worker.queue import KeyedQueue
from controller.writing import NotEvicted, Obstacle, Subject, WriteResult, Writes, WriteSequence
from controller.writing.steps import EvictPod, ObjectKey, PatchClaimStatus, Step, only_reads
from driver.backoff import delay
from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIMS, ApiError, NotFound, Unavailable
from driver.observe import Logger

MOST_TRIES = 10
"""Answers to a sequence that leave it open whether a step was made; it is given up after that."""
LONGEST_TRIED_SECONDS = 90.0
"""Time after the first such answer at which another one ends the tries. Ten tries of 5 s with their pauses take as
long. Where many sequences wait, each try waits for its turn, and others must not wait ten turns for the devices."""
_LONGEST_PAUSE_SECONDS = 5.0
_LONGEST_ASKED_SECONDS = 300.0
"""Longest wait that a server may ask for (``Retry-After``). Only the pod or claim waits that is being written for."""


def asked_to_wait(error: Exception) -> float:
    """Return the seconds after which the server allows another try; 0 if it does not say."""
    return min(error.retry_after, _LONGEST_ASKED_SECONDS) if isinstance(error, ApiError) else 0.0


def _given_up(step: Step, error: Unavailable) -> ApiError:
    """Return the failure of a step that got no other answer in all tries: if it is an eviction, others may go."""
    return NotEvicted(step.target, Obstacle.OTHER, error) if isinstance(step, EvictPod) else error


class SequenceState(Enum):
    """The state of a sequence after a result."""

    DONE = auto()
    FAILED = auto()
    """A step was not made. The state has the objects as they are now, and nothing counts that was only decided."""
    IN_DOUBT = auto()
    """Nobody knows whether a write was made. The decision goes on counting, and the write is repeated."""


@dataclass(slots=True)
class _Pending:
    """The sequence of one subject."""

    sequence: WriteSequence
    objects: frozenset[ObjectKey]
    promised: tuple[str, ...]
    """Keys of the claims to which something is given."""
    pod: str
    """UID of the pod that it is for; "" if it is for none."""
    tries: int
    """Answers that leave it open whether a step was made, after which it is given up."""
    rest: tuple[Step, ...] = ()
    """Steps that have to be repeated because the answer to the first one was lost."""
    doubt_ends: float = 0.0
    """Time from which no write without an answer can take effect any more (monotonic seconds)."""
    doubtful: PatchClaimStatus | None = None
    """The change of a claim that may take effect until then."""
    repeats: int = 0
    """Answers that left it open whether a step was made."""
    doubted_since: float = 0.0
    """Time of the first of them (monotonic seconds)."""
    failure: Exception | None = None
    """The error that ends it as soon as the objects are read again. Nothing more is written then."""


class WritesInFlight:
    """The sequences that have no final result yet, by subject.

    Args:
        longest_write: seconds after which a write without an answer cannot take effect any more.
    """

    def __init__(
        self,
        state: State,
        writes: Writes,
        clock: Clock,
        log: Logger,
        longest_write: float,
    ):
        self._state = state
        self._writes = writes
        self._clock = clock
        self._log = log
        self._longest_write = longest_write
        self._pending: dict[Subject, _Pending] = {}
        self._busy: set[ObjectKey] = set()
        self._repeats: KeyedQueue[Subject] = KeyedQueue()

    @property
    def in_doubt(self) -> bool:
        """True if a write may have been made, or may yet be, without this program knowing."""
        return any(pending.repeats or pending.failure for pending in self._pending.values())

    def is_busy(self, objects: Iterable[ObjectKey]) -> bool:
        """Return whether one of the objects is being written, so that nothing can be decided about it now."""
        return not self._busy.isdisjoint(objects)

    def submit(
        self, sequence: WriteSequence, promises: Mapping[str, Promise] | None = None, tries: int = MOST_TRIES
    ) -> Changes:
        """Have the sequence carried out; the devices that it gives to claims are in use from now on.

        Args:
            tries: answers that leave it open whether a step was made, after which it is given up.
        """
        changes = Changes()
        for key, value in (promises or {}).items():
            changes.add(self._state.promise(key, value))
        kind, name = sequence.subject
        # A sequence for a pod may write its claims alone. Another pod of this name has other claims.
        objects = sequence.objects | {(PODS, name)} if kind == "pod" else sequence.objects
        pod = self._state.pods.get(name) if kind == "pod" else None
        pending = _Pending(sequence, objects, tuple(promises or ()), pod.uid if pod else "", tries)
        self._pending[sequence.subject] = pending
        self._busy |= objects
        self._writes.submit(sequence)
        return changes

    def on_result(self, result: WriteResult, changes: Changes) -> tuple[SequenceState, Exception | None]:
        """Take in the result of a sequence, after its answers; return its state, and the error of a step that failed.

        Args:
            changes: takes in the objects that have to be looked at again.
        """
        subject, error = result.sequence.subject, result.error
        pending = self._pending[subject]
        pending.failure = result.failure or pending.failure
        if isinstance(error, Unavailable):
            self._doubt(subject, pending, result.rest, error)
            return SequenceState.IN_DOUBT, error
        error = error or pending.failure
        if error is not None and self._may_still_be_made(pending):
            self._give_up(pending, error)
            self._repeat_later(subject, pending, error)
            return SequenceState.IN_DOUBT, error
        self._end(subject, pending, changes)
        return (SequenceState.DONE if error is None else SequenceState.FAILED), error

    def repeat_due(self) -> bool:
        """Repeat the next sequence that is in doubt and due; return False if none is."""
        subject = self._repeats.pop(self._clock.monotonic())
        if subject is None:
            return False
        pending = self._pending[subject]
        if pending.failure is None and self._is_for_nobody(subject, pending):
            self._give_up(pending, NotFound(f"Pod {subject[1]}: gone", status=404, reason="NotFound"))
            self._repeats.add(subject, pending.doubt_ends)
        else:
            self._writes.submit(replace(pending.sequence, steps=pending.rest))
        return True

    def next_due(self) -> float | None:
        """Return when ``repeat_due`` has something to do (monotonic seconds)."""
        return self._repeats.next_due()

    def _doubt(self, subject: Subject, pending: _Pending, rest: tuple[Step, ...], error: Unavailable) -> None:
        now = self._clock.monotonic()
        pending.rest = rest
        if not pending.repeats:
            pending.doubted_since = now
        if not only_reads(rest[0]):
            pending.doubt_ends = now + self._longest_write
        if isinstance(rest[0], PatchClaimStatus):
            pending.doubtful = rest[0]
        said: ApiError = error
        if pending.failure is None:
            if self._is_for_nobody(subject, pending):
                self._give_up(pending, said)
            elif (
                pending.repeats + 1 >= pending.tries
                or now - pending.doubted_since >= LONGEST_TRIED_SECONDS
                or error.retry_after > self._longest_write
            ):
                said = _given_up(rest[0], error)
                self._give_up(pending, said)
        self._repeat_later(subject, pending, said)

    def _is_for_nobody(self, subject: Subject, pending: _Pending) -> bool:
        """Return whether the pod that this is for is gone, or ends without having started."""
        if not pending.pod:
            return False
        pod = self._state.pods.get(subject[1])
        return pod is None or pod.uid != pending.pod or pod.deleting or pod.terminal

    @staticmethod
    def _give_up(pending: _Pending, error: Exception) -> None:
        """Write nothing more: the objects are read when nothing that was sent can take effect any more."""
        pending.failure, pending.rest = error, pending.sequence.reads

    def _repeat_later(self, subject: Subject, pending: _Pending, error: Exception) -> None:
        pending.repeats += 1
        now, gives_up = self._clock.monotonic(), pending.failure is error
        if gives_up:
            due = max(now, pending.doubt_ends)
        else:
            due = now + max(asked_to_wait(error), delay(pending.repeats, bound=_LONGEST_PAUSE_SECONDS))
        self._repeats.add(subject, due)
        said = "giving up a write" if gives_up else "repeating a write"
        self._log.info(said, subject=subject[1], error=str(error), attempt=pending.repeats)

    def _may_still_be_made(self, pending: _Pending) -> bool:
        """Return whether a write without an answer may still take effect.

        Every write of a claim carries the version that was decided on, so a claim that has changed ends the doubt.
        """
        if pending.doubtful is None or self._clock.monotonic() >= pending.doubt_ends:
            return False
        target = pending.doubtful.target
        record = self._state.claims.get(target.key)
        version = record and (record.claim.uid, record.claim.resource_version)
        return version == (target.uid, target.version)

    def _end(self, subject: Subject, pending: _Pending, changes: Changes) -> None:
        del self._pending[subject]
        self._busy -= pending.objects
        for key in pending.promised:
            changes.add(self._state.end_promise(key))
        for resource, key in pending.objects:
            if resource == PODS:
                changes.pods[key] = None
            elif resource == RESOURCE_CLAIMS:
                changes.pods.update(dict.fromkeys(self._state.pods.using(key)))
                changes.claims[key] = None
