"""The log of a simulated cluster: its latest lines, and how often each kind of object was written."""

from collections import defaultdict, deque
from typing import Any

from driver.clock import Clock
from driver.kube.api import EVENTS, LEASES, Resource


class EventLog:
    """The latest lines of what happened, and counts of writes."""

    def __init__(self, clock: Clock, length: int = 400):
        self._clock = clock
        self._lines: deque[str] = deque(maxlen=length)
        self.writes: dict[Resource, int] = defaultdict(int)
        self.total_writes = 0
        """Writes of all kinds except Leases and Events, which no program watches."""
        self._followers: dict[Resource, Resource] = {}
        self.last_change = 0.0
        """When an object other than a Lease or an Event was written last, in seconds of ``Clock.monotonic``."""

    def note(self, program: str, text: str) -> None:
        """Add a line."""
        self._lines.append(f"{self._clock.monotonic():9.3f} {program:<22} {text}")

    def count_write(self, resource: Resource) -> None:
        """Count a write, whether it is known to have taken effect or not."""
        self.writes[resource] += 1
        if follower := self._followers.get(resource):
            self.writes[follower] += 1
        if resource not in (LEASES, EVENTS):
            self.total_writes += 1
            self.last_change = self._clock.monotonic()

    def follow(self, follower: Resource, resource: Resource) -> None:
        """Count each write of a kind for the same kind in another version, too."""
        self._followers[resource] = follower

    def last(self, count: int) -> list[str]:
        """The last ``count`` lines."""
        return list(self._lines)[-count:]


class EventLogger:
    """Implements ``driver.observe.Logger`` for one program; its lines go to an ``EventLog``."""

    def __init__(self, log: EventLog, program: str):
        self._log = log
        self._program = program

    def bind(self, **_: Any) -> "EventLogger":
        """The same logger."""
        return self

    def _write(self, event: str, **fields: Any) -> None:
        text = " ".join([event, *(f"{key}={value}" for key, value in fields.items())])
        self._log.note(self._program, text[:400])

    debug = info = warning = error = exception = _write
