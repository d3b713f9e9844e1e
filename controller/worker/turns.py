"""The queue of the controller: the members of a gang are decided together, and not more often than needed.

Most changes of a gang come in as many pieces as it has members: its pods are made, its claims written, its gates
removed, its pods bound. A decision about a gang looks at all members, so one for each piece would cost the square of
their number.
"""

from collections.abc import Iterable
from typing import Final

from controller.state import PodView, State
from controller.waiting import Rank, rank_of, rank_of_gang
from controller.worker.queue import Key, KeyedQueue, Kind
from controller.worker.writes_in_flight import WritesInFlight
from controller.writing.steps import ObjectKey
from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIMS

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
    """

    def __init__(self, state: State, in_flight: WritesInFlight, clock: Clock):
        super().__init__(self._rank_of, self._level_of, _namespace_of)
        self._state = state
        self._in_flight = in_flight
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
            if busy := [pod.key for pod in pods if self._in_flight.is_busy(objects_of(pod))]:
                self._busy[gang] = busy
        return gang in self._busy

    def _is_known_busy(self, gang: str) -> bool:
        """Return whether a member that was being written still is. Others are forgotten."""
        busy = self._busy.get(gang)
        while busy:
            pod = self._state.pods.get(busy[-1])
            if pod and self._state.gangs.gang_of(pod.key) == gang and self._in_flight.is_busy(objects_of(pod)):
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
