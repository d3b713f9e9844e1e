"""``lode top cards``: the cards of the cluster, what each is in, and who holds it."""

from collections.abc import Collection
from typing import Final

from cli import live
from cli.fleetview import CardView, FleetView, read_fleet
from cli.fleetview.printed import holder_json, holder_texts, memory_text
from cli.top.question import Question
from cli.top.report import Item, Listing, TableColumn
from driver.kube.api import NODES, Api

COLUMNS: Final = (
    TableColumn("CARD", "card"),
    TableColumn("UUID", "uuid"),
    TableColumn("TYPE", "type"),
    TableColumn("STATE", "state"),
    TableColumn("HELD-BY", "heldBy"),
    TableColumn("MEM", "memoryHeld", of="memory", form="memory"),
    TableColumn("CORES", "coresHeld"),
    TableColumn("LARGEST-FREE", "largestFree", wide=True, form="memory"),
    TableColumn("PROFILES", "freeProfiles", wide=True),
    TableColumn("FABRIC", "ibCluster", wide=True),
    TableColumn("NVLINK", "nvlinkDomain", wide=True),
)


def report(api: Api, question: Question) -> Listing:
    """Report on the cards of all nodes, or of those with labels.

    Raises:
        OperatorFault: see ``read_fleet``.
    """
    view = read_fleet(api, question.names)
    return report_on(view, question, labelled_nodes(api, question))


def labelled_nodes(api: Api, question: Question) -> Collection[str] | None:
    """Return the names of the nodes that a selector asks for; None without one.

    Raises:
        OperatorFault: see ``live.each``.
    """
    if not question.selector:
        return None
    return {node["metadata"]["name"] for node in live.each(api, NODES, label_selector=question.selector)}


def report_on(view: FleetView, question: Question, nodes: Collection[str] | None = None) -> Listing:
    """Report on these cards, as far as they are asked for by card, uuid or node; ``nodes`` None stands for all."""
    return Listing(
        tuple(
            _item(card)
            for card in view.cards
            if (nodes is None or card.facts.node in nodes)
            and question.shows(card.facts.key, card.facts.uuid, card.facts.node)
        ),
        view.notes,
    )


def _item(card: CardView) -> Item:
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
        "memoryHeld": memory_text(card.memory_held),
        "coresHeld": card.cores_held,
        "largestFree": memory_text(card.largest_free),
        "freeProfiles": list(card.free_profiles),
        "ibCluster": facts.ib_cluster,
        "nvlinkDomain": facts.nvlink_domain,
    }
    return {key: value for key, value in item.items() if value not in (None, "", [])}
