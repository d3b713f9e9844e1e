"""The free cards of a request as ``closest`` compares them, by what is published about them. Pure.

A card says in an attribute how many links it has to others of its domain, by their numbers on the node: ``1:2,3:1``.
Links between two cards are those that either of them says. In a domain of which no card says any, two cards count as
having one. Where nobody says any, there is nothing to compare, and the values that cards have in common decide.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from controller.allocation.nodefit.closest import Cards, ClosestSet, closest
from controller.allocation.preferences import PolicyRanks
from controller.allocation.requests import RequestChoice
from controller.allocation.rules import values_of
from controller.allocation.search.attempt import Candidate
from driver.model import Device, UnreadableValue

MOST_CARDS: Final = 32
"""Most free cards that are compared by links. No machine has as many; any driver can publish thousands that say so, and
comparing 512 of them takes 20 seconds."""
_LINKS: Final = re.compile(r"(\d+:\d+)(,\d+:\d+)*", re.ASCII)


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


@lru_cache(maxsize=4096)
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
