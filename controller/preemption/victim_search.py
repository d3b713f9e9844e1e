"""Finds the least victims among some pods. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.allocation import Card
from controller.cluster import Cluster
from controller.placement import Placement
from controller.preemption.bonds import Bonds, CannotGo
from controller.preemption.least_set import Least, LeastSet, Trials
from controller.preemption.price import RANK, Price, Prices

Uids = frozenset[str]


@dataclass(frozen=True, slots=True)
class Market:
    """What a search for victims needs, whoever they are for.

    Attributes:
        cluster: where the pods that are being deleted are taken to be gone.
        trials: the trials that all searches may take.
    """

    cluster: Cluster
    bonds: Bonds
    prices: Prices
    trials: Trials

    def candidates(self, uids: Iterable[str]) -> list[Uids]:
        """The sets of pods that go together, for pods that may go, each once, the cheapest first."""
        found = {together for uid in uids if not isinstance(together := self.bonds.together(uid), CannotGo)}
        return sorted(found, key=lambda together: (self.prices.of(together), sorted(together)))


@dataclass(frozen=True, slots=True)
class Found:
    """The least victims (UIDs, in order), and the places that they make; no places if no victims make room.

    Attributes:
        in_vain: number of pods that could be evicted, but whose end makes no room.
        forbidden: pods whose end would make room, but who may not go together, by the reason.
        proven: whether no other set is better.
    """

    victims: tuple[str, ...] = ()
    placements: tuple[Placement, ...] = ()
    in_vain: int = 0
    forbidden: Mapping[str, Collection[str]] = field(default_factory=dict)
    proven: bool = True


class VictimSearch:
    """One search among candidates: sets of pods that go together.

    Args:
        candidates: as of ``Market.candidates``, in any order. Of equal ones, the first to go stands first.
        suffices: whether there is room once these pods are gone.
    """

    def __init__(self, candidates: Sequence[Uids], market: Market, suffices: Callable[[Uids], bool]):
        self._candidates = candidates
        self._market = market
        self._suffices = suffices
        self._chosen: dict[int, tuple[Uids, Price | None]] = {}

    def find(self, most: int = 1, below: Price | None = None) -> Least:
        """Find the least sets of candidates, up to ``most`` of one rank.

        Args:
            below: worse sets need not be found.
        """
        search = LeastSet(len(self._candidates), self._worth(), self._price, self._is_sufficient, self._market.trials)
        return search.find(RANK, most, None if below is None else below[:RANK])

    def victims(self, chosen: int) -> Uids:
        """The pods that go with a set of candidates."""
        return self._pods(chosen)[0]

    def obstacle(self, chosen: int) -> tuple[str, Uids]:
        """Why a forbidden set of candidates cannot go, as a clause about pods; and these pods."""
        together = self._market.bonds.closure(self._pods(chosen)[0])
        return together if isinstance(together, CannotGo) else "", self._pods(chosen)[0]

    def _pods(self, chosen: int) -> tuple[Uids, Price | None]:
        """The pods that go with a set of candidates, and their price; no price if they cannot go."""
        known = self._chosen.get(chosen)
        if known is None:
            parts = [one for at, one in enumerate(self._candidates) if chosen >> at & 1]
            every = frozenset[str]().union(*parts)
            together = every if len(parts) == 1 else self._market.bonds.closure(every)
            # Without the rules for pods together, more sets are sufficient, never fewer.
            known = (every, None) if isinstance(together, CannotGo) else (together, self._market.prices.of(together))
            self._chosen[chosen] = known
        return known

    def _price(self, chosen: int) -> Price | None:
        return self._pods(chosen)[1]

    def _is_sufficient(self, chosen: int) -> bool:
        return self._suffices(self._pods(chosen)[0])

    def _worth(self) -> Sequence[int]:
        """The candidates in the order in which they are spared: by priority; then those on the fullest cards, card by
        card, so that the emptiest cards become free; then the most expensive."""
        prices, load = self._market.prices, Counter[Card]()
        cards = [[prices.cards(uid) for uid in sorted(one)] for one in self._candidates]
        for every in cards:
            for its in every:
                load.update(its)

        def key(at: int) -> tuple[float, float, str, int]:
            price = self._price(1 << at)
            fullest = min(((-load[card], str(card)) for every in cards[at] for card in every), default=(0, ""))
            return -(price[0] if price else 0), *fullest, -at

        return sorted(range(len(self._candidates)), key=key)


def needed(parts: Iterable[Uids], suffices: Callable[[Uids], bool]) -> Sequence[Uids]:
    """The parts without those that can be spared, the first ones first; all of them together suffice."""
    kept = dict.fromkeys(parts)
    for one in tuple(kept):
        del kept[one]
        if not suffices(frozenset[str]().union(*kept)):
            kept[one] = None
    return tuple(kept)


def in_order(victims: Uids, bonds: Bonds, needed_of: Callable[[Sequence[Uids]], Iterable[Uids]]) -> tuple[str, ...]:
    """The victims in the order in which they are evicted (``Preemption.victims``).

    Args:
        needed_of: of single victims, the ones that have to go to make room.
    """
    holders = [bonds.holders[uid] for uid in victims]
    holders.sort(key=lambda holder: (holder.priority, -holder.created, holder.pod))
    order = [holder.uid for holder in holders]
    if any(map(bonds.is_bound, holders)):
        in_the_way = frozenset[str]().union(*needed_of([frozenset((uid,)) for uid in order]))
        order.sort(key=in_the_way.__contains__)
    return tuple(order)
