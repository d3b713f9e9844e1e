"""What one simulation may cost, where several people ask one program: pods, and seconds."""

import math
from dataclasses import dataclass
from typing import Final

from driver.clock import Clock, SystemClock
from driver.errors import LodeError

_ELSEWHERE: Final = "ask about fewer, or call `lode simulate --live -f FILE` on your own machine, which has no limit"


class AsksTooMuch(LodeError):
    """A question takes more than it may; the message says how much that is, and what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one simulation.

    Attributes:
        pods: that it may be about, claims without a pod included.
        seconds: from when the cluster has been read; the last step may exceed them.
    """

    pods: float = math.inf
    seconds: float = math.inf


class Allowance:
    """What is left to one simulation. Who works on it asks before each step, none of which takes long."""

    def __init__(self, limits: Limits, clock: Clock):
        self._limits = limits
        self._clock = clock
        self._until = math.inf

    def count(self, pods: int) -> None:
        """Take note of how many pods and claims the question is about.

        Raises:
            AsksTooMuch: these are too many.
        """
        if pods > self._limits.pods:
            raise AsksTooMuch(
                f"the manifest has {pods} pods and claims, and a question here may be about {self._limits.pods}; "
                f"{_ELSEWHERE}"
            )

    def begin(self) -> None:
        """Let the seconds count from now on."""
        self._until = self._clock.monotonic() + self._limits.seconds

    def check(self) -> None:
        """Go on if there is time.

        Raises:
            AsksTooMuch: the seconds are over.
        """
        if self._clock.monotonic() >= self._until:
            raise AsksTooMuch(
                f"the answer takes longer to decide than {self._limits.seconds:g} seconds, which a question gets here; "
                f"{_ELSEWHERE}"
            )


NO_LIMITS: Final = Limits()
UNLIMITED: Final = Allowance(NO_LIMITS, SystemClock())
"""Of who asks on their own machine."""
