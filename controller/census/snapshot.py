"""A copy of what is counted, made in the thread that decides. Pure.

So a snapshot is of one moment. It copies references only: some milliseconds for 40,000 cards.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.allocation import PublishedPool
from controller.census.holdings import CountedHolding, CountedUse, Holdings
from controller.gangs import Membership
from controller.quotas import QuotaUse
from controller.state import Changes, State


class CountedPod(NamedTuple):
    """A pod that cannot be placed at present.

    Attributes:
        since: when its condition says that it waits (RFC 3339); "" if none does yet.
        seconds: how long this run of the program knows that it waits.
    """

    namespace: str
    reason: str
    since: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one moment. Nothing that it refers to changes any more.

    Attributes:
        pools: of devices of our driver.
        open: nodes that exist, are ready and not cordoned.
        holdings: by claim.
        card_seconds: since the term of leadership began.
        members: of gangs, by pod.
        placed: the node of each pod that counts on one.
        quotas: each limit of a namespace, where anybody is shown them.
    """

    pools: Sequence[PublishedPool] = ()
    open: Collection[str] = ()
    holdings: Mapping[str, CountedHolding] = field(default_factory=dict)
    card_seconds: Mapping[CountedUse, float] = field(default_factory=dict)
    waiting: Sequence[CountedPod] = ()
    members: Mapping[str, Membership] = field(default_factory=dict)
    placed: Mapping[str, str] = field(default_factory=dict)
    quotas: Sequence[QuotaUse] = ()


class FleetCopies:
    """Follows what claims hold, and copies what is known of the fleet. Times are monotonic seconds.

    Args:
        shown: whether anybody is shown it; if not, nothing is followed.
        with_quotas: whether the quotas of namespaces are copied, too.
    """

    def __init__(self, state: State, *, shown: bool, with_quotas: bool = False):
        self._state = state
        self._shown = shown
        self._with_quotas = with_quotas
        self._holdings = Holdings(state.names, state.devices.ledger.published_and_part)
        self._complete = False
        """True if all claims were noted once. Before, their devices may not have been listed yet."""

    def follow(self, changes: Changes, now: float, *, listed: bool = False) -> None:
        """Take in the claims that have changed, once everything has been listed, or ``listed`` says so."""
        if not (self._shown and (listed or self._state.complete)):
            return
        claims = self._state.claims
        for key in changes.claims if self._complete else (*claims, *changes.claims):
            record = claims.get(key)
            self._holdings.update(key, record.claim if record else None, now)
        self._complete = True

    def begin(self, now: float) -> None:
        """Begin the counters anew, because those of another leader have counted until now, and look at all claims."""
        self._holdings.seconds.restart(now)
        self._complete = False
        self.follow(Changes(), now)

    def snapshot(self, waiting: Iterable[tuple[str, str, float]], now: float) -> Snapshot:
        """Return a copy of what is counted.

        Args:
            waiting: the pods that wait (keys), each with what it waits for and since when it does.
        """
        state = self._state
        return Snapshot(
            pools=state.devices.ledger.published_pools(state.names.driver),
            open=state.nodes.open_nodes(),
            holdings=self._holdings.copy(),
            card_seconds=self._holdings.seconds.totals(now),
            waiting=tuple(self._counted(*one, now) for one in waiting),
            members=state.gangs.memberships(),
            placed=state.nodes.placements(),
            quotas=tuple(self._quotas()),
        )

    def _quotas(self) -> Iterator[QuotaUse]:
        ledger = self._state.quotas
        for namespace in ledger.namespaces if self._with_quotas else ():
            yield from ledger.uses(namespace)

    def _counted(self, key: str, reason: str, since: float, now: float) -> CountedPod:
        pod = self._state.pods.get(key)
        said = pod.allocated if pod is not None else None
        told = said.since if said and said.status == "False" else ""
        return CountedPod(key.partition("/")[0], reason, told, now - since)
