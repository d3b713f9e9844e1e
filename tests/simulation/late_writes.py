"""Writes that hang: their sender does not wait for them any more, and the server carries them out late, or never."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from driver.kube.api import PODS, ApiCall, ApiError
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog


@dataclass(frozen=True, slots=True)
class HangingWrite:
    """A write whose answer its sender does not wait for any more."""

    at: float
    """When the server carries it out (``Clock.monotonic``)."""
    call: ApiCall
    proceed: Callable[[], object]


class LateWrites:
    """The writes that hang now.

    Args:
        longest: seconds after which no write of a time can take effect.
        found: what is wrong with single writes is added there.
    """

    def __init__(self, clock: VirtualClock, randomness: random.Random, log: EventLog, longest: float, found: list[str]):
        self._clock = clock
        self._random = randomness
        self._log = log
        self._longest = longest
        self._found = found
        self._hanging: list[HangingWrite] = []

    def __iter__(self) -> Iterator[HangingWrite]:
        return iter(self._hanging)

    def hang(self, call: ApiCall, proceed: Callable[[], object]) -> None:
        """Carry a write out that hangs, at some time before no write of that time can take effect, or never."""
        if self._random.random() < 0.5:
            self.delay(call, proceed, self._random.uniform(0, self._longest))

    def delay(self, call: ApiCall, proceed: Callable[[], object], seconds: float) -> None:
        """Carry a write out after this time."""
        self._hanging.append(HangingWrite(self._clock.monotonic() + seconds, call, proceed))

    def cancel(self, call: ApiCall) -> None:
        """Carry this write out no more."""
        self._hanging = [write for write in self._hanging if write.call is not call]

    def forget(self) -> None:
        """Carry none of them out any more: the API server that had received them has ended."""
        self._hanging.clear()

    def carry_out(self) -> None:
        """Carry out what is due."""
        due = [write for write in self._hanging if write.at <= self._clock.monotonic()]
        for write in due:
            self._hanging.remove(write)
            known = len(self._found)
            try:
                write.proceed()
                if (write.call.resource, write.call.subresource) == (PODS, "status"):
                    # Nothing ties a nomination to the claims: the devices may have been taken back since it was sent.
                    del self._found[known:]
                self._log.note(
                    "api", f"carries out late: {write.call.verb} {write.call.resource.kind} {write.call.name}"
                )
            except ApiError as error:
                self._log.note("api", f"refuses a late write: {write.call}: {error}")
            self._log.count_write(write.call.resource)
