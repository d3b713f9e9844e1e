"""The queue of the controller: keys with due times, whose turn it is, and when a write that failed is made again.

Of the keys that are due, the first in the order comes up, so that no namespace keeps others waiting for long.

The members of a gang are decided together, and not more often than needed. Most changes of a gang come in as many
pieces as it has members: its pods are made, its claims written, its gates removed, its pods bound. A decision about a
gang looks at all members, so one for each piece would cost the square of their number.
"""

import heapq
from collections.abc import Callable, Collection, Iterable
from math import floor, inf
from typing import Any, Final, Generic, Literal, TypeVar

from controller.state import PodView, State
from controller.waiting import Rank, rank_of, rank_of_gang
from controller.writing.steps import ObjectKey
from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIMS, AlreadyExists, Conflict, NotFound, Unavailable

K = TypeVar("K")

TURN_SECONDS: Final = 0.1
"""Time that the controller decides for a namespace before others of the same priority have their turn."""
LEAST_SECONDS: Final = 0.001
"""Least time that is charged for a decision, so that many quick ones use up a turn, too."""
_NOTHING: Final = 1e-9
"""Rest that sums of seconds leave because they are not exact."""


class _Shares:
    """The time that each namespace has left of its turn (deficit round robin).

    While all have time left, the order of service decides alone. A decision that takes longer than a turn is paid for
    with later turns.
    """

    def __init__(self) -> None:
        self._left: dict[str, float] = {}

    def has_left(self, namespace: str) -> bool:
        """Return whether the namespace has time left."""
        return self._left.get(namespace, TURN_SECONDS) > _NOTHING

    def charge(self, namespace: str, seconds: float) -> None:
        """Charge the namespace for a decision that took so long."""
        self._left[namespace] = self._left.get(namespace, TURN_SECONDS) - max(seconds, LEAST_SECONDS)

    def next_round(self, waiting: Collection[str]) -> None:
        """Give turns to all that wait, none of which has time left, until one has."""
        most = max(self._left.get(name, TURN_SECONDS) for name in waiting)
        turns = max(0, floor((_NOTHING - most) / TURN_SECONDS) + 1) * TURN_SECONDS
        for name in waiting:
            self._left[name] = min(TURN_SECONDS, self._left.get(name, TURN_SECONDS) + turns)

    def forget(self) -> None:
        """Give everybody a whole turn: nobody waits."""
        self._left.clear()


_Ready = tuple[Any, float, int, K]


class KeyedQueue(Generic[K]):
    """Work to do, by key. A key that is added twice is due at the earlier of the two times.

    Keys that are due come up by level, then those of namespaces that have their turn, then by rank, equal ones in the
    order in which they became due.

    Args:
        rank: returns the rank of a key that becomes due, any value that can be compared; the smallest comes up first.
        level: returns its level; the smallest comes up first, whoever has a turn.
        namespace: returns its namespace.
    """

    def __init__(
        self,
        rank: Callable[[K], Any] = lambda _: 0,
        level: Callable[[K], int] = lambda _: 0,
        namespace: Callable[[K], str] = lambda _: "",
    ) -> None:
        self._rank = rank
        self._level = level
        self._namespace = namespace
        self._due: dict[K, tuple[float, int]] = {}
        self._later: list[tuple[float, int, K]] = []
        self._ready: dict[tuple[int, str], list[_Ready[K]]] = {}
        """Heaps of the keys that are due, by level and namespace."""
        self._shares = _Shares()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def add(self, key: K, due: float) -> None:
        """Make ``key`` due at ``due`` (monotonic seconds), unless it is due sooner already."""
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._sequence += 1
        self._due[key] = (due, self._sequence)
        heapq.heappush(self._later, (due, self._sequence, key))

    def discard(self, key: K) -> None:
        """Remove ``key`` if it is queued."""
        self._due.pop(key, None)

    def due(self, now: float) -> int:
        """Return how many keys are due at ``now`` (monotonic seconds). Safe to call in any thread."""
        return sum(due <= now for due, _ in list(self._due.values()))

    def next_due(self) -> float | None:
        """Return when the next key is due (monotonic seconds); None if the queue is empty."""
        self._drop_stale()
        first = self._later[0][0] if self._later else None
        if not self._ready:
            return first
        ready = min(heap[0][1] for heap in self._ready.values())
        return ready if first is None else min(first, ready)

    def pop(self, now: float) -> K | None:
        """Remove and return the key that comes first among those due at ``now``; None if none is due."""
        self._drop_stale()
        while self._later and self._later[0][0] <= now:
            due, number, key = heapq.heappop(self._later)
            heap = self._ready.setdefault((self._level(key), self._namespace(key)), [])
            heapq.heappush(heap, (self._rank(key), due, number, key))
            self._drop_stale()
        if not self._ready:
            self._shares.forget()
            return None
        _, _, _, first = heapq.heappop(self._ready[self._next_heap()])
        del self._due[first]
        return first

    def charge(self, key: K, seconds: float) -> None:
        """Charge the namespace of the key for work that took so long; it has less left of its turn."""
        self._shares.charge(self._namespace(key), seconds)

    def _next_heap(self) -> tuple[int, str]:
        """Return the level and namespace of the key that comes first."""
        level = min(level for level, _ in self._ready)
        waiting = [namespace for one, namespace in self._ready if one == level]
        having = [namespace for namespace in waiting if self._shares.has_left(namespace)]
        if not having:
            self._shares.next_round(waiting)
            having = [namespace for namespace in waiting if self._shares.has_left(namespace)]
        return min(((level, namespace) for namespace in having), key=lambda one: self._ready[one][0][:3])

    def _drop_stale(self) -> None:
        while self._later and self._due.get(self._later[0][2]) != self._later[0][:2]:
            heapq.heappop(self._later)
        for place, heap in [*self._ready.items()] if self._ready else ():
            while heap and self._due.get(heap[0][3]) != heap[0][1:3]:
                heapq.heappop(heap)
            if not heap:
                del self._ready[place]


Kind = Literal["pod", "claim", "gang", "wake", "template"]
"""What is decided about. "wake": whether a change may help a pod that waits. "template": a ResourceClaimTemplate on
demand."""
Key = tuple[Kind, str]
"""The kind of object and its key (``namespace/name``)."""
AT_ONCE: Final = 32
"""Size up to which gangs are decided at every change."""
_CLAIMS_FIRST: Final = -(2**40)
"""Level before every priority."""
SECONDS_PER_MEMBER: Final = 0.001
"""Least time between two decisions about a larger gang because of changes of its members, for each member. A decision
takes about a twentieth of that. Changes of nodes are never put off."""


class Turns(KeyedQueue[Key]):
    """The queue of the controller. A pod that is in a gang stands for the gang.

    Claims come first, because they may free devices; then pods and gangs in the order of service.

    Args:
        is_written: returns whether one of the objects is being written, so that nothing can be decided about it now.
    """

    def __init__(self, state: State, is_written: Callable[[Iterable[ObjectKey]], bool], clock: Clock):
        super().__init__(self._rank_of, self._level_of, _namespace_of)
        self._state = state
        self._is_written = is_written
        self._clock = clock
        self._busy: dict[str, list[str]] = {}
        """Members of gangs that were being written when somebody looked; at most all of them, at least the last one."""
        self._decided: dict[str, float] = {}
        """Time of the last decision about each gang (monotonic seconds)."""

    def add(self, key: Key, due: float) -> None:
        """Make ``key`` due at ``due`` (monotonic seconds), unless it is due sooner already.

        A gang of which a member is being written is left alone: it is added again when the writes have ended.
        """
        kind, name = key
        if kind == "pod" and (gang := self._state.gangs.gang_of(name)):
            self.add_changed(gang, due)
        elif kind != "gang" or not self._is_known_busy(name):
            super().add(key, due)

    def soon(self, kind: Kind, keys: Iterable[str], after: float = 0.0) -> None:
        """Make objects of one kind due in so many seconds, each unless it is due sooner already."""
        due = self._clock.monotonic() + after
        for key in keys:
            self.add((kind, key), due)

    def add_changed(self, gang: str, due: float) -> None:
        """Make ``gang`` due because of its members: a large one not before some time after its last decision."""
        members = len(self._state.gangs.members(gang))
        if members > AT_ONCE and gang in self._decided:
            due = max(due, self._decided[gang] + members * SECONDS_PER_MEMBER)
        self.add(("gang", gang), due)

    def decided(self, gang: str) -> None:
        """Note that the gang was decided now."""
        self._decided[gang] = self._clock.monotonic()

    def gone(self, gang: str) -> None:
        """Forget the gang."""
        self._decided.pop(gang, None)
        self._busy.pop(gang, None)

    def is_busy(self, gang: str) -> bool:
        """Return whether an object of any member is being written."""
        if not self._is_known_busy(gang):
            pods = (self._state.pods[key] for key in self._state.gangs.members(gang))
            if busy := [pod.key for pod in pods if self._is_written(objects_of(pod))]:
                self._busy[gang] = busy
        return gang in self._busy

    def _is_known_busy(self, gang: str) -> bool:
        """Return whether a member that was being written still is. Others are forgotten."""
        busy = self._busy.get(gang)
        while busy:
            pod = self._state.pods.get(busy[-1])
            if pod and self._state.gangs.gang_of(pod.key) == gang and self._is_written(objects_of(pod)):
                return True
            busy.pop()
        self._busy.pop(gang, None)
        return False

    def _rank_of(self, key: Key) -> Rank:
        """Return the place of the key in the order of service."""
        kind, name = key
        name = (self._state.gangs.gang_of(name) or name) if kind == "wake" else name
        if kind == "gang" or name != key[1]:
            # A member is as urgent as its gang.
            members = [pod for member in self._state.gangs.members(name) if (pod := self._state.pods.get(member))]
            return rank_of_gang(self._state, members) if members else Rank(0, "", name)
        if kind == "template":
            # It is as urgent as the first pod that waits for it, and comes before others of that priority.
            waiting = self._state.pods.get(next(iter(self._state.on_demand.awaiting(name)), ""))
            return Rank(-waiting.priority if waiting else 0, "", name)
        pod = None if kind == "claim" else self._state.pods.get(name)
        return rank_of(self._state, pod) if pod else Rank(0, "", name)

    def _level_of(self, key: Key) -> int:
        return _CLAIMS_FIRST if key[0] == "claim" else self._rank_of(key).below


def _namespace_of(key: Key) -> str:
    return key[1].partition("/")[0]


def objects_of(pod: PodView) -> Iterable[ObjectKey]:
    """Return the pod and its claims."""
    return ((PODS, pod.key), *((RESOURCE_CLAIMS, key) for key in pod.claim_keys))


AFTER_FAILURE_SECONDS: Final = 60.0
"""Pause after a write that failed by something that somebody has to mend, such as a missing right."""


class RetryTimes(Generic[K]):
    """When objects may be written again: not while a write of theirs is under way, and not for a while if it failed.

    Times are monotonic seconds.

    Args:
        changed: seconds of pause if the object has changed meanwhile, exists already or is gone: by then, the watch has
            most likely told of it.
        unanswered: seconds of pause after a write without an answer.
    """

    def __init__(self, *, changed: float, unanswered: float) -> None:
        self._changed = changed
        self._unanswered = unanswered
        self._times: dict[K, float] = {}

    def at(self, key: K) -> float:
        """Return from when on the object may be written; infinity while a write of it is under way."""
        return self._times.get(key, -inf)

    def begin(self, key: K) -> None:
        """Note that a write of the object is under way."""
        self._times[key] = inf

    def end(self, key: K, error: Exception | None, now: float) -> bool:
        """Note how the write ended, and begin the pause; return whether somebody has to mend what made it fail."""
        self._times.pop(key, None)
        if error is None:
            return False
        self._times = {other: time for other, time in self._times.items() if time > now}
        if isinstance(error, Conflict | NotFound | AlreadyExists):
            self._times[key] = now + self._changed
        elif isinstance(error, Unavailable):
            self._times[key] = now + self._unanswered
        else:
            self._times[key] = now + AFTER_FAILURE_SECONDS
            return True
        return False
