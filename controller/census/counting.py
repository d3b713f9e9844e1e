"""What a snapshot comes to: states of cards, and totals by type, namespace and gang. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from controller.allocation import PublishedPool
from controller.census.snapshot import CountedHolding, HeldDevice, Snapshot
from driver.device_facts import card_of
from driver.kinds import SHARE_KINDS, UNKNOWN_KIND, WHOLE_KINDS, CardState, CardUse, Closure, card_state
from driver.metric_labels import labels
from driver.model import Device, Slice
from driver.names import Names
from driver.quantity import NANO


@dataclass(frozen=True, slots=True)
class DescribedCard:
    """A card as its devices describe it.

    Attributes:
        memory: bytes; 0 if nothing says it.
        devices: the bits of its devices in sets of devices of its pool.
        labels: the labels ``node`` and ``card``, as Prometheus reads them.
        facts: all its other labels.
    """

    node: str
    name: str
    uuid: str
    type: str
    ib_cluster: str
    index: int
    memory: int
    devices: int
    labels: str
    facts: str


@dataclass(frozen=True, slots=True)
class KnownPool:
    """The cards of a pool by name, as of its slices."""

    pool: str
    slices: Sequence[Slice]
    cards: Mapping[str, DescribedCard]


@dataclass(slots=True)
class KnownCards:
    """The cards of each pool. Those of a pool are read once for the slices that it has."""

    names: Names
    _pools: dict[str, KnownPool] = field(default_factory=dict)

    def cards_of(self, pools: Sequence[PublishedPool]) -> Mapping[str, tuple[PublishedPool, KnownPool]]:
        """Return the cards of these pools, by name of the pool; those of all other pools are forgotten."""
        # A pool of another name is not from the node's plugin, and could name cards of another pool.
        own = [pool for pool in pools if pool.node and pool.name == self.names.pool(pool.node)]
        found = {pool.name: (pool, self._read(pool)) for pool in own}
        self._pools = {name: known for name, (_, known) in found.items()}
        return found

    def _read(self, pool: PublishedPool) -> KnownPool:
        known = self._pools.get(pool.name)
        if known is not None and known.slices is pool.slices:
            return known
        devices = [device for part in pool.slices for device in part.devices]
        counters = {one.name: one.counters for part in pool.slices for one in part.counter_sets}
        bits: dict[str, int] = {}
        of_card: dict[str, list[Device]] = {}
        for position, device in enumerate(devices):
            name = card_of(device.name)
            bits[name] = bits.get(name, 0) | 1 << position
            of_card.setdefault(name, []).append(device)
        cards = {}
        for name, parts in of_card.items():
            amounts = [part.capacity["memory"].value for part in parts if "memory" in part.capacity]
            if "memory" in (total := counters.get(name, {})):
                amounts.append(total["memory"])
            memory = max((amount.nanos // NANO for amount in amounts), default=0)
            cards[name] = self._card(pool.node, name, parts[0], memory, bits[name])
        return KnownPool(pool.name, pool.slices, cards)

    def _card(self, node: str, name: str, device: Device, memory: int, bits: int) -> DescribedCard:
        def text(attribute: str) -> str:
            value = device.attributes.get(self.names.attribute(attribute))
            return value if isinstance(value, str) else ""

        facts = {
            "uuid": text("uuid"),
            "vendor": text("vendor"),
            "type": text("type"),
            "model": text("model"),
            "ib_cluster": text("ibCluster"),
        }
        index = device.attributes.get(self.names.attribute("index"))
        return DescribedCard(
            node=node,
            name=name,
            uuid=facts["uuid"],
            type=facts["type"],
            ib_cluster=facts["ib_cluster"],
            index=index if isinstance(index, int) else -1,
            memory=max(0, memory),
            devices=bits,
            labels=labels(node=node, card=name),
            facts=labels(**facts),
        )


STATES: Final[tuple[CardState, ...]] = (*get_args(CardUse), "cordoned", "unhealthy", "foreign")
"""Each card has one. One that waits for an earlier claim to be off it counts as cordoned."""
PAUSE_EVERY: Final = 256
"""Cards or claims after which another thread may run."""

Group = tuple[str, str]
"""Type and IB cluster of cards."""


@dataclass(slots=True)
class CountedCard:
    """A card with what is held of it.

    Attributes:
        use: what claims hold of it.
        state: the use, or what closes the card.
        memory: bytes that are held.
        cores: the part of its compute that is held, from 0 to 1.
        tenants: claims that hold a part of it.
    """

    card: DescribedCard
    use: CardUse = "free"
    state: CardState = "free"
    memory: int = 0
    cores: float = 0.0
    tenants: int = 0


@dataclass(slots=True)
class Census:
    """What a snapshot comes to.

    Attributes:
        snapshot: what was counted.
        cards: by pool and name.
        states: cards by type, IB cluster and state.
        largest_free: the most free cards of one node, by type and IB cluster.
        largest: the most cards of one node.
        held_memory: bytes by namespace and type.
        held_parts: parts of ``CARD`` by namespace, type and kind.
        unreserved: claims with devices and without a consumer, by namespace.
        waiting: pods by namespace and reason.
        oldest: seconds by namespace.
        members: of gangs, by gang and whether they have a place.
    """

    snapshot: Snapshot
    cards: dict[tuple[str, str], CountedCard] = field(default_factory=dict)
    states: Counter[tuple[Group, str]] = field(default_factory=Counter)
    largest_free: dict[Group, int] = field(default_factory=dict)
    largest: dict[Group, int] = field(default_factory=dict)
    held_memory: Counter[tuple[str, str]] = field(default_factory=Counter)
    held_parts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unreserved: Counter[str] = field(default_factory=Counter)
    waiting: Counter[tuple[str, str]] = field(default_factory=Counter)
    oldest: dict[str, float] = field(default_factory=dict)
    members: Counter[tuple[str, bool]] = field(default_factory=Counter)


def count(
    snapshot: Snapshot, known: KnownCards, age: Callable[[str], float], pause: Callable[[], None] = lambda: None
) -> Census:
    """Count a snapshot.

    Args:
        known: the cards of pools, which it keeps for the next time.
        age: returns the seconds since an RFC 3339 time stamp.
        pause: called often, so that the thread that decides need not wait.
    """
    census = Census(snapshot)
    pools = known.cards_of(snapshot.pools)
    for _, cards in pools.values():
        for card in cards.cards.values():
            census.cards[cards.pool, card.name] = CountedCard(card)
    for number, holding in enumerate(snapshot.holdings.values()):
        _hold(census, holding)
        if number % PAUSE_EVERY == 0:
            pause()
    for number, (pool, cards) in enumerate(pools.values()):
        _judge(census, pool, cards, known.names, is_open=pool.node in snapshot.open)
        if number % PAUSE_EVERY == 0:
            pause()
    for pod in snapshot.waiting:
        census.waiting[pod.namespace, pod.reason] += 1
        seconds = max(pod.seconds, age(pod.since) if pod.since else 0.0)
        census.oldest[pod.namespace] = max(seconds, census.oldest.get(pod.namespace, 0.0))
    census.members.update((one.gang, pod in snapshot.placed) for pod, one in snapshot.members.items() if one.gang)
    return census


def _hold(census: Census, holding: CountedHolding) -> None:
    if not holding.is_reserved:
        census.unreserved[holding.namespace] += 1
    seen = set()
    for held in holding.devices:
        census.held_memory[holding.namespace, held.type] += held.memory
        census.held_parts[holding.namespace, held.type, held.kind] += held.parts
        key = (held.pool, card_of(held.device))
        counted = census.cards.get(key)
        if counted is not None:
            counted.memory += held.memory
            counted.cores += held.cores
            counted.tenants += key not in seen
            counted.use = _use_of(held)
            seen.add(key)


def _use_of(held: HeldDevice) -> CardUse:
    if held.kind in SHARE_KINDS:
        return "shared"
    return "whole" if held.kind in (*WHOLE_KINDS, UNKNOWN_KIND) else "partitioned"


def _judge(census: Census, pool: PublishedPool, known: KnownPool, names: Names, *, is_open: bool) -> None:
    """Find the states of a node's cards, and count them."""
    free: Counter[Group] = Counter()
    there: Counter[Group] = Counter()
    marks = dict(_marks(pool, names)) if pool.tainted else {}
    for card in known.cards.values():
        counted = census.cards[known.pool, card.name]
        closures = [closure for closure, devices in marks.items() if card.devices & devices]
        if not (is_open and pool.is_usable):
            closures.append("cordoned")
        counted.state = card_state(counted.use, closures)
        group = card.type, card.ib_cluster
        census.states[group, counted.state] += 1
        there[group] += 1
        free[group] += counted.state == "free"
    for group, number in there.items():
        census.largest[group] = max(number, census.largest.get(group, 0))
        census.largest_free[group] = max(free[group], census.largest_free.get(group, 0))


def _marks(pool: PublishedPool, names: Names) -> Iterator[tuple[Closure, int]]:
    """Yield what taints close cards for, each with the devices that have such a taint."""
    found: Counter[Closure] = Counter()
    of_key: Mapping[str, Closure] = {names.unhealthy: "unhealthy", names.attribute("other-driver"): "foreign"}
    for taints, devices in pool.tainted.items():
        for taint in taints:
            closure = of_key.get(taint.key) or ("cordoned" if taint.excludes else None)
            if closure:
                found[closure] |= devices
    yield from found.items()
