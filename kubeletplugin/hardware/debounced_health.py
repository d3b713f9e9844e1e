"""Debounced health: a card that failed stays unhealthy until it has worked for some time."""

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
    """The failure of a card. Times are seconds of ``Clock.monotonic``, which all programs of one boot share."""

    health: Health
    times: int
    """Number of failures so far. The count starts anew after a long time without one."""
    working_since: float | None = None
    """Start of the time in which it has worked since; None while it does not work."""


Failures = dict[str, Failure]
"""By the uuid of the card, or the name of the partition."""


def after_report(failure: Failure | None, health: Health, now: float, recovery_seconds: float) -> Failure | None:
    """Update the failure of a card by a report of its health; None if there is no failure to remember. Pure.

    A card whose fault requires a recovery action counts as failed until that action was taken. Nothing is learned of a
    card while the program is away that speaks for it.

    A failure is forgotten ``LONGEST_RECOVERY_SECONDS`` after the card is reported as healthy again.
    """
    if health.away:
        return failure
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
    """Seconds for which the card must work before it is reported as healthy again."""
    return delay(failure.times, base=recovery_seconds, bound=LONGEST_RECOVERY_SECONDS)


class DebouncedHealth(CardSource):
    """Reports a failed card as unhealthy until it has worked for ``recovery_seconds``, and for longer after each
    relapse. Every change of health costs a write of the node's slices and of the status of each pod with the card.
    Thread-safe.

    Args:
        file: keeps the failures when the program restarts.
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

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return self._source.unread_cards()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``. A card that works again but is not yet healthy has the message of its failure."""
        uuids = {card.name: card.uuid for card in self._source.cards()}
        reported = {uuids.get(name, name): (name, health) for name, health in self._source.health().items()}
        with self._lock:
            before = self._failures
            # A card that is not reported may come back as it was. A partition that is not has no fault of its own.
            self._failures = {key: each for key, each in before.items() if key in reported or not _is_part(key, uuids)}
            debounced = {name: self._debounced(key, health) for key, (name, health) in reported.items()}
            if self._failures != before:
                self._file.choose(self._failures or None)
        self._file.save()
        return debounced

    def leave(self) -> None:
        """Forget the failures of cards that are healthy again. Called when the plugin stops, which may be for good."""
        with self._lock:
            now = self._clock.monotonic()
            self._failures = {key: each for key, each in self._failures.items() if not self._recovered(each, now)}
            self._file.choose(self._failures or None)  # also if nothing changes: a file of an earlier boot may be there
        self._file.save()

    def _debounced(self, key: str, health: Health) -> Health:
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
