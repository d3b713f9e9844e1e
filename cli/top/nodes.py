"""``lode top nodes``: the cards of each node, by what they are in, and the most that is free on one of them."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from cli.fleetview import CardView, FleetView
from cli.fleetview.cards import memory_text
from cli.top.question import Question
from cli.top.report import UNKNOWN, Item, Listing, TableColumn

COLUMNS: Final = (
    TableColumn("NODE", "node"),
    TableColumn("TYPE", "types"),
    TableColumn("CARDS", "cards"),
    TableColumn("WHOLE", "whole"),
    TableColumn("SHARED", "shared"),
    TableColumn("PARTITIONED", "partitioned"),
    TableColumn("FREE", "free"),
    TableColumn("BAD", "bad"),
    TableColumn("MEM", "memoryHeld", of="memory", form="memory", missing=UNKNOWN),
    TableColumn("UTIL", "utilization", form="percent", missing=UNKNOWN),
    TableColumn("LARGEST-FREE", "largestFree", form="memory", missing=UNKNOWN),
    TableColumn("UNHEALTHY", "unhealthy", wide=True),
    TableColumn("FOREIGN", "foreign", wide=True),
    TableColumn("CORDONED", "cordoned", wide=True),
    TableColumn("FABRIC", "ibClusters", wide=True),
)


def report_on(view: FleetView, question: Question, nodes: Collection[str] | None = None) -> Listing:
    """Report on these nodes, as far as they are asked for by name; ``nodes`` None stands for all."""
    return Listing(
        tuple(
            _item(node, cards, question)
            for node, cards in view.by_node().items()
            if (nodes is None or node in nodes) and question.shows(node)
        ),
        view.notes,
    )


def _item(node: str, cards: Sequence[CardView], question: Question) -> Item:
    """Each card counts once: by its use, or as bad if it is closed and nobody holds it."""
    uses = Counter(card.use if card.use != "free" or card.is_free else "bad" for card in cards)
    known = [used for card in cards if (used := question.measured.usage(card.facts.uuid).utilization) is not None]
    mean = {"utilization": round(sum(known) / len(known), 4)} if known else {}
    memory = sum(card.facts.memory for card in cards)
    amounts = {
        "memory": memory_text(memory),
        "memoryHeld": memory_text(sum(card.memory_held for card in cards)),
        "largestFree": memory_text(max(card.largest_free for card in cards)),
    }
    closures = Counter(closure for card in cards for closure in card.closures)
    return {
        "node": node,
        "types": sorted({card.facts.type for card in cards if card.facts.type}),
        "cards": len(cards),
        **{use: uses[use] for use in ("whole", "shared", "partitioned", "free", "bad")},
        **mean,
        **(amounts if memory else {}),
        **{closure: closures[closure] for closure in ("unhealthy", "foreign", "cordoned")},
        "ibClusters": sorted({card.facts.ib_cluster for card in cards if card.facts.ib_cluster}),
    }
