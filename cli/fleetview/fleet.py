"""The view: every card with what claims hold of it and what rules close it, in the order of nodes. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cli.cards.rules import KnownRule, known_rules
from cli.fleetview.cards import ALL_CORES, CardHolding, CardView, FleetCard
from cli.fleetview.published import UNREADABLE, PublishedCards, ReadSlice, left_out
from driver.device_facts import card_of
from driver.kinds import CardUse, Closure
from driver.kube.api import RESOURCE_CLAIMS, Object
from driver.model import Claim, Consumer, Result
from driver.names import Names
from driver.wire import claim_from

Place = tuple[str, str]
"""Node and card."""
_SHARE: Final = "-share"


def holdings_of(claim: Claim, names: Names) -> Iterator[tuple[Place, CardHolding]]:
    """Yield what the claim holds of cards of the driver. Amounts are those of the allocation, which has few."""
    ending = names.pool("")
    for result in claim.allocation.results if claim.allocation else ():
        device = result.device
        if device.driver == names.driver and device.pool.endswith(ending):
            yield (
                (device.pool.removesuffix(ending), card_of(device.device)),
                CardHolding(
                    namespace=claim.namespace,
                    claim=claim.name,
                    device=device.device,
                    use=_use_of(device.device),
                    users=tuple(map(user_text, claim.reserved_for)),
                    looks_on=result.admin_access,
                    since=claim.allocation.timestamp if claim.allocation else "",
                    **_amounts(result),
                ),
            )


def with_amounts(holding: CardHolding, card: FleetCard) -> CardHolding:
    """Return the holding with the amounts that its device is published with: those of ``controller.quotas.price``."""
    if holding.use == "shared" or holding.looks_on:
        return holding
    part = card.part(holding.device)
    return replace(holding, memory=part.memory if part else None, cores=(part.cores if part else 0) or ALL_CORES)


def user_text(consumer: Consumer) -> str:
    """Return a pod by its name, and another consumer with its kind."""
    return consumer.name if consumer.is_pod else f"{consumer.resource}/{consumer.name}"


def _amounts(result: Result) -> Mapping[str, int]:
    if not result.share_id or result.admin_access:
        return {}
    named = ("memory", "cores", "slots")
    return {name: result.consumed[name].value if name in result.consumed else 0 for name in named}


def _use_of(device: str) -> CardUse:
    if device == card_of(device):
        return "whole"
    return "shared" if device.endswith(_SHARE) else "partitioned"


class ClosedByRules:
    """Says which cards rules close, in a time that does not grow with the number of rules."""

    def __init__(self, rules: Iterable[KnownRule], names: Names):
        self._names = names
        self._by_place: set[tuple[str, str]] = set()
        """Pool and device; "" stands for each."""
        for one in rules:
            if one.closes and one.rule.driver in ("", names.driver):
                self._by_place.add((one.rule.pool, one.rule.device))

    def closes(self, card: FleetCard) -> bool:
        """Return whether no device of the card is given to a claim that tolerates nothing."""
        if not self._by_place:
            return False
        pool = self._names.pool(card.node)
        if {("", ""), (pool, "")} & self._by_place:
            return True
        devices = [f"{card.name}{part.suffix}" for part in card.parts] or [card.name]
        return all({(pool, device), ("", device)} & self._by_place for device in devices)


@dataclass(frozen=True, slots=True)
class FleetView:
    """The cards of a cluster, node by node.

    Attributes:
        notes: what was left out, and why.
    """

    cards: tuple[CardView, ...]
    notes: tuple[str, ...] = ()

    def by_node(self) -> dict[str, list[CardView]]:
        """Return the cards of each node."""
        found: dict[str, list[CardView]] = {}
        for card in self.cards:
            found.setdefault(card.facts.node, []).append(card)
        return found


class ViewBuilder:
    """Collects what a view is made of from objects, in any order, and keeps only what the view needs of each."""

    def __init__(self, names: Names):
        self._names = names
        self._published = PublishedCards(names)
        self._held: dict[Place, list[CardHolding]] = {}
        self._rules: list[Object] = []
        self._closed_nodes: set[str] = set()
        self._notes: list[str] = []

    def add_slices(self, slices: Iterable[Object]) -> None:
        """Add ResourceSlices, of any driver."""
        for raw in slices:
            self._published.add(raw)

    def add_claims(self, claims: Iterable[Object]) -> None:
        """Add ResourceClaims; what cannot be read is left out with a note."""
        for raw in claims:
            try:
                claim = claim_from(raw)
            except UNREADABLE as error:
                self._notes.append(left_out(RESOURCE_CLAIMS, raw, error))
            else:
                self.add_held(claim)

    def add_held(self, claim: Claim) -> None:
        """Add what a claim holds."""
        for place, holding in holdings_of(claim, self._names):
            self._held.setdefault(place, []).append(holding)

    def add_read(self, slices: Iterable[ReadSlice]) -> None:
        """Add slices that were read."""
        for one in slices:
            self._published.add_read(one)

    def add_rules(self, rules: Iterable[Object]) -> None:
        """Add DeviceTaintRules."""
        self._rules += rules

    def add_nodes(self, nodes: Iterable[Object]) -> None:
        """Add Nodes: the cards of one that takes no pods are closed."""
        for raw in nodes:
            spec = raw.get("spec")
            if isinstance(spec, dict) and spec.get("unschedulable") is True:
                self._closed_nodes.add(str(raw["metadata"]["name"]))

    def close_nodes(self, nodes: Iterable[str]) -> None:
        """Add nodes that take no pods, by name."""
        self._closed_nodes.update(nodes)

    def add_note(self, text: str) -> None:
        """Add a note on a gap in the view."""
        self._notes.append(text)

    def view(self) -> FleetView:
        """Return the view of everything that was added."""
        rules = ClosedByRules(known_rules(self._rules, self._names), self._names)
        cards = [self._card(card, rules) for card in self._published.cards()]
        seen = {(card.facts.node, card.facts.name) for card in cards}
        cards += [self._lost(place) for place in sorted(self._held) if place not in seen]
        cards.sort(key=lambda card: card.facts.node)
        return FleetView(tuple(cards), (*self._published.notes, *self._notes))

    def _card(self, card: FleetCard, rules: ClosedByRules) -> CardView:
        held = self._held.get((card.node, card.name), ())
        holdings = tuple(with_amounts(one, card) for one in held)
        return CardView(card, holdings, tuple(self._closures(card, rules)))

    def _closures(self, card: FleetCard, rules: ClosedByRules) -> Iterator[Closure]:
        if self._names.unhealthy in card.taints:
            yield "unhealthy"
        if self._names.attribute("other-driver") in card.taints or (card.counters and card.is_partly_taken):
            yield "foreign"
        if card.node in self._closed_nodes or rules.closes(card):
            yield "cordoned"
        if self._names.attribute("releasing") in card.taints:
            yield "releasing"

    def _lost(self, place: Place) -> CardView:
        """A card that claims hold and no node publishes."""
        facts = FleetCard(*place)
        return CardView(facts, tuple(with_amounts(one, facts) for one in self._held[place]), ("unpublished",))
