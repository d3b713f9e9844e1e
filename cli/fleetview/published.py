"""The cards that nodes publish, from ResourceSlices one at a time. Pure.

A fleet has a million devices, and a table needs little of each. So the slices are read as they come, and equal parts
are kept once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from cli.fleetview.cards import Draws, FleetCard, OfferedPart
from driver.device_facts import card_of, readable
from driver.errors import SENSELESS, LodeError
from driver.kinds import KIND_ATTRIBUTE, SHARE_KINDS, WHOLE_KINDS, CardUse
from driver.kube.api import RESOURCE_SLICES, Object, Resource
from driver.model import EXCLUDING_EFFECTS
from driver.names import Names
from driver.quantity import NANO, Quantity

UNREADABLE: Final = (LodeError, *SENSELESS)
"""What decoding raises about objects that make no sense."""
_NONE: Final = frozenset[str]()
_MOST_VARIANTS: Final = 8
"""Of a device of one name that are kept to be compared with."""
_TEXTS: Final = ("uuid", "type", "vendor", "ibCluster", "nvlinkDomain")


@dataclass(frozen=True, slots=True)
class ReadCard:
    """What a slice says of a card.

    Attributes:
        texts: attributes of its first device, by name.
        taints: keys of those that keep claims away and that all its devices have.
    """

    name: str
    texts: Mapping[str, str]
    parts: tuple[OfferedPart, ...]
    taints: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """What a view needs of a slice."""

    pool: str
    node: str
    generation: int
    wanted: int
    cards: tuple[ReadCard, ...]
    counters: Mapping[str, Draws]


@dataclass(slots=True)
class _Card:
    """A card of which slices are still to come."""

    texts: Mapping[str, str]
    parts: dict[str, OfferedPart]
    taints: frozenset[str]


@dataclass(slots=True)
class _Pool:
    """What is known of the newest generation of a pool."""

    node: str
    generation: int
    wanted: int
    found: int = 0
    cards: dict[str, _Card] = field(default_factory=dict)
    counters: dict[str, Draws] = field(default_factory=dict)


class PublishedCards:
    """Collects cards from slices, in any order. Only the newest generation of a pool counts."""

    def __init__(self, names: Names):
        self._reader = SliceReader(names)
        self._pools: dict[str, _Pool] = {}
        self._lists: dict[tuple[OfferedPart, ...], tuple[OfferedPart, ...]] = {}
        self.notes: list[str] = []
        """What was left out, and why."""

    def add(self, raw: Object) -> None:
        """Add a slice. One of another driver is left out, and so is one that cannot be read, with a note."""
        try:
            found = self._reader.read(raw)
        except UNREADABLE as error:
            self.notes.append(left_out(RESOURCE_SLICES, raw, error))
            return
        if found is not None:
            self.add_read(found)

    def add_read(self, found: ReadSlice) -> None:
        """Add a slice that was read."""
        pool = self._pools.get(found.pool)
        if pool is None or pool.generation < found.generation:
            pool = _Pool(found.node, found.generation, found.wanted)
            self._pools[found.pool] = pool
        if pool.generation > found.generation:
            return
        pool.found += 1
        pool.counters |= found.counters
        for card in found.cards:
            parts, known = {part.suffix: part for part in card.parts}, pool.cards.get(card.name)
            if known is None:
                pool.cards[card.name] = _Card(card.texts, parts, card.taints)
            else:
                known.parts |= parts
                known.taints &= card.taints

    def cards(self) -> Iterator[FleetCard]:
        """Yield the cards: node by node, and by number."""
        for name, pool in sorted(self._pools.items(), key=lambda item: item[1].node):
            if pool.found < pool.wanted:
                self.notes.append(
                    f"pool {name} has {pool.found} of {pool.wanted} slices: nothing of it is allocated until the "
                    "plugin of the node has written the others"
                )
            for card, found in sorted(pool.cards.items(), key=lambda item: _by_number(item[0])):
                yield self._facts(pool, card, found)

    def _facts(self, pool: _Pool, name: str, card: _Card) -> FleetCard:
        parts = tuple(card.parts.values())
        return FleetCard(
            node=pool.node,
            name=name,
            uuid=card.texts["uuid"],
            type=card.texts["type"],
            vendor=card.texts["vendor"],
            ib_cluster=card.texts["ibCluster"],
            nvlink_domain=card.texts["nvlinkDomain"],
            parts=self._lists.setdefault(parts, parts),
            counters=pool.counters.get(name, ()),
            taints=card.taints,
        )


class SliceReader:
    """Reads slices and keeps equal parts once."""

    def __init__(self, names: Names):
        self._names = names
        self._parts: dict[OfferedPart, OfferedPart] = {}
        self._seen: dict[str, list[tuple[object, OfferedPart]]] = {}
        """By the name of a device, what it was made of and the part: to compare is ten times faster than to make."""
        self._lists: dict[tuple[OfferedPart, ...], tuple[OfferedPart, ...]] = {}

    def read(self, raw: Object) -> ReadSlice | None:
        """Return what a slice says; None if it is of another driver.

        Raises:
            any of ``UNREADABLE``: it makes no sense.
        """
        spec = raw["spec"]
        if spec["driver"] != self._names.driver:
            return None
        name, node, generation = str(spec["pool"]["name"]), spec.get("nodeName"), int(spec["pool"].get("generation", 0))
        if not isinstance(node, str) or name != self._names.pool(node):
            return None
        by_card: dict[str, list[tuple[Object, OfferedPart, frozenset[str]]]] = {}
        for device in spec.get("devices") or ():
            by_card.setdefault(card_of(device["name"]), []).append((device, *self._part(device)))
        return ReadSlice(
            pool=name,
            node=node,
            generation=generation,
            wanted=int(spec["pool"].get("resourceSliceCount", 0)),
            cards=tuple(self._card(card, devices) for card, devices in by_card.items()),
            counters={one["name"]: _draws(one["counters"]) for one in spec.get("sharedCounters") or ()},
        )

    def _card(self, name: str, devices: Sequence[tuple[Object, OfferedPart, frozenset[str]]]) -> ReadCard:
        parts = tuple({part.suffix: part for _, part, _ in devices}.values())
        taints = frozenset.intersection(*(taints for _, _, taints in devices))
        return ReadCard(name, self._texts(devices[0][0]), self._lists.setdefault(parts, parts), taints)

    def _part(self, raw: Object) -> tuple[OfferedPart, frozenset[str]]:
        attributes = raw.get("attributes") or {}
        source = raw.get("capacity"), raw.get("consumesCounters"), attributes.get("kind"), attributes.get("profile")
        variants = self._seen.setdefault(raw["name"], [])
        part = next((made for known, made in variants if known == source), None)
        if part is None:
            part = self._made(raw)
            part = self._parts.setdefault(part, part)
            if len(variants) < _MOST_VARIANTS:
                variants.append((source, part))
        taints = raw.get("taints")
        if not taints:
            return part, _NONE
        return part, frozenset(taint["key"] for taint in taints if taint.get("effect") in EXCLUDING_EFFECTS)

    def _made(self, raw: Object) -> OfferedPart:
        name, capacity = raw["name"], raw.get("capacity") or {}
        amounts = (capacity[it]["value"] if it in capacity else "0" for it in ("memory", "cores", "slots"))
        memory, cores, slots = amounts
        return OfferedPart(
            suffix=name.removeprefix(card_of(name)),
            use=_use_of(self._text(raw, KIND_ATTRIBUTE)),
            profile=self._text(raw, "profile"),
            memory=_nanos(memory) // NANO,
            cores=_nanos(cores) // NANO,
            draws=_draws(raw["consumesCounters"][0]["counters"]) if raw.get("consumesCounters") else (),
            slots=_nanos(slots) // NANO,
        )

    def _texts(self, device: Object) -> Mapping[str, str]:
        return {text: self._text(device, text) for text in _TEXTS}

    def _text(self, device: Object, name: str) -> str:
        attributes = device.get("attributes") or {}
        found = attributes.get(name) or attributes.get(self._names.attribute(name)) or {}
        return readable(found.get("string"))


def left_out(resource: Resource, raw: Object, error: Exception) -> str:
    """Return the note on an object that makes no sense: others are shown without it."""
    metadata = raw.get("metadata")
    parts = ("namespace", "name") if resource.namespaced else ("name",)
    key = "/".join(str(metadata.get(part) or "") for part in parts) if isinstance(metadata, dict) else ""
    return f"{resource.kind} {key} is left out, it cannot be read: {error!r}"[:1024]


def _use_of(kind: str) -> CardUse:
    return "whole" if kind in WHOLE_KINDS else "shared" if kind in SHARE_KINDS else "partitioned"


def _draws(counters: Mapping[str, Any]) -> Draws:
    return _interned(tuple([(name, _nanos(one["value"])) for name, one in counters.items()]))


@lru_cache(maxsize=4096)
def _interned(draws: Draws) -> Draws:
    return draws


@lru_cache(maxsize=4096)
def _nanos(text: str) -> int:
    return Quantity.parse(str(text)).nanos


def _by_number(card: str) -> tuple[str, int, str]:
    kind, _, number = card.partition("-")
    return kind, int(number) if number.isdecimal() else -1, card
