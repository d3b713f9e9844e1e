"""``lode top costs``: what the cards cost that each namespace or workload holds, and those that nobody holds.

As cost reports do: a card costs its price whoever has how much of it, a part of a card costs the larger one of memory
and cores, and what is left is idle. So namespaces and idle cards together cost what all cards cost.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from cli import live
from cli.fleetview import CardHolding, CardView, FleetView, read_fleet
from cli.top.prices import HOURS_PER_MONTH, PriceTable
from cli.top.question import Question
from cli.top.report import UNKNOWN, Item, Listing, TableColumn
from driver.errors import SENSELESS
from driver.kube.api import PODS, Api, Object
from driver.kube.objects import name_key

IDLE: Final = "__idle__"
"""The namespace of what nobody holds, as in reports of OpenCost."""
COLUMNS: Final = (
    TableColumn("NAMESPACE", "namespace"),
    TableColumn("WORKLOAD", "workload"),
    TableColumn("CARDS", "cards"),
    TableColumn("PER-HOUR", "costPerHour", form="money"),
    TableColumn("PER-MONTH", "costPerMonth", form="money"),
    TableColumn("CARD-HOURS", "cardHours", form="hours", missing=UNKNOWN),
    TableColumn("COST", "cost", form="money", missing=UNKNOWN),
    TableColumn("CURRENCY", "currency", wide=True),
    TableColumn("BY-TYPE", "byType", wide=True),
)
_Owner = tuple[str, str]
"""Namespace and workload; the workload is "" if workloads are not asked for."""
_HASH: Final = "pod-template-hash"


@dataclass(slots=True)
class _Bill:
    """What is held, in cards by type, and what it costs an hour; what was held in a window, if that is known."""

    cards: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0
    past_hours: float | None = None
    past_cost: float = 0.0

    def add(self, kind: str, cards: float, price: float) -> None:
        self.cards[kind] = self.cards.get(kind, 0.0) + cards
        self.cost += cards * price

    def add_past(self, hours: float, price: float) -> None:
        self.past_hours = (self.past_hours or 0.0) + hours
        self.past_cost += hours * price


def report(api: Api, question: Question) -> Listing:
    """Report on the costs of all namespaces, or of one.

    Raises:
        OperatorFault: see ``read_fleet``.
    """
    view = read_fleet(api, question.names)
    pods = live.each(api, PODS, question.namespace) if question.by_workload else ()
    return report_on(view, question, workloads_of(pods))


def workloads_of(pods: Iterable[Object]) -> Mapping[tuple[str, str], str]:
    """Return what made each pod, by namespace and name; a pod that makes no sense is left out and counts as its own."""
    found = {}
    for pod in pods:
        with suppress(*SENSELESS):
            found[name_key(pod)] = workload_of(pod)
    return found


def report_on(view: FleetView, question: Question, workloads: Mapping[tuple[str, str], str]) -> Listing:
    """Report on the costs of the cards of a view.

    Args:
        workloads: of pods, by namespace and name.
    """
    bills: dict[_Owner, _Bill] = {}
    unpriced: set[str] = set()
    foreign = 0
    for card in view.cards:
        price = question.prices.price(card.facts.type)
        if "foreign" in card.closures and card.use == "free":
            foreign += 1
        elif price is None:
            unpriced.add(card.facts.type or "unknown")
        else:
            for owner, cards in _parts(card, question, workloads):
                bills.setdefault(owner, _Bill()).add(card.facts.type, cards, price)
    for (namespace, kind), hours in (question.hours or {}).items():
        if (price := question.prices.price(kind)) is None:
            unpriced.add(kind or "unknown")
        else:
            bills.setdefault((namespace, ""), _Bill()).add_past(hours, price)
    notes = [f"cards of the type {kind} have no price, and are left out" for kind in sorted(unpriced)]
    notes += [f"{foreign} cards that other programs hand out are left out"] if foreign else []
    shown = [owner for owner in sorted(bills) if question.namespace in ("", owner[0]) and question.shows(owner[0])]
    items = tuple(_item(owner, bills[owner], question.prices) for owner in shown)
    return Listing(items, (*view.notes, *notes))


def workload_of(pod: Object) -> str:
    """Return what made the pod, as ``deployment/chat``; the pod itself if nothing did."""
    metadata: Mapping[str, Any] = pod.get("metadata") or {}
    owners: Iterable[Mapping[str, Any]] = metadata.get("ownerReferences") or ()
    owner = next((one for one in owners if isinstance(one, dict) and one.get("controller")), None)
    if owner is None:
        return f"pod/{metadata.get('name')}"
    kind, name = str(owner.get("kind")).lower(), str(owner.get("name"))
    ending = f"-{(metadata.get('labels') or {}).get(_HASH)}"
    if kind == "replicaset" and name.endswith(ending):
        return f"deployment/{name.removesuffix(ending)}"
    return f"{kind}/{name}"


def _parts(
    card: CardView, question: Question, workloads: Mapping[tuple[str, str], str]
) -> Iterator[tuple[_Owner, float]]:
    """Yield who pays for how much of the card, and what is idle: 1 in all.

    Where tenants have more in common than a card, since one has most of its memory and another most of its cores, each
    pays in proportion.
    """
    held = [(one, card.fraction(one)) for one in card.holders]
    total = sum(part for _, part in held)
    for one, part in held:
        yield from _owners(one, part / max(1.0, total), question, workloads)
    if total < 1:
        yield (IDLE, ""), 1 - total


def _owners(
    one: CardHolding, part: float, question: Question, workloads: Mapping[tuple[str, str], str]
) -> Iterator[tuple[_Owner, float]]:
    if not question.by_workload:
        yield (one.namespace, ""), part
        return
    users = one.users or (f"claim/{one.claim}",)
    for user in users:
        yield (one.namespace, workloads.get((one.namespace, user)) or _user_text(user)), part / len(users)


def _user_text(user: str) -> str:
    """A pod that is gone, or another consumer, which is written with its kind."""
    return user if "/" in user else f"pod/{user}"


def _item(owner: _Owner, bill: _Bill, prices: PriceTable) -> Item:
    namespace, workload = owner
    item = {
        "namespace": namespace,
        "workload": workload,
        "cards": round(sum(bill.cards.values()), 3),
        "costPerHour": round(bill.cost, 6),
        "costPerMonth": round(bill.cost * HOURS_PER_MONTH, 4),
        "cardHours": None if bill.past_hours is None else round(bill.past_hours, 3),
        "cost": None if bill.past_hours is None else round(bill.past_cost, 6),
        "currency": prices.currency,
        "byType": [f"{kind}={cards:g}" for kind, cards in sorted(bill.cards.items())],
    }
    return {key: value for key, value in item.items() if value not in ("", [], None)}
