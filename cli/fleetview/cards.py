"""A card with its amounts: what claims hold of it, what is free, and what closes it; as values and as text. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.kinds import CardUse, Closure
from driver.quantity import Quantity

ALL_CORES: Final = 100

Draws = tuple[tuple[str, int], ...]
"""What a device takes of each counter of its card, by name, in nano-units."""


@dataclass(frozen=True, slots=True)
class OfferedPart:
    """A device that a card is offered as.

    Attributes:
        suffix: what the name of the device has behind that of the card: "" of the whole card.
        memory: bytes.
        cores: percent of the compute of the card.
        slots: claims that can have a part of it at once; 0 if it is not shared.
        draws: empty if the card has no counters.
    """

    suffix: str
    use: CardUse
    profile: str = ""
    memory: int = 0
    cores: int = 0
    draws: Draws = ()
    slots: int = 0


@dataclass(frozen=True, slots=True)
class FleetCard:
    """A card as its node publishes it.

    Attributes:
        name: such as ``gpu-3``.
        ib_cluster: "" if it is not known.
        parts: the devices that it is offered as, in the order of the slices.
        counters: what all of them can take together, by name, in nano-units; empty without counters.
        taints: keys of the taints that all its devices have, and that keep claims away.
    """

    node: str
    name: str
    uuid: str = ""
    type: str = ""
    vendor: str = ""
    ib_cluster: str = ""
    nvlink_domain: str = ""
    parts: tuple[OfferedPart, ...] = ()
    counters: Draws = ()
    taints: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """``node/card``."""
        return f"{self.node}/{self.name}"

    @property
    def memory(self) -> int:
        """Bytes of the whole card, or of its largest partition if nothing else is offered; 0 if it is not known."""
        return max((part.memory for part in self.parts), default=0)

    @property
    def is_partly_taken(self) -> bool:
        """Whether somebody other than claims has something of it: a device would take more than there is."""
        amounts = dict(self.counters)
        return any(amount > amounts.get(name, amount) for part in self.parts for name, amount in part.draws)

    def part(self, device: str) -> OfferedPart | None:
        """Return what it offers under this name of a device."""
        suffix = device.removeprefix(self.name)
        return next((part for part in self.parts if part.suffix == suffix), None)


@dataclass(frozen=True, slots=True)
class CardHolding:
    """What a claim holds of a card.

    Attributes:
        use: how it holds the card.
        users: who the claim is reserved for: pods by name, others with their kind.
        memory: bytes; None if it is not known.
        cores: percent of the compute of the card; None if it is not known.
        slots: of a shared card.
        looks_on: whether it only looks at the card (``adminAccess``), and so holds none of it.
        since: time stamp of the allocation; "" if it is not known.
    """

    namespace: str
    claim: str
    device: str
    use: CardUse
    users: tuple[str, ...] = ()
    memory: int | None = None
    cores: int | None = None
    slots: int = 0
    looks_on: bool = False
    since: str = ""

    @property
    def key(self) -> str:
        """``namespace/name`` of the claim."""
        return f"{self.namespace}/{self.claim}"


@dataclass(frozen=True, slots=True)
class CardView:
    """A card, what claims hold of it, and what closes it."""

    facts: FleetCard
    holdings: tuple[CardHolding, ...] = ()
    closures: tuple[Closure, ...] = ()

    @property
    def use(self) -> CardUse:
        """What it is in."""
        return next((one.use for one in self.holders), "free")

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it and a claim can have all of it."""
        return self.use == "free" and not self.closures

    @property
    def state(self) -> str:
        """Its use and what closes it, such as ``shared,unhealthy``. A closed card that nobody holds is not free."""
        use = self.use
        return ",".join([*([] if use == "free" and self.closures else [use]), *self.closures])

    @property
    def holders(self) -> Iterator[CardHolding]:
        """What claims hold of it, without those that only look at it."""
        return (one for one in self.holdings if not one.looks_on)

    @property
    def memory_held(self) -> int:
        """Bytes that claims hold."""
        return sum(one.memory or 0 for one in self.holders)

    @property
    def cores_held(self) -> int:
        """Percent of its compute that claims hold."""
        return sum(one.cores or 0 for one in self.holders)

    def fraction(self, holding: CardHolding) -> float:
        """Return the part of the card that a claim holds, from 0 to 1: the larger one of memory and cores, or if it has
        neither, its part of the slots."""
        if holding.looks_on:
            return 0.0
        if holding.use == "whole":
            return 1.0
        memory = (holding.memory or 0) / self.facts.memory if self.facts.memory else 0.0
        part = max(memory, (holding.cores or 0) / ALL_CORES)
        if not part and holding.slots:
            part = holding.slots / max(self.slots, holding.slots)
        return min(1.0, part)

    @property
    def slots(self) -> int:
        """How many claims can have a part of it at once; 0 if it is not shared."""
        return max((part.slots for part in self.facts.parts), default=0)

    @property
    def free_slots(self) -> int:
        """How many more claims can have a part of it."""
        return 0 if self.closures else max(0, self.slots - sum(one.slots for one in self.holders))

    @property
    def largest_free(self) -> int:
        """The most bytes of memory that one claim can still get of it."""
        if self.closures:
            return 0
        if self.use == "shared":
            return max(0, max((part.memory for part in self._free_parts()), default=0) - self.memory_held)
        return max((part.memory for part in self._free_parts()), default=0)

    @property
    def free_profiles(self) -> tuple[str, ...]:
        """Profiles of the partitions that a claim can still get of it, each once, sorted."""
        return () if self.closures else tuple(sorted({part.profile for part in self._free_parts() if part.profile}))

    def _free_parts(self) -> Iterator[OfferedPart]:
        """The parts that fit beside what is held."""
        use, left = self.use, self._left()
        for part in self.facts.parts:
            if use == "shared":
                fits = part.use == "shared"
            else:
                counted = use == "free" or (use == "partitioned" and bool(part.draws))
                fits = counted and all(amount <= left.get(name, 0) for name, amount in part.draws)
            if fits:
                yield part

    def _left(self) -> Mapping[str, int]:
        left = dict(self.facts.counters)
        for holding in self.holders:
            part = self.facts.part(holding.device)
            for name, amount in part.draws if part else ():
                left[name] = left.get(name, 0) - amount
        return left


def memory_text(amount: int) -> str:
    """Return bytes as an exact quantity."""
    return str(Quantity.whole(amount, "BinarySI"))


def holder_texts(holding: CardHolding) -> Iterator[str]:
    """Yield who holds it, with the namespace: its pods, or the claim if nobody uses that."""
    yield from (f"{holding.namespace}/{user}" for user in holding.users or (f"claim/{holding.claim}",))


def amount_texts(holding: CardHolding) -> tuple[str, str]:
    """Return its memory and cores, as cells of a table."""
    memory = "<none>" if holding.memory is None else memory_text(holding.memory)
    return memory, "<none>" if holding.cores is None else str(holding.cores)


def holder_json(card: CardView, holding: CardHolding) -> dict[str, Any]:
    """Return what a claim holds of the card, for JSON."""
    found: dict[str, Any] = {
        "namespace": holding.namespace,
        "claim": holding.claim,
        "usedBy": list(holding.users),
        "device": holding.device,
        "memory": None if holding.memory is None else memory_text(holding.memory),
        "cores": holding.cores,
        "since": holding.since,
        "cards": round(card.fraction(holding), 4),
    }
    if holding.looks_on:
        found["adminAccess"] = True
    return {key: value for key, value in found.items() if value not in (None, "", [])}
