"""Health that does not flap: a card that failed counts as unhealthy until it has worked again for a while."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from driver.backoff import delay
from driver.clock import Clock
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardSource, Health

LONGEST_RECOVERY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Failure:
    """How a card failed. Times are seconds of ``Clock.monotonic``, which all programs of one boot share."""

    health: Health
    times: int
    """How often it failed; a failure long after the last one counts as the first."""
    working_since: float | None = None
    """Since when it has worked again without a break; None while it does not."""


Failures = dict[str, Failure]
"""By the uuid of the card, or the name of the partition."""


def after_report(failure: Failure | None, health: Health, now: float, recovery_seconds: float) -> Failure | None:
    """What is known of a card's failure after a report of its health; None if it counts as healthy for good. Pure.

    A card whose fault demands a recovery action has not recovered before that was taken.

    A failure is forgotten when the card has worked for ``LONGEST_RECOVERY_SECONDS`` after it counted as healthy again.
    """
    if not health.healthy or health.recovery != "none":
        relapsed = failure is not None and failure.working_since is not None
        return Failure(health, (failure.times if failure else 1) + relapsed)
    if failure is None:
        return None
    if failure.working_since is None:
        return replace(failure, working_since=now)
    forgotten = failure.working_since + recovery(failure, recovery_seconds) + LONGEST_RECOVERY_SECONDS
    return None if now >= forgotten else failure


def recovery(failure: Failure, recovery_seconds: float) -> float:
    """How long the card must work again before it counts as healthy, in seconds."""
    return delay(failure.times, base=recovery_seconds, bound=LONGEST_RECOVERY_SECONDS)


class DebouncedHealth(CardSource):
    """Cards that count as unhealthy until they have worked for ``recovery_seconds``, and longer after
    each relapse. Every change is a write of the node's slices, and of the status of each pod that has the card.
    Thread-safe.

    Args:
        file: where failures are kept, so that a restart of the program does not end them.
    """

    def __init__(self, source: CardSource, clock: Clock, recovery_seconds: float, file: BootFile[Failures]):
        self._source = source
        self._clock = clock
        self._recovery_seconds = recovery_seconds
        self._file = file
        self._lock = threading.Lock()
        self._failures: Failures = file.load() or {}

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``."""
        return self._source.cards()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``; the message of a card that works again says how it failed."""
        uuids = {card.name: card.uuid for card in self._source.cards()}
        reported = {uuids.get(name, name): (name, health) for name, health in self._source.health().items()}
        with self._lock:
            before = self._failures
            # A card that is not reported may come back as it was. A partition that is not has no fault of its own.
            self._failures = {key: each for key, each in before.items() if key in reported or not _is_part(key, uuids)}
            steady = {name: self._steady(key, health) for key, (name, health) in reported.items()}
            if self._failures != before:
                self._file.choose(self._failures or None)
        self._file.save()
        return steady

    def leave(self) -> None:
        """Forget the failures of cards that count as healthy again, for a plugin that stops and may not come back."""
        with self._lock:
            now = self._clock.monotonic()
            self._failures = {key: each for key, each in self._failures.items() if not self._recovered(each, now)}
            self._file.choose(self._failures or None)  # also if nothing changes: a file of an earlier boot may be there
        self._file.save()

    def _steady(self, key: str, health: Health) -> Health:
        now = self._clock.monotonic()
        failure = after_report(self._failures.pop(key, None), health, now, self._recovery_seconds)
        if failure is None:
            return health
        self._failures[key] = failure
        return health if self._recovered(failure, now) else failure.health

    def _recovered(self, failure: Failure, now: float) -> bool:
        since = failure.working_since
        return since is not None and now - since >= recovery(failure, self._recovery_seconds)


def _is_part(key: str, cards: Iterable[str]) -> bool:
    return any(key.startswith(f"{card}-") for card in cards)
