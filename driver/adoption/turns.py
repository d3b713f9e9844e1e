"""Which claims the containers of a pod use: those that run one after the other use the same. Pure.

Kubernetes counts a pod so: init containers run one after the other and before the rest, and count as their maximum;
sidecars (init containers with ``restartPolicy: Always``) are added from their start on. A claim lasts as long as its
pod, so each container that runs to the end has one of its own, and an init container uses those of containers that have
not started yet:

- Whole devices: as many claims as it needs. What is missing, at the most, is one more claim for all init containers.
- A part of a card: one claim, because nothing keeps those of several claims on different cards. It is that of a
  container with as much, or of one that gets as much by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.adoption.sources import AdoptionSource, CardAmounts

WHOLE: Final = 1
"""Whole cards, or partitions: nobody else has a part of them."""
CORES: Final = 2
"""All memory of a card, and a part of its cores."""
MEMORY: Final = 3
PERCENT: Final = 4
UNLIKE: Final = MEMORY + PERCENT
"""The sum of the only two kinds of which nobody can say which is more; no other two have it."""
EXTRAS: Final[Mapping[int, str]] = {WHOLE: "init", CORES: "init-c", MEMORY: "init-m", PERCENT: "init-p"}
"""The ends of the entries that only init containers use, by the kind of what they ask for."""


@dataclass(frozen=True, slots=True)
class AskingContainer:
    """When a container runs, and what it asks for.

    Attributes:
        entry: the name of its own claim in the pod.
        amounts: positive ones by resource, without those that the containers of a pod use together.
        app: whether it is no init container.
        ends: whether it ends before the next one starts: an init container that is no sidecar.
    """

    entry: str
    amounts: Mapping[str, int]
    app: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod.

    Attributes:
        uses: for each container, the entries that it uses.
        amounts: what each claim asks for by resource, by entry.
        parts: whether any container asks for a part of a card.
        raised: the entries of containers that have more than they asked for, because an init container needs it.
    """

    uses: Sequence[Sequence[str]]
    amounts: Mapping[str, Mapping[str, int]]
    parts: bool
    raised: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Size:
    """What a container asks for of one kind of card."""

    count: int
    kind: int
    memory: int = 0
    percent: int = 0
    cores: int = 0

    def has(self, other: "_Size") -> bool:
        """Whether each of the cards has as much as each of the other's."""
        if self.kind == WHOLE:
            return other.memory <= self.memory
        return self.kind == other.kind and all(
            theirs <= own
            for theirs, own in (
                (other.memory, self.memory),
                (other.percent, self.percent),
                (other.cores, self.cores),
            )
        )


def plan(turns: Sequence[AskingContainer], source: AdoptionSource) -> PodClaims:
    """Return the claims of a pod. The admission policies do the same (``charts.adoption.turns``).

    Args:
        turns: the containers, and then the init containers in the order in which they start.
    """
    planned = [_OfCards(cards, turns) for cards in _cards(turns, source)]
    entries = [one.entry for one in turns if not one.ends and one.amounts]
    places = [*(place for place, one in enumerate(turns) if not one.ends), *(-kind for kind in EXTRAS)]
    named = {place: turns[place].entry if place >= 0 else extra_entry(source.name, -place) for place in places}
    amounts: dict[str, dict[str, int]] = {}
    for place in places:
        found: dict[str, int] = {}
        for one in planned:
            found |= one.amounts_of(place)
        if found:
            amounts[named[place]] = found
    uses = [
        [named[place] for place in places if any(place in one.picks[index] for one in planned)]
        if turn.ends
        else [turn.entry] * (turn.entry in entries)
        for index, turn in enumerate(turns)
    ]
    raised = {named[place] for place in places if place >= 0 and any(one.is_raised(place) for one in planned)}
    return PodClaims(uses, amounts, any(one.parts for one in planned), frozenset(raised))


def extra_entry(source: str, kind: int) -> str:
    """Return the entry of the claim that only init containers use, by the kind of what they ask for."""
    return f"lode-{source}-{EXTRAS[kind]}"


def _cards(turns: Sequence[AskingContainer], source: AdoptionSource) -> list[CardAmounts]:
    """The kinds of card that any container asks for, in the order of the table."""
    asked = {resource for one in turns for resource in one.amounts}
    by_resource = {resource: cards for cards in source.cards for resource in cards.resources}
    found = [by_resource.get(it, CardAmounts(it)) for it in source.taken(asked)]
    return list(dict.fromkeys(found))


class _OfCards:
    """The claims of a pod for one kind of card."""

    def __init__(self, cards: CardAmounts, turns: Sequence[AskingContainer]):
        self._cards = cards
        self._raw = [tuple(one.amounts.get(name, 0) if name else 0 for name in cards.names) for one in turns]
        self._sizes = [_size(raw, cards) for raw in self._raw]
        self.parts = any(size and size.kind != WHOLE for size in self._sizes)
        """Whether any container asks for a part of such a card."""
        apps = [place for place, one in enumerate(turns) if one.app]
        sidecars = [place for place, one in enumerate(turns) if not one.app and not one.ends]
        # Sidecars that start last come first: then those that an init container may use are the first of the list.
        self._running = [place for place in (*apps, *reversed(sidecars)) if self._sizes[place]]
        self._apps = len(apps)
        ending = [(place, size) for place, one in enumerate(turns) if one.ends and (size := self._sizes[place])]
        missing = {place: self._missing(place, size) for place, size in ending if size.kind == WHOLE}
        self._extra = max(missing.values(), default=0)
        self.picks: dict[int, list[int]] = {place: [] for place in range(len(turns))}
        """For each init container, the places of the claims that it uses; that of an extra one is minus its kind."""
        for place, size in ending:
            if size.kind == WHOLE:
                self.picks[place] = [*self._whole(place, size), *([-WHOLE] if missing[place] else [])]
            else:
                self.picks[place] = [self._part(place, size)]

    def amounts_of(self, place: int) -> dict[str, int]:
        """What the claim at the place asks for, by resource."""
        own = self._sizes[place] if place >= 0 else None
        users = [size for at, picks in self.picks.items() if place in picks and (size := self._sizes[at])]
        if own and all(own.has(it) for it in users):
            found = self._raw[place]
        elif own:
            found = _merged([own, *users], own.count, self._cards)
        elif users:
            count = self._extra if place == -WHOLE else max(it.count for it in users)
            found = _merged(users, count, self._cards)
        else:
            return {}
        return {name: amount for name, amount in zip(self._cards.names, found, strict=True) if name and amount}

    def is_raised(self, place: int) -> bool:
        """Whether the container at the place has more of a card than it asked for."""
        own = self._sizes[place]
        users = [size for at, picks in self.picks.items() if place in picks and (size := self._sizes[at])]
        return bool(own and own.kind != WHOLE and not all(own.has(it) for it in users))

    def _usable(self, place: int, *, whole: bool) -> list[tuple[int, _Size]]:
        """The claims of containers that have not started while the init container at the place runs."""
        return [
            (at, size)
            for at in self._running
            if (at < self._apps or at > place) and (size := self._sizes[at]) and (size.kind == WHOLE) == whole
        ]

    def _missing(self, place: int, size: _Size) -> int:
        usable = [*self._usable(place, whole=True), *self._usable(place, whole=False)]
        return max(0, size.count - sum(it.count for _, it in usable))

    def _whole(self, place: int, size: _Size) -> list[int]:
        """Claims with as many cards together. Those of parts become whole, if there are no others."""
        found, wanted = list[int](), size.count
        for at, one in (*self._usable(place, whole=True), *self._usable(place, whole=False)):
            if wanted > 0:
                found.append(at)
                wanted -= one.count
        return found

    def _part(self, place: int, size: _Size) -> int:
        usable = [*self._usable(place, whole=False), *self._usable(place, whole=True)]
        suitable = [(at, it) for at, it in usable if it.count >= size.count and it.kind + size.kind != UNLIKE]
        enough = [at for at, it in suitable if it.kind == WHOLE or it.has(size)]
        extra = [-WHOLE] if self._extra >= size.count else []
        return [*enough, *extra, *(at for at, _ in suitable), -size.kind][0]


def _size(raw: Sequence[int], cards: CardAmounts) -> _Size | None:
    count, memory, percent, cores = raw
    if not any(raw):
        return None
    if cards.unit:
        part = count % cards.unit
        return _Size(cards.unit, MEMORY, part) if part else _Size(count, WHOLE)
    count = count or 1
    if cards.percent_first and percent:
        memory = 0
    if cards.exclusive and cores >= 100:
        return _Size(count, WHOLE, memory)
    if memory:
        return _Size(count, MEMORY, memory, cores=cores)
    if 0 < percent < 100:
        return _Size(count, PERCENT, percent=percent, cores=cores)
    return _Size(count, CORES, cores=cores) if cores else _Size(count, WHOLE)


def _merged(sizes: Sequence[_Size], count: int, cards: CardAmounts) -> tuple[int, int, int, int]:
    """The amounts of ``count`` cards that each have as much as each of ``sizes``."""
    memory = max(it.memory for it in sizes)
    kinds = {it.kind for it in sizes}
    if kinds & {WHOLE} or len(kinds) > 1:
        return (count, memory, 0, 100) if memory and cards.exclusive else (count, 0, 0, 0)
    if cards.unit:
        return memory, 0, 0, 0
    return count, memory, max(it.percent for it in sizes), max(it.cores for it in sizes)
