"""The fleet at one moment: its cards, who waits, and what each claim holds of which card, and for how long. Pure.

The thread that decides keeps ``Holdings`` up to date change by change, and copies a ``Snapshot`` when it is asked, so
that it is of one moment. That copies references only: some milliseconds for 40,000 cards. Times are exact sums, without
a clock of their own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.allocation import CARD, PublishedPool
from controller.membership import Membership
from controller.quotas import WHOLE_CARD, QuotaUse, taken
from controller.state import Changes, State
from driver.kinds import KIND_ATTRIBUTE, UNKNOWN_KIND
from driver.model import Allocation, Claim, Device, Result
from driver.names import Names
from driver.quantity import NANO

FORGET_SECONDS: Final = 3600.0
"""How long a sum is kept of which nothing is held: namespaces come and go without end."""


class CountedUse(NamedTuple):
    """Whose time is summed up: that of a namespace with cards of one type, held as one kind of device."""

    namespace: str
    type: str
    kind: str


@dataclass(slots=True)
class _Meter:
    held: int = 0
    """Parts of ``CARD`` that are held now."""
    since: float = 0.0
    """Until when ``total`` counts."""
    total: float = 0.0
    """Seconds of whole cards."""

    def read(self, now: float) -> float:
        return self.total + self.held / CARD * (now - self.since)


class CardSeconds:
    """Sums up the time for which parts of cards are held. Every change is counted when it is made."""

    def __init__(self) -> None:
        self._meters: dict[CountedUse, _Meter] = {}

    def change(self, use: CountedUse, parts: int, now: float) -> None:
        """Count from ``now`` on that so many parts of ``CARD`` more are held, or less."""
        meter = self._meters.setdefault(use, _Meter(since=now))
        meter.total, meter.since = meter.read(now), now
        meter.held += parts

    def restart(self, now: float) -> None:
        """Begin all sums anew at 0; what is held is held still."""
        self._meters = {use: _Meter(meter.held, now) for use, meter in self._meters.items() if meter.held}

    def totals(self, now: float) -> Mapping[CountedUse, float]:
        """Return the seconds of each use until ``now``; forget those of which nothing was held for long."""
        gone = [use for use, one in self._meters.items() if not one.held and now - one.since > FORGET_SECONDS]
        for use in gone:
            del self._meters[use]
        return {use: meter.read(now) for use, meter in self._meters.items()}


FindHeld = Callable[[Result], tuple[Device | None, int]]
"""Returns the device of a result as it is published, None if no slice has it, and how much of its card the result
takes, in parts of ``CARD``."""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One device of a claim."""

    request: str
    pool: str
    device: str
    kind: str
    type: str
    memory: int
    """Bytes."""
    cores: float
    """Of the card's compute, from 0 to 1."""
    parts: int
    """Of ``CARD``: the larger one of its parts of memory and cores."""


@dataclass(frozen=True, slots=True)
class CountedHolding:
    """What one claim holds.

    Attributes:
        node: that the allocation is bound to; "" if it is not bound to one.
        pods: that it is reserved for; other consumers have no pods yet.
        is_reserved: whether it has any consumer.
    """

    namespace: str
    claim: str
    node: str
    pods: tuple[str, ...]
    is_reserved: bool
    devices: tuple[HeldDevice, ...]


class Holdings:
    """The holdings of all claims with devices of our driver, by key, and the time for which they were held.

    Attributes:
        seconds: of cards, by namespace, type and kind.
    """

    def __init__(self, names: Names, find: FindHeld):
        self._driver = names.driver
        self._type, self._kind = names.attribute("type"), names.attribute(KIND_ATTRIBUTE)
        self._find = find
        self._known: dict[str, CountedHolding] = {}
        self._allocations: dict[str, Allocation] = {}
        self.seconds = CardSeconds()

    def update(self, key: str, claim: Claim | None, now: float) -> None:
        """Take in a claim as it is at ``now``, or that it is gone (None)."""
        before = self._known.get(key)
        after = self._holding(key, claim, before) if claim is not None and claim.allocation else None
        if before == after:
            return
        for holding, sign in ((before, -1), (after, 1)):
            for held in holding.devices if holding else ():
                use = CountedUse(key.partition("/")[0], held.type, held.kind)
                self.seconds.change(use, sign * held.parts, now)
        if after is None:
            self._known.pop(key, None)
            self._allocations.pop(key, None)
        else:
            self._known[key] = after

    def copy(self) -> Mapping[str, CountedHolding]:
        """Return what is held now, by claim."""
        return self._known.copy()

    def _holding(self, key: str, claim: Claim, before: CountedHolding | None) -> CountedHolding | None:
        allocation = claim.allocation
        ours = [one for one in allocation.results if one.device.driver == self._driver] if allocation else []
        if not ours or allocation is None:
            return None
        same = before is not None and self._allocations.get(key) == allocation
        self._allocations[key] = allocation
        known = {(one.request, one.pool, one.device): one for one in before.devices} if before and same else {}
        return CountedHolding(
            namespace=claim.namespace,
            claim=claim.name,
            node=allocation.node_name,
            pods=tuple(one.name for one in claim.reserved_for if one.is_pod),
            is_reserved=bool(claim.reserved_for),
            devices=tuple(self._held(one, known) for one in ours if not one.admin_access),
        )

    def _held(self, result: Result, known: Mapping[tuple[str, str, str], HeldDevice]) -> HeldDevice:
        device, parts = self._find(result)
        key = (result.request, result.device.pool, result.device.device)
        if device is None and key in known:
            # It is published no longer. What was taken of it is still taken.
            return known[key]
        return HeldDevice(
            *key,
            kind=_text(device, self._kind) or UNKNOWN_KIND,
            type=_text(device, self._type),
            memory=taken(result, device, "memory") // NANO,
            cores=min(1.0, taken(result, device, "cores") / WHOLE_CARD.nanos),
            parts=min(parts, CARD),
        )


def _text(device: Device | None, attribute: str) -> str:
    value = device.attributes.get(attribute) if device else None
    return value if isinstance(value, str) else ""


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
