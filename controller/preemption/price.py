"""What it costs to evict pods: the order in which sets of victims are compared. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from controller.allocation import Card, Fleet
from controller.preemption.bonds import Bonds
from driver.model import Claim

Price = tuple[float, ...]
"""Compared part by part; less is better: the highest priority of those with devices, the parts of cards that are lost,
the number of pods, and then the ages, that of the oldest pod first."""
RANK: Final = 3
"""The parts of a price without the ages."""


class Prices:
    """Prices of pods that go together."""

    def __init__(self, fleet: Fleet, bonds: Bonds):
        self._fleet = fleet
        self._bonds = bonds
        self._cards: dict[str, Mapping[Card, int]] = {}
        self._parts: dict[str, int] = {}
        self._alone: dict[str, Price] = {}

    def of(self, uids: Collection[str]) -> Price:
        """The price of these pods, at least one, which are all that go."""
        if len(uids) == 1:
            (uid,) = uids
            return self._of_one(uid)
        holders = [self._bonds.holders[uid] for uid in uids]
        claims = {claim.uid: claim for holder in holders for claim in holder.claims}
        return (
            max([holder.priority for holder in holders if holder.claims] or [holder.priority for holder in holders]),
            sum([self._parts_of(claim) for claim in claims.values()]),
            len(holders),
            *[-created for created in sorted([holder.created for holder in holders])],
        )

    def _of_one(self, uid: str) -> Price:
        known = self._alone.get(uid)
        if known is None:
            one = self._bonds.holders[uid]
            known = one.priority, sum([self._parts_of(claim) for claim in one.claims]), 1, -one.created
            self._alone[uid] = known
        return known

    def cards(self, uid: str) -> Mapping[Card, int]:
        """The cards that the pod takes, and how much of each."""
        found: dict[Card, int] = {}
        for claim in self._bonds.holders[uid].claims:
            for card, parts in self._cards_of(claim).items():
                found[card] = found.get(card, 0) + parts
        return found

    def _parts_of(self, claim: Claim) -> int:
        known = self._parts.get(claim.uid)
        if known is None:
            known = self._parts[claim.uid] = sum(self._cards_of(claim).values())
        return known

    def _cards_of(self, claim: Claim) -> Mapping[Card, int]:
        known = self._cards.get(claim.uid)
        if known is None:
            known = self._fleet.card_parts(claim.allocation) if claim.allocation else {}
            self._cards[claim.uid] = known
        return known
