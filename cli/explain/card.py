"""A card explained: who holds what of it, what is still to be had, and what keeps claims from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cli import live
from cli.cards.card import cards_of, find, parse
from cli.cards.rules import KnownRule, known_rules
from cli.fleetview import CardHolding, CardView, ViewBuilder
from cli.fleetview.cards import amount_texts, holder_json, memory_text
from cli.tables import since_text, table
from driver.errors import OperatorFault
from driver.kinds import Closure
from driver.kube.api import DEVICE_TAINT_RULES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.names import Names
from driver.wire import Json

_REASONS: Final[dict[Closure, str]] = {
    "unhealthy": "the plugin of its node says that it does not work; its log says why, and lode drain empties the card",
    "foreign": "another driver hands it out, or somebody else made partitions on it; see lode inventory on the node",
    "releasing": "an earlier claim is not off it yet; it opens by itself",
    "unpublished": "its node does not publish it any more; the log of the plugin there says why",
}
_USES: Final = {
    "free": "is held by nobody",
    "whole": "is held as a whole",
    "shared": "is shared",
    "partitioned": "is held in partitions",
}


@dataclass(frozen=True, slots=True)
class ExplainedCard:
    """A card with what closes it, in words.

    Attributes:
        closures: what keeps claims from it, each with the remedy.
        notes: gaps in the answer.
    """

    card: CardView
    closures: tuple[tuple[Closure, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether no claim gets anything of it."""
        return bool(self.closures)

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        card, facts = self.card, self.card.facts
        return {
            "kind": "Card",
            "node": facts.node,
            "name": facts.name,
            "uuid": facts.uuid,
            "type": facts.type,
            "use": card.use,
            "memory": memory_text(facts.memory),
            "memoryHeld": memory_text(card.memory_held),
            "coresHeld": card.cores_held,
            "largestFree": memory_text(card.largest_free),
            "freeProfiles": list(card.free_profiles),
            "ibCluster": facts.ib_cluster,
            "nvlinkDomain": facts.nvlink_domain,
            "holders": [holder_json(card, one) for one in card.holdings],
            "closedBy": [{"closure": closure, "message": why} for closure, why in self.closures],
            "notes": list(self.notes),
        }

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""
        card, facts = self.card, self.card.facts
        known = ", ".join(part for part in (facts.type, facts.uuid) if part)
        parts = [f"Card {facts.key}{f' ({known})' if known else ''} {_USES[card.use]}. {self._rest()}"]
        parts += [f"It is {closure}: {why}." for closure, why in self.closures]
        fabric = [f"InfiniBand cluster {facts.ib_cluster}"] if facts.ib_cluster else []
        fabric += [f"NVLink domain {facts.nvlink_domain}"] if facts.nvlink_domain else []
        parts += [f"It is in {' and '.join(fabric)}."] if fabric else []
        if card.holdings:
            header = ("NAMESPACE", "CLAIM", "POD", "DEVICE", "MEMORY", "CORES", "SINCE")
            parts.append(table(header, [_row(one, now) for one in card.holdings]))
        return "\n\n".join(parts)

    def _rest(self) -> str:
        """What a claim can still get of it."""
        if self.closures:
            return "No claim gets anything of it."
        free, profiles = self.card.largest_free, self.card.free_profiles
        if not self.card.facts.memory and self.card.free_slots:
            return f"{self.card.free_slots} of its {self.card.slots} slots are free."
        if not self.card.facts.memory and self.card.is_free:
            return "A claim can get all of it; nothing says how much memory it has."
        if not free:
            return "Nothing of it is left."
        more = f"; the partitions that fit are {', '.join(profiles)}" if profiles else ""
        return (
            f"A claim can get up to {memory_text(free)} of its {memory_text(self.card.facts.memory)} of memory{more}."
        )


def explain_card(api: Api, what: str, names: Names) -> ExplainedCard:
    """Explain the card that ``NODE/CARD`` names: by a device, its index, or its uuid or the beginning of that.

    Raises:
        NoRights: the user may not list slices or claims.
        OperatorFault: there is no such card; the message has the candidates.
    """
    node, wanted = parse(what)
    if not wanted:
        raise OperatorFault(f"{what!r} names no card; write card/NODE/CARD, such as card/node-1/gpu-3")
    builder = ViewBuilder(names)
    selector = f"spec.nodeName={node},spec.driver={names.driver}"
    slices = live.list_all(api, RESOURCE_SLICES, field_selector=selector)
    builder.add_slices(slices)
    builder.add_claims(live.each(api, RESOURCE_CLAIMS))
    rules, notes = _rules(api, builder, names)
    closed = _closed_node(api, builder, node)
    view = builder.view()
    cards = {card.facts.name: card for card in view.cards if card.facts.node == node}
    card = cards.get(wanted) or cards[find(node, wanted, cards_of(node, slices, names)).name]
    return ExplainedCard(card, tuple(_closures(card, rules, closed, names)), (*notes, *view.notes))


def _rules(api: Api, builder: ViewBuilder, names: Names) -> tuple[Sequence[KnownRule], list[str]]:
    try:
        rules = live.list_all(api, DEVICE_TAINT_RULES)
    except live.NoRights as error:
        return (), [f"{error.missing[0]}: a card that rules close looks open"]
    builder.add_rules(rules)
    return known_rules(rules, names), []


def _closed_node(api: Api, builder: ViewBuilder, node: str) -> bool:
    try:
        found: Object | None = live.get_one(api, NODES, node, "")
    except live.NoRights as error:
        builder.add_note(f"{error.missing[0]}: a card of a node that takes no pods looks open")
        return False
    builder.add_nodes([found] if found else [])
    return bool(found and (found.get("spec") or {}).get("unschedulable"))


def _closures(
    card: CardView, rules: Sequence[KnownRule], closed_node: bool, names: Names
) -> Iterator[tuple[Closure, str]]:
    for closure in card.closures:
        if closure != "cordoned":
            yield closure, _REASONS[closure]
            continue
        pool, devices = names.pool(card.facts.node), [f"{card.facts.name}{part.suffix}" for part in card.facts.parts]
        by = sorted(
            {one.rule.name for one in rules if one.closes and any(one.selects(pool, it, names) for it in devices)}
        )
        if closed_node:
            yield closure, f"its node takes no pods; kubectl uncordon {card.facts.node} opens it"
        if by:
            named = f"by the DeviceTaintRules {', '.join(by)}" if len(by) > 1 else f"by the DeviceTaintRule {by[0]}"
            yield closure, f"{named}; lode uncordon {card.facts.key} removes what lode cordon has made"


def _row(one: CardHolding, now: float) -> tuple[str, ...]:
    return (
        one.namespace,
        one.claim,
        ",".join(one.users) or "<none>",
        one.device,
        *amount_texts(one),
        since_text(one.since, now),
    )
