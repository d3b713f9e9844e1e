"""Runs a reflector without end, with back-off."""

from driver.backoff import delay, spread
from driver.clock import Clock
from driver.kube.api import ApiError
from driver.kube.reflector import Reflector
from driver.observe import Logger

LONGEST_PAUSE_SECONDS = 30.0
SHORT_SECONDS = 1.0
"""If a watch ends sooner, the server may be ending every watch at once."""
SHORT_WATCHES_ALLOWED = 2
"""This many short steps in a row need no pause: a list, and one watch that happened to end."""


class ReflectorLoop:
    """Steps one reflector. A thread repeats ``step`` for ever and waits in between as long as it returns.

    Args:
        name: the name of this instance of the program; instances with different names pause for different times.
    """

    def __init__(self, reflector: Reflector, clock: Clock, log: Logger, name: str = ""):
        self._name = name
        self._reflector = reflector
        self._clock = clock
        self._log = log
        self._failures = 0
        self._short = 0
        self._logged: tuple[type[ApiError], int] | None = None
        """Class and status of the error that was logged last; None if the last step succeeded."""

    def step(self) -> float:
        """List, or watch until the API ends the watch; the seconds to wait before the next step.

        An error of the API causes a growing pause. So does a series of watches that end at once: that is not an error,
        but watching again at once would be a tight loop. Errors of the same kind in a row are logged once.
        """
        resource, started, at_least = self._reflector.resource, self._clock.monotonic(), 0.0
        try:
            self._reflector.step()
            self._failures = 0
            if self._logged is not None:
                self._log.info("listed or watched again", resource=resource.plural)
                self._logged = None
        except ApiError as error:
            self._failures += 1
            at_least = error.retry_after
            if self._logged != (kind := (type(error), error.status)):
                self._log.warning("cannot list or watch", resource=resource.plural, error=str(error))
                self._logged = kind
        self._short = self._short + 1 if self._clock.monotonic() - started < SHORT_SECONDS else 0
        attempts = max(self._failures, self._short - SHORT_WATCHES_ALLOWED)
        pause = delay(attempts, bound=LONGEST_PAUSE_SECONDS, at_least=at_least)
        return max(spread(pause, self._name), min(at_least, pause))
