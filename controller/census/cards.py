"""The cards that the slices of a pool publish. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.allocation import PublishedPool
from driver.device_facts import card_of
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
        place: the labels ``node`` and ``card``, as Prometheus reads them.
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
    place: str
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

    def of(self, pools: Sequence[PublishedPool]) -> Mapping[str, tuple[PublishedPool, KnownPool]]:
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
        for place, device in enumerate(devices):
            name = card_of(device.name)
            bits[name] = bits.get(name, 0) | 1 << place
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
            place=labels(node=node, card=name),
            facts=labels(**facts),
        )
