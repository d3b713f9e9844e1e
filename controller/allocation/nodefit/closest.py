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

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from controller.allocation.devices.layout import bits
from controller.allocation.preferences import PolicyRanks

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
