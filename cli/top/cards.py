"""``lode top cards``: the cards of the cluster, what each is in, and who holds it."""

from collections.abc import Collection
from typing import Final

from cli.fleetview import CardView, FleetView
from cli.fleetview.cards import holder_json, holder_texts, memory_text
from cli.tables import age
from cli.top.measured import CardUsage
from cli.top.question import Question
from cli.top.report import UNKNOWN, Item, Listing, TableColumn

COLUMNS: Final = (
    TableColumn("CARD", "card"),
    TableColumn("UUID", "uuid"),
    TableColumn("TYPE", "type"),
    TableColumn("STATE", "state"),
    TableColumn("HELD-BY", "heldBy"),
    TableColumn("MEM", "memoryHeld", of="memory", form="memory", missing=UNKNOWN),
    TableColumn("CORES", "coresHeld"),
    TableColumn("UTIL", "utilization", form="percent", missing=UNKNOWN),
    TableColumn("IDLE", "idle", missing=UNKNOWN, sort="idleSeconds"),
    TableColumn("LARGEST-FREE", "largestFree", wide=True, form="memory", missing=UNKNOWN),
    TableColumn("PROFILES", "freeProfiles", wide=True),
    TableColumn("FABRIC", "ibCluster", wide=True),
    TableColumn("NVLINK", "nvlinkDomain", wide=True),
)


def report_on(view: FleetView, question: Question, nodes: Collection[str] | None = None) -> Listing:
    """Report on these cards, as far as they are asked for by card, uuid or node; ``nodes`` None stands for all."""
    return Listing(
        tuple(
            _item(card, question.measured.usage(card.facts.uuid))
            for card in view.cards
            if (nodes is None or card.facts.node in nodes)
            and question.shows(card.facts.key, card.facts.uuid, card.facts.node)
            and _is_idle_enough(card, question)
        ),
        view.notes,
    )


def _is_idle_enough(card: CardView, question: Question) -> bool:
    """Whether claims hold it and it has done nothing for as long as was asked for."""
    if not question.idle_seconds:
        return True
    idle = question.measured.usage(card.facts.uuid).idle_seconds
    return card.use != "free" and idle is not None and idle >= question.idle_seconds


def _item(card: CardView, usage: CardUsage) -> Item:
    facts = card.facts
    item = {
        "card": facts.key,
        "uuid": facts.uuid,
        "type": facts.type,
        "state": card.state,
        "use": card.use,
        "closedBy": list(card.closures),
        "heldBy": list(dict.fromkeys(name for one in card.holders for name in holder_texts(one))),
        "holders": [holder_json(card, one) for one in card.holdings],
        "memory": memory_text(facts.memory) if facts.memory else None,
        "memoryHeld": memory_text(card.memory_held) if facts.memory or card.memory_held else None,
        "coresHeld": card.cores_held,
        "utilization": None if usage.utilization is None else round(usage.utilization, 4),
        "idle": _idle_text(usage),
        "idleSeconds": None if usage.idle_seconds is None else round(usage.idle_seconds),
        "largestFree": memory_text(card.largest_free) if facts.memory else None,
        "freeProfiles": list(card.free_profiles),
        "ibCluster": facts.ib_cluster,
        "nvlinkDomain": facts.nvlink_domain,
    }
    return {key: value for key, value in item.items() if value not in (None, "", [])}


def _idle_text(usage: CardUsage) -> str | None:
    """How long it was idle; with ``>`` if it is not known since when."""
    if usage.idle_seconds is None:
        return None
    return age(usage.idle_seconds) if usage.exact else f">{age(usage.idle_seconds)}"
