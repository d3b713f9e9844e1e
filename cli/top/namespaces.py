"""``lode top namespaces``: what the claims of each namespace hold, what its quotas allow, and how many pods wait."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli import live
from cli.top.report import Item, Listing, TableColumn
from controller.quotas import MEASURES, Quota, amount_text, price, quota_from
from controller.reconcile import Reason
from driver.errors import LodeError
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, Api, Object
from driver.model import Device, DeviceId
from driver.names import Names
from driver.wire import claim_from, slice_from

COLUMNS: Final = (
    TableColumn("NAMESPACE", "namespace"),
    TableColumn("MEMORY", "memory"),
    TableColumn("LIMIT", "memoryLimit"),
    TableColumn("CORES", "cores"),
    TableColumn("LIMIT", "coresLimit"),
    TableColumn("WAITING", "waiting"),
    TableColumn("OVER-QUOTA", "overQuota"),
    TableColumn("BY-TYPE", "byType", wide=True),
    TableColumn("QUOTAS", "quotas", wide=True),
)
_OVER_QUOTA: Final = (Reason.QUOTA_EXCEEDED, Reason.QUOTA_INVALID)
_UNREADABLE: Final = (ArithmeticError, AttributeError, LodeError, LookupError, RecursionError, TypeError, ValueError)
"""What decoding raises about objects that make no sense."""


def report(api: Api, namespace: str, names: Names) -> Listing:
    """Report on the namespace ("" for all): those that hold devices of the driver, wait for some, or have a quota.

    Raises:
        OperatorFault: see ``live.list_all``.
    """
    claims, pods, quotas = [
        live.list_all(api, resource, namespace) for resource in (RESOURCE_CLAIMS, PODS, RESOURCE_QUOTAS)
    ]
    return report_on(claims, pods, quotas, live.list_all(api, RESOURCE_SLICES), names)


@dataclass(slots=True)
class _Namespace:
    """What is known about one namespace."""

    used: Counter[str] = field(default_factory=Counter)
    holds: bool = False
    quotas: list[Quota] = field(default_factory=list)
    waiting: int = 0
    over_quota: int = 0


def report_on(
    claims: Iterable[Object], pods: Iterable[Object], quotas: Iterable[Object], slices: Iterable[Object], names: Names
) -> Listing:
    """Report on what these objects say, one row for each namespace, by name."""
    notes: list[str] = []
    found: dict[str, _Namespace] = {}

    def of(obj: Object) -> _Namespace:
        return found.setdefault(obj["metadata"]["namespace"], _Namespace())

    devices = {key: device for part in slices for key, device in _devices(part, names, notes)}
    for raw in claims:
        try:
            allocation = claim_from(raw).allocation
            if allocation and any(result.device.driver == names.driver for result in allocation.results):
                of(raw).holds = True
                of(raw).used.update(price(allocation, devices.get, names).amounts)
        except _UNREADABLE as error:
            notes.append(_left_out(raw, "ResourceClaim", error))
    for raw in pods:
        if reason := _waits_for(raw, names):
            of(raw).waiting += 1
            of(raw).over_quota += reason in _OVER_QUOTA
    for raw in quotas:
        try:
            quota = quota_from(raw, names)
        except _UNREADABLE as error:
            notes.append(_left_out(raw, "ResourceQuota", error))
            continue
        if quota.counts:
            of(raw).quotas.append(quota)
            notes += [f"ResourceQuota {quota.key} allows nothing: {fault}" for fault in quota.faults]
    return Listing(tuple(_item(name, found[name], names) for name in sorted(found)), tuple(notes))


def _devices(raw: Object, names: Names, notes: list[str]) -> Iterator[tuple[DeviceId, Device]]:
    if (raw.get("spec") or {}).get("driver") != names.driver:
        return
    try:
        part = slice_from(raw)
    except _UNREADABLE as error:
        notes.append(_left_out(raw, "ResourceSlice", error))
        return
    for device in part.devices:
        yield DeviceId(part.driver, part.pool, device.name), device


def _left_out(raw: Object, kind: str, error: Exception) -> str:
    metadata = raw["metadata"]
    name = "/".join(str(part) for part in (metadata.get("namespace"), metadata["name"]) if part)
    return f"{kind} {name} is left out, it cannot be read: {error!r}"[:1024]


def _waits_for(pod: Object, names: Names) -> str:
    """Return the reason in the condition of a pod that waits; "" if it does not wait."""
    gates = [gate.get("name") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    conditions: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    ours = [one for one in conditions if one.get("type") == f"{names.driver}/Allocated"]
    if names.gate not in gates or not ours or ours[0].get("status") != "False":
        return ""
    return str(ours[0].get("reason") or "")


def _item(name: str, known: _Namespace, names: Names) -> Item:
    item: dict[str, Any] = {"namespace": name}
    limits: dict[str, int] = {}
    for quota in known.quotas:
        for measure, limit in quota.limits.items():
            limits[measure] = min(limit, limits.get(measure, limit))
    for measure in MEASURES:
        if known.holds or measure in limits:
            item[measure] = amount_text(measure, known.used[measure])
        if measure in limits:
            item[f"{measure}Limit"] = amount_text(measure, limits[measure])
    by_type = sorted(of_type for of_type in {*limits, *known.used} if "." in of_type)
    item |= {"waiting": known.waiting, "overQuota": known.over_quota}
    if by_type:
        item["byType"] = [_of_type(one, known.used[one], limits.get(one)) for one in by_type]
    if known.quotas:
        item["quotas"] = [quota.key.partition("/")[2] for quota in known.quotas]
    return item


def _of_type(name: str, used: int, limit: int | None) -> str:
    text = f"{name}={amount_text(name, used)}"
    return text if limit is None else f"{text}/{amount_text(name, limit)}"
