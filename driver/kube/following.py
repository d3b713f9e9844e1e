"""Following the API without end: a reflector's steps, and the rest between them."""

from driver.backoff import delay
from driver.clock import Clock
from driver.kube.api import ApiError
from driver.kube.reflector import Reflector
from driver.observe import Logger

LONGEST_REST_SECONDS = 30.0
SHORT_SECONDS = 1.0
"""A watch that was over sooner may have been ended by a server that ends them all."""
SHORT_WATCHES_ALLOWED = 2
"""So many short steps in a row are nothing: a list, and one watch that happened to end."""


class Following:
    """Steps one reflector; a thread repeats ``step`` for ever, with the rests that it is told."""

    def __init__(self, reflector: Reflector, clock: Clock, log: Logger):
        self._reflector = reflector
        self._clock = clock
        self._log = log
        self._failures = 0
        self._short = 0

    def step(self) -> float:
        """List, or watch until the API ends the watch; the seconds to rest before the next step.

        An error of the API is logged and costs a rest that grows. So does a series of watches that end at once, which
        is no error: an API that is asked again at once would be asked in a tight loop.
        """
        resource, began = self._reflector.resource, self._clock.monotonic()
        try:
            self._reflector.step()
            self._failures = 0
        except ApiError as error:
            self._failures += 1
            self._log.warning("not listed or watched", resource=resource.plural, error=str(error))
        self._short = self._short + 1 if self._clock.monotonic() - began < SHORT_SECONDS else 0
        return delay(max(self._failures, self._short - SHORT_WATCHES_ALLOWED), bound=LONGEST_REST_SECONDS)
