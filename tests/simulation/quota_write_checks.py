"""What a namespace holds of its quotas whenever a controller allocates: never more than they allow.

Counted from the API's objects, and not with the controller's own ledger.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from driver.clock import Clock
from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, Api, Object
from driver.names import Names
from driver.quantity import Quantity

LIMITS: Final = "test.lode.dev/limits"
"""Annotation of a quota that may change: the limits that it had, as JSON: ``[[since, {name: value}], ...]``."""
KNOWN_AFTER_SECONDS: Final = 600.0
"""A lower limit holds for allocations from then on: one that was decided before may be written until then."""


class QuotaWriteChecks:
    """Checks of allocations against quotas.

    Args:
        clock: of the API server.
    """

    def __init__(self, reader: Api, names: Names, clock: Clock):
        self._reader = reader
        self._names = names
        self._clock = clock

    def problems(self, claim: Object) -> Iterator[str]:
        """Yield the limits that the namespace of a claim that was just allocated exceeds."""
        namespace = claim["metadata"]["namespace"]
        quotas = self._reader.list(RESOURCE_QUOTAS, namespace=namespace, limit=0).items
        if not quotas:
            return
        devices = self._devices()
        used, asked = Counter[str](), self._taken(claim, devices)
        for other in self._reader.list(RESOURCE_CLAIMS, namespace=namespace, limit=0).items:
            used.update(self._taken(other, devices))
        for quota in quotas:
            for name, limit in self._limits(quota).items():
                if asked[name] and used[name] > limit:
                    key = f"{namespace}/{quota['metadata']['name']}"
                    yield f"quota {key} allows {name} {limit}, but {used[name]} are allocated"

    def _limits(self, quota: Object) -> Mapping[str, int]:
        """Return the highest value of each limit that was in force of late; none if there was none for some time."""
        past = json.loads((quota["metadata"].get("annotations") or {}).get(LIMITS) or "[]")
        versions: list[tuple[float, Mapping[str, str]]] = [(since, hard) for since, hard in past]
        late = self._clock.monotonic() - KNOWN_AFTER_SECONDS
        counting = [
            hard for at, (_, hard) in enumerate(versions) if at + 1 == len(versions) or versions[at + 1][0] > late
        ]
        if not versions or versions[0][0] > late:
            return {}
        names = set.intersection(*(set(hard) for hard in counting))
        return {name: max(Quantity.parse(hard[name]).value for hard in counting) for name in names}

    def _devices(self) -> Mapping[tuple[str, str], Object]:
        slices = self._reader.list(RESOURCE_SLICES, limit=0).items
        return {
            (part["spec"]["pool"]["name"], device["name"]): device
            for part in slices
            if part["spec"]["driver"] == self._names.driver
            for device in part["spec"].get("devices") or []
        }

    def _taken(self, claim: Object, devices: Mapping[tuple[str, str], Object]) -> Counter[str]:
        """Return what the claim takes; of a device that is not published, what is certain."""
        taken = Counter[str]()
        allocation: Any = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            if result["driver"] != self._names.driver or result.get("adminAccess"):
                continue
            published = devices.get((result["pool"], result["device"])) or {}
            amounts = {name: value["value"] for name, value in (published.get("capacity") or {}).items()}
            if result.get("shareID"):
                amounts = result.get("consumedCapacity") or {}
            for name in ("memory", "cores"):
                taken[self._names.attribute(name)] += Quantity.parse(str(amounts.get(name, 0))).value
        return taken
