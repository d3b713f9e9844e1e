"""Whether the drivers that the controller allocates beside ours are there, and nobody else allocates for them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.findings import Finding, ok, some
from driver.kube.api import Object
from driver.kube.objects import object_key

_CHECK: Final = "other drivers"
_OUR_MANAGER: Final = "lode"
"""The field manager of what Lode writes, by its User-Agent."""


@dataclass(frozen=True, slots=True)
class AllocatedDriver:
    """A driver of others whose devices the controller allocates.

    Attributes:
        devices: how many its slices publish.
        by_others: keys of the claims for which another program has allocated them since the policies forbid it.
        held_twice: devices that more than one claim holds, each with these claims.
    """

    name: str
    devices: int
    by_others: tuple[str, ...] = ()
    held_twice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The devices that a claim holds.

    Attributes:
        claim: its key.
        since: when they were allocated, as the API writes times.
        ours: whether we have written the allocation, or nobody says who has.
        devices: driver, ``pool/device``, and whether nobody else may hold it.
    """

    claim: str
    since: str
    ours: bool
    devices: tuple[tuple[str, str, bool], ...]


def published(part: Object) -> tuple[str, int]:
    """The driver of a ResourceSlice, and how many devices it has."""
    return part["spec"]["driver"], len(part["spec"].get("devices") or ())


def holding(claim: Object) -> HeldDevices:
    """What a ResourceClaim holds."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    devices = [
        (it["driver"], f"{it['pool']}/{it['device']}", not it.get("shareID") and not it.get("adminAccess"))
        for it in (allocation.get("devices") or {}).get("results") or ()
    ]
    return HeldDevices(object_key(claim), allocation.get("allocationTimestamp") or "", _is_ours(claim), tuple(devices))


def driver_of(
    name: str, slices: Iterable[tuple[str, int]], holdings: Iterable[HeldDevices], since: str
) -> AllocatedDriver:
    """The facts of a driver.

    Args:
        slices: ``published`` of all of the cluster.
        since: when the policies were changed last, as the API writes times; "" if they do not exist.
    """
    holders: dict[str, dict[str, None]] = {}
    by_others = []
    for one in holdings:
        for driver, device, alone in one.devices:
            if driver == name and alone:
                holders.setdefault(device, {})[one.claim] = None
        if since and one.since > since and not one.ours and any(driver == name for driver, _, _ in one.devices):
            by_others.append(one.claim)
    twice = [f"{device} ({' and '.join(keys)})" for device, keys in holders.items() if len(keys) > 1]
    count = sum(devices for driver, devices in slices if driver == name)
    return AllocatedDriver(name, count, tuple(by_others), tuple(twice))


def changed_at(policy: Object | None) -> str:
    """When the object was changed last, as the API writes times; "" if it does not exist or does not say it."""
    metadata: Mapping[str, Any] = (policy or {}).get("metadata") or {}
    times = [entry.get("time") or "" for entry in metadata.get("managedFields") or ()]
    return max([metadata.get("creationTimestamp") or "", *times])


def _is_ours(claim: Object) -> bool:
    owners = [
        entry.get("manager")
        for entry in claim["metadata"].get("managedFields") or ()
        if "f:allocation" in ((entry.get("fieldsV1") or {}).get("f:status") or {})
    ]
    return not owners or _OUR_MANAGER in owners


def check_allocated(drivers: Iterable[AllocatedDriver]) -> Iterator[Finding]:
    """All findings about the drivers that ``controller.alsoAllocates`` names."""
    for driver in drivers:
        wrong = tuple(_faults(driver))
        yield from wrong
        if not wrong:
            yield ok(_CHECK, driver.name, f"the controller allocates its {driver.devices} devices")


def _faults(driver: AllocatedDriver) -> Iterator[Finding]:
    if not driver.devices:
        message = "is named in controller.alsoAllocates, and publishes no device"
        remedy = "install the driver, or correct the name in the settings and in the policies"
        yield Finding("warning", _CHECK, driver.name, message, remedy)
    if driver.by_others:
        message = f"another program has allocated its devices: ResourceClaim {some(driver.by_others)}"
        remedy = "apply the policies again, and delete the pods that use these claims"
        yield Finding("failed", _CHECK, driver.name, message, remedy)
    if driver.held_twice:
        message = f"devices are held by several claims: {some(driver.held_twice)}"
        remedy = "delete the pods of all but one of the claims"
        yield Finding("failed", _CHECK, driver.name, message, remedy)
