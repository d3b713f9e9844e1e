"""The cards of a node over one boot of the machine: what was lost stays, and what failed has to work for a while."""

import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from driver.backoff import delay
from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardSource, HardwarePorts, HardwareRefusal, Health

LONGEST_RECOVERY_SECONDS = 3600.0
_LOST = Health("fatal", "the card is not there any more: it has fallen off the bus or was removed", recovery="reboot")


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
    """Update the failure of a card by a report of its health; None if there is no failure to remember.

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


@dataclass(frozen=True, slots=True)
class CardMemory:
    """What is remembered of a node's cards when the program restarts, until the machine reboots.

    Attributes:
        failed: the cards with fatal health, so that lost ones are not forgotten.
        failures: the failures that are not over, of cards and partitions.
    """

    failed: BootFile[list[Card]]
    failures: BootFile[Failures]


class RememberedCards(CardSource):
    """Reports a card that the hardware has lost, with fatal health, until the machine reboots; and a failed one as
    unhealthy until it has worked for ``recovery_seconds``, and for longer after each relapse. Thread-safe.

    A card that is no longer published would take its taint and the health of its pods with it. A lost card is forgotten
    when another card gets its number. While the backend does not answer, because one card hangs, all cards seen before
    are reported, and each card that does not answer ``observe`` has fatal health. Every change of health costs a write
    of the node's slices and of the status of each pod with the card, so health must not flap.

    Args:
        finds: number of times that hardware was found for this node. The cards of earlier hardware are forgotten, not
            lost.
        left_out: cards that are not offered any more, and so not lost.
    """

    def __init__(
        self,
        hardware: HardwarePorts,
        clock: Clock,
        recovery_seconds: float,
        memory: CardMemory,
        finds: Callable[[], int] = lambda: 0,
        left_out: Container[Card] = (),
    ):
        self._hardware = hardware
        self._clock = clock
        self._recovery_seconds = recovery_seconds
        self._memory = memory
        self._lock = threading.Lock()
        self._failed = [card for card in memory.failed.load() or () if card not in left_out]
        """The cards with fatal health, as in the file."""
        self._failures: Failures = memory.failures.load() or {}
        self._seen: dict[str, Card] = {}
        """The cards seen, by ``Card.name``; empty until the backend has answered, because the file has failed cards
        only."""
        self._finds = finds
        self._found = 0
        """Value of ``finds`` when the cards were seen; 0 before any was found."""
        self._reported: Mapping[str, Health] = {}
        """The last answer of the backend."""

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``; in order of unit and index."""
        try:
            present = self._hardware.source.cards()
        except TransientFault:
            if known := self._known():
                return known
            raise
        found = {card.uuid for card in present}
        with self._lock:
            if (finds := self._finds()) != self._found:
                if self._found:
                    self._seen, self._failed = {}, []
                self._found = finds
            before = self._seen or {card.name: card for card in self._failed}
            # A device plugin may rename and remove its devices; its backend remembers them as long as it should.
            kept = {name: card for name, card in before.items() if card.uuid not in found and not card.bridged}
            self._seen = kept | {card.name: card for card in present}
        return self._known()

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return self._hardware.source.unread_cards()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``. A card that the backend does not report is lost, unless it could not read all. One that
        works again but is not yet healthy has the message of its failure."""
        uuids = {card.name: card.uuid for card in self.cards()}
        reported = self._health()
        with self._lock:
            failed = [
                card for name, card in sorted(self._seen.items()) if reported.get(name, Health()).state == "fatal"
            ]
            if failed != self._failed:
                self._memory.failed.choose(failed or None)
            self._failed = failed
            debounced = self._debounced({uuids.get(name, name): it for name, it in reported.items()}, uuids)
        self._memory.failed.save()
        self._memory.failures.save()
        return {name: debounced[uuids.get(name, name)] for name in reported}

    def leave(self) -> None:
        """Forget the failures of cards that are healthy again. Called when the plugin stops, which may be for good."""
        with self._lock:
            now = self._clock.monotonic()
            self._failures = {key: each for key, each in self._failures.items() if not self._recovered(each, now)}
            # also if nothing changes: a file of an earlier boot may be there
            self._memory.failures.choose(self._failures or None)
        self._memory.failures.save()

    def _debounced(self, reported: Mapping[str, Health], uuids: Mapping[str, str]) -> Mapping[str, Health]:
        """The health of each, by its key among the failures, after what is remembered of it."""
        before, now = self._failures, self._clock.monotonic()
        # A card that is not reported may come back as it was. A partition that is not has no fault of its own.
        kept = {key: each for key, each in before.items() if key not in reported and not _is_part(key, uuids)}
        found: dict[str, Health] = {}
        for key, health in reported.items():
            failure = after_report(before.get(key), health, now, self._recovery_seconds)
            if failure is not None:
                kept[key] = failure
            found[key] = health if failure is None or self._recovered(failure, now) else failure.health
        if kept != before:
            self._memory.failures.choose(kept or None)
        self._failures = kept
        return found

    def _recovered(self, failure: Failure, now: float) -> bool:
        since = failure.working_since
        return since is not None and now - since >= recovery(failure, self._recovery_seconds)

    def _health(self) -> Mapping[str, Health]:
        try:
            reported = self._reported = self._hardware.source.health()
        except TransientFault:
            known = self._known()
            silent = {card.name: why for card in known if (why := self._silence(card))}
            if not silent:
                raise
            last = self._reported
            return {card.name: silent.get(card.name) or last.get(card.name, Health()) for card in known}
        unread = "; ".join(self.unread_cards())
        missing = Health("fatal", f"the card is not among those that could be read: {unread}") if unread else _LOST
        with self._lock:
            lost = {name: missing for name in self._seen if name not in reported}
        return {**reported, **lost}

    def _known(self) -> tuple[Card, ...]:
        with self._lock:
            return tuple(sorted(self._seen.values(), key=lambda card: card.order))

    def _silence(self, card: Card) -> Health | None:
        """The health of a card that does not answer; None if it does. Only the library knows whether it is gone."""
        try:
            self._hardware.control.observe(card)
        except HardwareRefusal as refusal:
            return Health("fatal", f"the card does not answer: {refusal}", recovery="reboot")
        except TransientFault as fault:
            return Health("fatal", f"the card does not answer: {fault}")
        return None


def _is_part(key: str, cards: Iterable[str]) -> bool:
    return any(key.startswith(f"{card}-") for card in cards)
