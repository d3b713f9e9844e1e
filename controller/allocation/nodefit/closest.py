"""The set of cards that are closest to one another, where pairs of cards differ in their links. Pure.

The question
    A request wants several cards of a node that are close to one another. Where any two cards of a domain have as many
    links, the values that cards have in common tell how close they are (``device_order``). Elsewhere, as in a DGX-1 or
    with bridges, a set is as good as its pairs. Of two sets the better one, compared in this order,

    1. has cards of fewer domains;
    2. has more links between those two of its cards that have the fewest;
    3. has more links between that one of its cards that has the fewest and all others;
    4. has more links in all;
    5. is behind fewer PCIe switches, then at fewer PCIe roots, then on fewer NUMA nodes;
    6. is preferred by the policy, for what it leaves: ``binpack`` prefers fewer links to cards that stay free, then
       fewer cards that stay free in the same domains, at the same switches, and so on; ``spread`` prefers more;
    7. comes first, card by card.

What is published
    A card says in an attribute how many links it has to others of its domain, by their numbers on the node:
    ``1:2,3:1``. Links between two cards are those that either of them says. In a domain of which no card says any, two
    cards count as having one. Where nobody says any, there is nothing to compare, and the values that cards have in
    common decide.

How it is answered
    Sets are built card by card in order, so each is built once. A set begun has a bound: no set that begins like it is
    better than that. It takes the links that the cards that may follow have to the set, and to the best of all others,
    and the domains, switches and so on that the set has already. If the bound is not better than the best set so far,
    nothing that begins like it is built. A step adds one card. A budget of steps may end the search; then the best set
    so far is the answer. It never ends one among thirteen cards or fewer, which have at most 8,191 sets.

An example
    The first four cards of a DGX-1 have two links between 0 and 3, 1 and 2, 2 and 3, and one between any others. Two
    cards are at each of two switches. Three are asked for:

        =======  =======  ===============================================================
        step     set      what follows
        =======  =======  ===============================================================
        1, 2, 3  0 1 2    between two of them at least one link, and four in all
        4        0 1 3    the same, and later
        5, 6     0 2 3    at least one link, and five in all: the best so far
        7        0 3      no card is left to follow
        8        1        at best as many links, and behind one switch instead of two
        9        1 2      at best as many links, and behind two switches: closed
        10       1 3      no card is left to follow
        11, 12   2        and 3: too few are left to follow
        =======  =======  ===============================================================

    ``tests/unit/controller/allocation/nodefit/test_closest.py`` plays this.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from controller.allocation.devices.layout import bits
from controller.allocation.preferences import PolicyRanks
from controller.allocation.requests import RequestChoice
from controller.allocation.rules import values_of
from controller.allocation.search.attempt import Candidate
from driver.model import Device, UnreadableValue

MOST_CARDS: Final = 32
"""Most free cards that are compared by links. No machine has as many; any driver can publish thousands that say so, and
comparing 512 of them takes 20 seconds."""
_LINKS: Final = re.compile(r"(\d+:\d+)(,\d+:\d+)*", re.ASCII)
STEP_LIMIT: Final = 10_000
"""The most cards that a search adds."""
_MOST_ANSWERS: Final = 4_096
_NO_PAIR: Final = 1 << 30
"""The fewest links between two cards of a set without two cards."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Free cards of a node, by number.

    Attributes:
        links: the number of links between two of them.
        groups: what they have in common: for the domain, the PCIe switch and so on, the group of each card.
        apart: for each card, those that cannot be in a set with it, as bits; its own bit if no set can have it.
    """

    links: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    apart: tuple[int, ...]


class ClosestSet(NamedTuple):
    """The best set of cards.

    Attributes:
        cards: in order.
        least: the fewest links between two of them.
        weakest: the fewest links that one of them has to all others.
        total: the number of links between any of them.
        steps: the number of cards that the search has added.
    """

    cards: tuple[int, ...]
    least: int
    weakest: int
    total: int
    steps: int


@dataclass(frozen=True, slots=True)
class LinkedCards:
    """Candidates of a request whose links differ.

    Attributes:
        strongest: the most links that one of them has to another card of the node, free or not.
    """

    cards: Cards
    strongest: int

    def best(self, wanted: int, ranks: PolicyRanks) -> ClosestSet | None:
        """The best set of so many candidates, at least two, by their positions; None if there is none.

        Args:
            ranks: of the policy that decides between sets that are equally close.
        """
        return closest(self.cards, wanted, ranks)

    def lacking(self, found: ClosestSet) -> int:
        """How many links a set has less than one in which any two cards have as many as the strongest pair."""
        pairs = len(found.cards) * (len(found.cards) - 1) // 2
        return self.strongest * pairs - found.total


def linked(choice: RequestChoice, candidates: Sequence[Candidate]) -> LinkedCards | None:
    """The candidates as cards with links; None if none of them says links, if they are more than ``MOST_CARDS``, or if
    the request does not ask for locality."""
    preference = choice.preference
    if preference.links is None or len(candidates) > MOST_CARDS:
        return None
    links_at, number_at = preference.links
    devices = [one.device.spec for one in candidates]
    said = [links_in(device.attributes.get(links_at)) for device in devices]
    if not any(said):
        return None
    groups = [_groups([value_of(one, attribute) for one in candidates]) for attribute in preference.near]
    speaking = {groups[0][at] for at, links in enumerate(said) if links}
    numbers = [device.attributes.get(number_at) for device in devices]

    def between(one: int, other: int) -> int:
        if one == other or groups[0][one] != groups[0][other]:
            return 0
        if groups[0][one] not in speaking:
            return 1
        return max(said[one].get(numbers[other], 0), said[other].get(numbers[one], 0))

    every = range(len(candidates))
    cards = Cards(
        links=tuple([tuple([between(one, other) for other in every]) for one in every]),
        groups=tuple(groups),
        apart=_apart(choice, devices),
    )
    return LinkedCards(cards, max(number for links in said for number in links.values()))


@lru_cache(maxsize=_MOST_ANSWERS)
def _links_of(text: str) -> Mapping[object, int]:
    if not _LINKS.fullmatch(text):
        return {}
    return {int(number): int(links) for number, _, links in (one.partition(":") for one in text.split(","))}


def links_in(value: object) -> Mapping[object, int]:
    """The links in the value of an attribute, by the numbers of cards; none if it is no such value."""
    return _links_of(value) if isinstance(value, str) else {}


def value_of(candidate: Candidate, attribute: str) -> Hashable:
    """What the device has in common with others that have the same: its value, or itself if it has none."""
    value = candidate.device.spec.attributes.get(attribute, "")
    return candidate.device if value == "" or isinstance(value, UnreadableValue) else (value,)


def _groups(values: Sequence[Hashable]) -> tuple[int, ...]:
    """For each value, the first position that has it."""
    first: dict[Hashable, int] = {}
    return tuple([first.setdefault(value, at) for at, value in enumerate(values)])


def _apart(choice: RequestChoice, devices: Sequence[Device]) -> tuple[int, ...]:
    """For each device those that cannot be picked with it, by the constraints of the choice, and itself if it cannot be
    picked at all."""
    found = [0] * len(devices)
    for attribute in (*choice.match_attributes, *choice.distinct_attributes):
        values = [values_of(device, attribute) for device in devices]
        differ = attribute in choice.distinct_attributes
        for one, own in enumerate(values):
            for other, others in enumerate(values):
                barred = not own if one == other else bool(own & others) == differ
                found[one] |= barred << other
    return tuple(found)


@lru_cache(maxsize=_MOST_ANSWERS)
def closest(cards: Cards, wanted: int, ranks: PolicyRanks) -> ClosestSet | None:
    """The best set of at least two cards; None if there is none. Equal nodes have the same answer.

    Args:
        ranks: of the policy that decides between sets that are equally close.
    """
    search = _Search(cards, wanted, ranks)
    usable = sum(1 << card for card, apart in enumerate(cards.apart) if not apart >> card & 1)
    search.extend((), (_NO_PAIR, 0), usable)
    return search.best and search.best._replace(steps=search.steps)


_Links = tuple[int, int]
"""The fewest links between two cards of a set, and the number of links between any of them."""
Nearness = tuple[int, ...]
"""What decides between sets before the policy does, in order; the smallest is best."""


def nearness(cards: Cards, chosen: tuple[int, ...]) -> Nearness:
    """How near the cards of a set of at least two are."""
    rows = [[cards.links[one][other] for other in chosen if other != one] for one in chosen]
    of_cards = [sum(row) for row in rows]
    return _nearness(cards, chosen, min(map(min, rows)), min(of_cards), sum(of_cards) // 2)


def _nearness(cards: Cards, chosen: tuple[int, ...], *links: int) -> Nearness:
    domains, *wider = [len({group[card] for card in chosen}) for group in cards.groups]
    return domains, *[-number for number in links], *wider


class _Search:
    def __init__(self, cards: Cards, wanted: int, ranks: PolicyRanks):
        self._cards = cards
        self._wanted = wanted
        self._ranks = ranks
        self._strongest = [sorted(row, reverse=True)[: wanted - 1] for row in cards.links]
        """Of each card, the most links to others; its own 0 is among them only if there are too few others."""
        self._near: Nearness = ()
        self._left: tuple[int, ...] = ()
        """Of the best set, how near it is, and how the policy ranks what it leaves."""
        self.best: ClosestSet | None = None
        self.steps = 0

    def extend(self, chosen: tuple[int, ...], links: _Links, others: int) -> None:
        """Build the sets that begin with the cards chosen.

        Args:
            others: the cards that may follow, as bits.
        """
        for card in bits(others):
            if self.steps == STEP_LIMIT:
                return
            self.steps += 1
            row = self._cards.links[card]
            least = min([links[0], *[row[other] for other in chosen]])
            now = (*chosen, card), (least, links[1] + sum([row[other] for other in chosen]))
            if len(now[0]) == self._wanted:
                self._compare(*now)
                continue
            after = (others >> card + 1 << card + 1) & ~self._cards.apart[card]
            if after.bit_count() >= self._wanted - len(now[0]) and not self._is_closed(*now, after):
                self.extend(*now, after)

    def _compare(self, chosen: tuple[int, ...], links: _Links) -> None:
        weakest = min([sum([self._cards.links[card][other] for other in chosen]) for card in chosen])
        near = _nearness(self._cards, chosen, links[0], weakest, links[1])
        if self.best is not None and near > self._near:
            return
        left = self._ranks.of_group(self._left_by(chosen, links)) if self._ranks.prefers else ()
        if self.best is None or (near, left) < (self._near, self._left):
            self._near, self._left, self.best = near, left, ClosestSet(chosen, links[0], weakest, links[1], 0)

    def _is_closed(self, chosen: tuple[int, ...], links: _Links, others: int) -> bool:
        """Whether no set that begins like this can be better than the best one. Sets that come later lose a tie."""
        if self.best is None:
            return False
        missing = self._wanted - len(chosen)
        pairs, cards, doubled = list[int](), list[int](), list[int]()
        for card in bits(others):
            row, strongest = self._cards.links[card], self._strongest[card]
            to_set = [row[other] for other in chosen]
            among = sum(strongest[: missing - 1])
            pairs.append(min([*to_set, strongest[-1]]))
            cards.append(sum(to_set) + among)
            # A link between two of those that follow counts for both.
            doubled.append(2 * sum(to_set) + among)
        least = min(links[0], sorted(pairs)[-missing])
        weakest = min([sorted(cards)[-missing], *[self._most(card, chosen) for card in chosen]])
        total = links[1] + sum(sorted(doubled)[-missing:]) // 2
        bound = _nearness(self._cards, chosen, least, weakest, total)
        return bound > self._near or (bound == self._near and not self._ranks.prefers)

    def _most(self, card: int, chosen: tuple[int, ...]) -> int:
        """A card's links to the set that it is in, and the most that it can have to those that follow."""
        row = self._cards.links[card]
        return sum([row[other] for other in chosen]) + sum(self._strongest[card][: self._wanted - len(chosen)])

    def _left_by(self, chosen: tuple[int, ...], links: _Links) -> list[int]:
        """The links of the set to other cards, and how many cards each kind of group has that the set is in."""
        own = [{group[card] for card in chosen} for group in self._cards.groups]
        together = [sum([one in had for one in group]) for had, group in zip(own, self._cards.groups, strict=True)]
        return [sum([sum(self._cards.links[card]) for card in chosen]) - 2 * links[1], *together]
