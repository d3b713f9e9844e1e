"""``lode top gangs``: how many members each gang has and needs, where they are, and why it waits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cli import live
from cli.fleetview import FleetView, ViewBuilder, read_cards
from cli.top.question import Question
from cli.top.report import Item, Listing, TableColumn
from controller.allocation import Fleet
from controller.membership import GangTerms
from controller.state import GANG_RESOURCES, PodView, State
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api

COLUMNS: Final = (
    TableColumn("NAMESPACE", "namespace"),
    TableColumn("GANG", "gang"),
    TableColumn("MEMBERS", "members", of="size"),
    TableColumn("NEEDED", "needed"),
    TableColumn("ALLOCATED", "allocated"),
    TableColumn("RUNNING", "running"),
    TableColumn("CARDS", "cards"),
    TableColumn("NODES", "nodes"),
    TableColumn("FABRIC", "ibClusters"),
    TableColumn("WAITS-FOR", "reason"),
    TableColumn("POLICY", "policy", wide=True),
    TableColumn("MESSAGE", "message", wide=True),
)


def report(api: Api, question: Question) -> Listing:
    """Report on the gangs of the namespace, or on those of pods with labels.

    Raises:
        OperatorFault: see ``live.each``.
    """
    state = State(Fleet(names=question.names), question.names)
    builder, missing = ViewBuilder(question.names), list[live.MissingRight]()
    for resource in (RESOURCE_CLAIMS, PODS, *GANG_RESOURCES):
        selector = question.selector if resource == PODS else ""
        try:
            for raw in live.each(api, resource, question.namespace, label_selector=selector):
                for problem in state.put(resource, raw).unreadable:
                    builder.add_note(f"{problem}: left out")
                if resource == RESOURCE_CLAIMS:
                    builder.add_claims([raw])
        except live.NoRights as error:
            if resource not in GANG_RESOURCES:
                raise
            missing += error.missing
    try:
        read_cards(api, builder)
    except live.NoRights as error:
        builder.add_note(f"{error.missing[0]}: so the fabrics of gangs are not known")
    found = report_on(state, builder.view(), question)
    return replace(found, notes=(*found.notes, *live.consequences(missing, state)))


def report_on(state: State, view: FleetView, question: Question) -> Listing:
    """Report on the gangs of the state, by namespace and name."""
    held = _held(view)
    items = [
        _item(state, key, held)
        for key in sorted(state.gangs)
        if question.shows(key, key.partition("/")[2]) and state.gangs.members(key)
    ]
    return Listing(tuple(items), view.notes)


_Held = Mapping[str, tuple[float, frozenset[str]]]
"""Key of a claim to the number of cards that it holds, and their fabrics."""


def _held(view: FleetView) -> _Held:
    found: dict[str, tuple[float, frozenset[str]]] = {}
    for card in view.cards:
        fabric = {card.facts.ib_cluster} - {""}
        for one in card.holders:
            cards, fabrics = found.get(one.key, (0.0, frozenset[str]()))
            found[one.key] = cards + card.fraction(one), fabrics | fabric
    return found


def _item(state: State, key: str, held: _Held) -> Item:
    pods = [state.pods[pod] for pod in state.gangs.members(key)]
    terms = state.gangs.terms(key)
    claims = {claim for pod in pods for claim in pod.claim_keys}
    known = [held[claim] for claim in claims if claim in held]
    namespace, _, name = key.partition("/")
    waiting = [pod for pod in pods if not _has_devices(state, pod)]
    said = next((pod.allocated for pod in waiting if pod.allocated and pod.allocated.status == "False"), None)
    item = {
        "namespace": namespace,
        "gang": name,
        "members": len(pods),
        "size": terms.size if isinstance(terms, GangTerms) else None,
        "needed": terms.minimum if isinstance(terms, GangTerms) else None,
        "policy": terms.policy if isinstance(terms, GangTerms) else None,
        "allocated": len(pods) - len(waiting),
        "running": sum(bool(pod.node_name) for pod in pods),
        "cards": round(sum(cards for cards, _ in known), 3),
        "nodes": len({pod.node_name for pod in pods if pod.node_name}),
        "ibClusters": sorted(set[str]().union(*(fabrics for _, fabrics in known))),
        "reason": said.reason if said else None,
        "message": said.message if said else None,
    }
    return {name: value for name, value in item.items() if value not in (None, "", [])}


def _has_devices(state: State, pod: PodView) -> bool:
    """Whether each of its claims is allocated, and it waits at our gate no more."""
    records = [state.claims.get(key) for key in pod.claim_keys]
    return state.names.gate not in pod.gates and all(one is not None and one.claim.allocation for one in records)
