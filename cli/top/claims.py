"""``lode top claims``: which card each claim has, and how much of it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from cli import live
from cli.fleetview.fleet import user_text
from cli.fleetview.published import UNREADABLE, left_out
from cli.top.question import Question
from cli.top.report import Item, Listing, TableColumn
from driver.device_facts import readable
from driver.kube.api import RESOURCE_CLAIMS, Api, Object
from driver.model import Claim, Result
from driver.names import Names
from driver.wire import claim_from

COLUMNS: Final = (
    TableColumn("NAMESPACE", "namespace"),
    TableColumn("CLAIM", "claim"),
    TableColumn("POD", "usedBy"),
    TableColumn("NODE", "node"),
    TableColumn("DEVICE", "device"),
    TableColumn("UUID", "uuid"),
    TableColumn("TYPE", "type"),
    TableColumn("MEMORY", "memory"),
    TableColumn("CORES", "cores"),
    TableColumn("PROFILE", "profile", wide=True),
    TableColumn("PCI", "pciBusID", wide=True),
    TableColumn("SHARING", "sharing", wide=True),
    TableColumn("ENFORCES", "enforces", wide=True),
)
_TEXTS: Final = ("uuid", "type", "memory", "profile", "pciBusID", "sharing")
"""Fields of ``DeviceFacts`` that are shown as they are, if they can be."""
_AMOUNTS: Final = ("time", "memory", "cores")


def report(api: Api, question: Question) -> Listing:
    """Report on the claims of the namespace ("" for all) that hold devices of the driver.

    Raises:
        OperatorFault: see ``live.each``.
    """
    claims = live.each(api, RESOURCE_CLAIMS, question.namespace, label_selector=question.selector)
    found = report_on(claims, question.names)
    return replace(found, items=tuple(item for item in found.items if question.shows(item["claim"])))


def report_on(claims: Iterable[Object], names: Names) -> Listing:
    """Report on these claims, one row for each device, by namespace and name."""
    items: list[Item] = []
    notes: list[str] = []
    for raw in claims:
        try:
            items += list(_items(raw, claim_from(raw), names))
        except UNREADABLE as error:
            notes.append(left_out(RESOURCE_CLAIMS, raw, error))
    return Listing(tuple(sorted(items, key=_key_of)), tuple(notes))


def _key_of(item: Item) -> tuple[str, str]:
    return item.get("namespace", ""), item["claim"]


def _items(raw: Object, claim: Claim, names: Names) -> Iterator[Item]:
    facts = {_key(entry): entry.get("data") for entry in (raw.get("status") or {}).get("devices") or ()}
    for result in claim.allocation.results if claim.allocation else ():
        if result.device.driver == names.driver:
            known = facts.get((result.device.driver, result.device.pool, result.device.device, result.share_id))
            item = {
                "namespace": claim.namespace,
                "claim": claim.name,
                "usedBy": [user_text(consumer) for consumer in claim.reserved_for],
                "node": claim.allocation.node_name if claim.allocation else "",
                "device": result.device.device,
                **_facts(known if isinstance(known, dict) else {}, result),
            }
            yield {key: value for key, value in item.items() if value not in (None, "")}


def _key(entry: Object) -> tuple[Any, ...]:
    return tuple(entry.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _facts(data: Object, result: Result) -> dict[str, Any]:
    """What the entry of the device says, as far as it can be shown. Amounts of a share are those of its allocation."""
    cores, enforces = data.get("cores"), data.get("enforces")
    facts: dict[str, Any] = {name: said for name in _TEXTS if (said := readable(data.get(name)))}
    facts["cores"] = cores if isinstance(cores, int) else None
    if isinstance(enforces, list):
        facts["enforces"] = [amount for amount in _AMOUNTS if amount in enforces]
    if result.admin_access:
        return facts | {"memory": None, "cores": None, "adminAccess": True}
    for name in ("memory", "cores") if result.share_id else ():
        found = result.consumed.get(name)
        facts[name] = None if found is None else str(found) if name == "memory" else found.value
    return facts
