"""Faults that a simulated cluster injects: those of the network and of a busy API server, and crashes of programs.

All faults follow from the given random source, call by call, so a seed reproduces the same faults.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from driver.kube.api import EVENTS, PODS, Api, ApiCall, Conflict, Gone, Unavailable, WatchEvent
from driver.kube.decorator import ApiDecorator
from memoryapi import MemoryApi
from tests.simulation.rivals import Rivals

T = TypeVar("T")

RETRY_AFTER_SECONDS = 1.0
LATE_RENEWAL_SECONDS = 90.0


class TimedOut(Unavailable):
    """No answer came in time. The server may carry the write out later, or never."""


class Crash(BaseException):
    """The program dies here and loses its memory. Only the code that runs programs may catch it."""


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The probability of each fault, for each call that it can affect."""

    crash: float = 0.0
    """The program dies before any call, or between two changes of a watch."""
    lost_request: float = 0.0
    """Any call: the connection breaks before the server receives the call."""
    lost_response: float = 0.0
    """Any call: the connection breaks after the call took effect."""
    busy: float = 0.0
    """Any call: the server answers 429 with Retry-After."""
    slow: float = 0.0
    """A write of a controller: the answer takes up to the time-out."""
    hang: float = 0.0
    """A write of a controller: no answer comes before the time-out. The server carries it out later, or never."""
    silence: float = 0.0
    """A write of an Event or of a pod's condition, by a controller: no answer comes before the time-out."""
    conflict: float = 0.0
    """update, patch, and delete or eviction of a given version: another writer was faster, as far as one can tell."""
    overtaken: float = 0.0
    """update, patch, delete and eviction by the driver's programs: another writer is faster (``rivals``)."""
    gone: float = 0.0
    """watch, and list of a further page: the version is too old."""
    lag: float = 0.0
    """watch: it delivers only the first few changes, perhaps none, and no bookmark."""


NO_NETWORK_FAULTS = NetworkFaults()


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """The probability of each fault of a simulated cluster; all are 0 by default."""

    crash: float = 0.0
    """A program dies before a call."""
    interleave: float = 0.0
    """Another program runs before a call."""
    latency: float = 0.0
    """Time passes inside a call, before it takes effect or before its answer is seen; other programs act meanwhile."""
    late_renewal: float = 0.0
    """The answer to a write of a Lease comes after ``LATE_RENEWAL_SECONDS``, and often its writer stalls then."""
    skip_watch: float = 0.0
    """A program takes its turn without reading one of its watches."""
    network: NetworkFaults = NO_NETWORK_FAULTS
    """Faults of the programs' calls; use ``crash`` of this class, not of that one, for crashes."""


NO_FAULTS = FaultProfile()


Hang = Callable[[ApiCall, Callable[[], object]], None]
"""Takes over a write whose answer never comes, to carry it out later or never."""


class FaultyApi(ApiDecorator):
    """The API as one program reaches it over a faulty network.

    Args:
        hang: takes over the writes that hang; None if none does.
        rivals: who may be faster than this program's writes; None if nobody is.
    """

    def __init__(
        self,
        api: Api,
        randomness: random.Random,
        faults: NetworkFaults = NO_NETWORK_FAULTS,
        hang: Hang | None = None,
        rivals: Rivals | None = None,
    ):
        super().__init__(api)
        self.faults = faults
        """May be changed at any time, for example to end all faults before a cluster settles."""
        self._random = randomness
        self._hang = hang
        self._rivals = rivals

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer, unless a fault occurs before or after the call takes effect."""
        if call.continue_token and self._occurs(self.faults.gone):
            raise _gone(call)
        self._fail_before(call)
        if _may_conflict(call) and self._occurs(self.faults.conflict):
            raise Conflict(f"{call}: the object has been modified", status=409, reason="Conflict")
        if self._hang is not None and _is_words(call) and self._occurs(self.faults.silence):
            raise TimedOut(f"{call}: timed out")
        if self._hang is not None and call.is_write and self._occurs(self.faults.hang):
            self._hang(call, proceed)
            raise TimedOut(f"{call}: timed out")
        answer = self._contested(call, proceed)
        if self._occurs(self.faults.lost_response):
            raise _connection_lost(call)
        return answer

    def _contested(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer, perhaps after another writer touched the object."""
        if self._rivals is None or not call.is_write or not self._occurs(self.faults.overtaken):
            return proceed()
        overtaken = self._rivals.overtake(call)
        answer = proceed()
        if overtaken:
            self._rivals.took_effect(call)
        return answer

    def around_watch(self, call: ApiCall, proceed: Callable[[], Iterator[WatchEvent]]) -> Iterator[WatchEvent]:
        """The changes; the connection may break, and the changes may stop, at any point."""
        self._fail_before(call)
        if self._occurs(self.faults.gone):
            raise _gone(call)
        events = proceed()
        lags = self._occurs(self.faults.lag)
        breaks = self._occurs(self.faults.lost_response)
        for event in events:
            if lags and self._random.random() < 0.5:
                return
            if breaks and self._random.random() < 0.5:
                raise _connection_lost(call)
            yield event
            self._crash(call)

    def _fail_before(self, call: ApiCall) -> None:
        self._crash(call)
        if self._occurs(self.faults.lost_request):
            raise _connection_lost(call)
        if self._occurs(self.faults.busy):
            raise Unavailable(
                f"{call}: too many requests", status=429, reason="TooManyRequests", retry_after=RETRY_AFTER_SECONDS
            )

    def _crash(self, call: ApiCall) -> None:
        if self._occurs(self.faults.crash):
            raise Crash(str(call))

    def _occurs(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability


def meeting_removals(api: MemoryApi, seed: int) -> MemoryApi:
    """The same API, to which every second write of a removed object meets the removal (``MemoryApi.meets_removal``)."""
    randomness = random.Random(f"removals of {seed}")
    api.meets_removal = lambda call: randomness.random() < 0.5
    return api


def _is_words(call: ApiCall) -> bool:
    """Whether the call only says why a pod waits."""
    if call.resource == EVENTS:
        return call.is_write
    if call.resource != PODS or call.subresource != "status" or not isinstance(call.body, dict):
        return False
    status = call.body.get("status") or {}
    said = [one.get("status") for one in status.get("conditions") or []]
    return "False" in said and not status.get("nominatedNodeName")


def _may_conflict(call: ApiCall) -> bool:
    return call.verb in ("update", "patch") or (call.verb in ("delete", "evict") and bool(call.resource_version))


def _connection_lost(call: ApiCall) -> Unavailable:
    return Unavailable(f"{call}: connection lost")


def _gone(call: ApiCall) -> Gone:
    return Gone(f"{call}: too old resource version", status=410, reason="Expired")
