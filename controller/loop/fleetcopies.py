"""Follows what claims hold, and copies what is known of the fleet for monitoring.

Its owner calls everything here in the thread that decides, so a snapshot is of one moment. It copies references only:
some milliseconds for 40,000 cards.
"""

from collections.abc import Iterator
from typing import Protocol

from controller.census import CountedPod, Holdings, Snapshot
from controller.quotas import QuotaUse
from controller.state import Changes, State
from driver.clock import Clock


class WaitSource(Protocol):
    """The pods that wait (``WaitingPods``)."""

    def waiting(self) -> Iterator[tuple[str, str, float]]:
        """Yield the key of each, what it waits for, and since when it does (monotonic seconds)."""
        ...


class FleetCopies:
    """The fleet as others are shown it.

    Args:
        shown: whether anybody is shown it; if not, nothing is followed.
        with_quotas: whether the quotas of namespaces are copied, too.
    """

    def __init__(self, state: State, clock: Clock, *, shown: bool, with_quotas: bool = False):
        self._state = state
        self._clock = clock
        self._shown = shown
        self._with_quotas = with_quotas
        self._holdings = Holdings(state.names, state.devices.published_and_part)
        self._complete = False
        """True if all claims were noted once. Before, their devices may not have been listed yet."""

    def note(self, changes: Changes, *, listed: bool = False) -> None:
        """Take in the claims that have changed, once everything has been listed, or ``listed`` says so."""
        if not (self._shown and (listed or self._state.complete)):
            return
        claims, now = self._state.claims, self._clock.monotonic()
        for key in changes.claims if self._complete else (*claims, *changes.claims):
            record = claims.get(key)
            self._holdings.note(key, record.claim if record else None, now)
        self._complete = True

    def begin(self) -> None:
        """Begin the counters anew, because those of another leader have counted until now, and look at all claims."""
        self._holdings.seconds.restart(self._clock.monotonic())
        self._complete = False
        self.note(Changes())

    def snapshot(self, waits: WaitSource) -> Snapshot:
        """Return a copy of what is counted."""
        state = self._state
        return Snapshot(
            pools=state.devices.published_pools(state.names.driver),
            open=state.nodes.open_nodes(),
            holdings=self._holdings.copy(),
            card_seconds=self._holdings.seconds.totals(self._clock.monotonic()),
            waiting=tuple(self._waiting(waits)),
            members=state.gangs.memberships(),
            placed=state.nodes.placements(),
            quotas=tuple(self._quotas()),
        )

    def _quotas(self) -> Iterator[QuotaUse]:
        ledger = self._state.quotas
        for namespace in ledger.namespaces if self._with_quotas else ():
            yield from ledger.uses(namespace)

    def _waiting(self, waits: WaitSource) -> Iterator[CountedPod]:
        now, pods = self._clock.monotonic(), self._state.pods
        for key, reason, since in waits.waiting():
            said = pods[key].allocated if key in pods else None
            told = said.since if said and said.status == "False" else ""
            yield CountedPod(key.partition("/")[0], reason, told, now - since)
