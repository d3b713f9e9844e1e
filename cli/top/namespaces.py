"""``lode top namespaces``: what the claims of each namespace hold, what its quotas allow, and how many pods wait."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli import live
from cli.fleetview import CardHolding, CardView, FleetView, ViewBuilder
from cli.fleetview.published import UNREADABLE, left_out
from cli.top.question import Question
from cli.top.report import UNKNOWN, Item, Listing, TableColumn
from controller.quotas import MEASURES, Quota, amount_text, quota_from
from controller.reconcile.decisions import Reason
from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, Api, Object
from driver.names import Names
from driver.quantity import NANO

COLUMNS: Final = (
    TableColumn("NAMESPACE", "namespace"),
    TableColumn("CARDS", "cards"),
    TableColumn("MEMORY", "memory"),
    TableColumn("LIMIT", "memoryLimit"),
    TableColumn("CORES", "cores"),
    TableColumn("LIMIT", "coresLimit"),
    TableColumn("WAITING", "waiting"),
    TableColumn("OVER-QUOTA", "overQuota"),
    TableColumn("CARD-HOURS", "cardHours", form="hours", missing=UNKNOWN),
    TableColumn("BY-TYPE", "byType", wide=True),
    TableColumn("QUOTAS", "quotas", wide=True),
)
_OVER_QUOTA: Final = (Reason.QUOTA_EXCEEDED, Reason.QUOTA_INVALID)


def report(api: Api, question: Question) -> Listing:
    """Report on the namespace ("" for all): those that hold devices of the driver, wait for some, or have a quota.

    Raises:
        OperatorFault: see ``live.each``.
    """
    namespace, builder = question.namespace, ViewBuilder(question.names)
    builder.add_claims(live.each(api, RESOURCE_CLAIMS, namespace))
    found = FoundNamespaces(question.names)
    found.add_pods(live.each(api, PODS, namespace))
    found.add_quotas(live.each(api, RESOURCE_QUOTAS, namespace))
    builder.add_slices(live.each(api, RESOURCE_SLICES))
    return found.report(builder.view(), question, live.labelled(api, NAMESPACES, question.selector))


@dataclass(slots=True)
class _Namespace:
    """What is known about one namespace."""

    used: Counter[str] = field(default_factory=Counter)
    cards: float = 0.0
    holds: bool = False
    quotas: list[Quota] = field(default_factory=list)
    waiting: int = 0
    over_quota: int = 0


class FoundNamespaces:
    """Collects what is known about namespaces from their objects."""

    def __init__(self, names: Names):
        self._names = names
        self._found: dict[str, _Namespace] = {}
        self._notes: list[str] = []

    def add_pods(self, pods: Iterable[Object]) -> None:
        """Count the pods that wait at our gate."""
        for raw in pods:
            if said := waiting_condition(raw, self._names):
                of = self._of(raw["metadata"]["namespace"])
                of.waiting += 1
                of.over_quota += str(said.get("reason")) in _OVER_QUOTA

    def add_quotas(self, quotas: Iterable[Object]) -> None:
        """Add the limits of quotas; one that cannot be read is left out with a note."""
        for raw in quotas:
            try:
                quota = quota_from(raw, self._names)
            except UNREADABLE as error:
                self._notes.append(left_out(RESOURCE_QUOTAS, raw, error))
                continue
            if quota.counts:
                self._of(raw["metadata"]["namespace"]).quotas.append(quota)
                self._notes += [f"ResourceQuota {quota.key} allows nothing: {fault}" for fault in quota.faults]

    def report(self, view: FleetView, question: Question, chosen: Collection[str] | None = None) -> Listing:
        """Report on the namespaces, one row for each, by name; ``chosen`` None stands for all."""
        for card in view.cards:
            for holding in card.holdings:
                self._take(card, holding)
        hours: dict[str, float] = {}
        for (name, _), some in (question.hours or {}).items():
            hours[name] = hours.get(name, 0.0) + some
        for name in hours if not question.namespace else {question.namespace} & {*hours}:
            self._of(name)
        names = [name for name in sorted(self._found) if chosen is None or name in chosen]
        items = (_item(name, self._found[name], hours.get(name)) for name in names if question.shows(name))
        return Listing(tuple(items), (*view.notes, *self._notes))

    def _of(self, namespace: str) -> _Namespace:
        return self._found.setdefault(namespace, _Namespace())

    def _take(self, card: CardView, holding: CardHolding) -> None:
        """Count what a claim holds as ``controller.quotas.price`` does."""
        of = self._of(holding.namespace)
        of.holds = True
        of.cards += card.fraction(holding)
        for measure, taken in zip(MEASURES, (holding.memory, holding.cores), strict=True):
            if taken and not holding.looks_on:
                of.used[measure] += taken * NANO
                if card.facts.type:
                    of.used[f"{measure}.{card.facts.type}"] += taken * NANO


def waiting_condition(pod: Object, names: Names) -> Mapping[str, Any] | None:
    """Return the controller's condition on a pod that waits at our gate; None if it does not wait or makes no sense."""
    try:
        return _waiting_condition(pod, names)
    except UNREADABLE:
        return None


def _waiting_condition(pod: Object, names: Names) -> Mapping[str, Any] | None:
    gates = [gate.get("name") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    conditions: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    ours = [one for one in conditions if one.get("type") == f"{names.driver}/Allocated"]
    return ours[0] if names.gate in gates and ours and ours[0].get("status") == "False" else None


def _item(name: str, known: _Namespace, hours: float | None) -> Item:
    item: dict[str, Any] = {"namespace": name}
    limits: dict[str, int] = {}
    for quota in known.quotas:
        for measure, limit in quota.limits.items():
            limits[measure] = min(limit, limits.get(measure, limit))
    if known.holds:
        item["cards"] = round(known.cards, 3)
    for measure in MEASURES:
        if known.holds or measure in limits:
            item[measure] = amount_text(measure, known.used[measure])
        if measure in limits:
            item[f"{measure}Limit"] = amount_text(measure, limits[measure])
    by_type = sorted(of_type for of_type in {*limits, *known.used} if "." in of_type)
    item |= {"waiting": known.waiting, "overQuota": known.over_quota}
    if hours is not None:
        item["cardHours"] = round(hours, 3)
    if by_type:
        item["byType"] = [_of_type(one, known.used[one], limits.get(one)) for one in by_type]
    if known.quotas:
        item["quotas"] = [quota.key.partition("/")[2] for quota in known.quotas]
    return item


def _of_type(name: str, used: int, limit: int | None) -> str:
    text = f"{name}={amount_text(name, used)}"
    return text if limit is None else f"{text}/{amount_text(name, limit)}"
