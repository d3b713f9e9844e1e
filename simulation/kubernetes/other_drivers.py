"""Allocations that kube-scheduler makes itself: claims for devices that no other program allocates."""

from collections.abc import Sequence
from dataclasses import replace

from controller.allocation import Fleet, Unsatisfiable
from driver.clock import Clock, rfc3339
from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.model import Allocation
from driver.names import FINALIZER
from driver.wire import allocation_to, claim_from, class_from, slice_from, taint_rule_from
from simulation.kubernetes.component import mutable_copy


def is_for_driver(claim: Object, driver: str) -> bool:
    """Whether the claim is for devices of the driver, as the names of its classes say: ``gpu.<driver>``.

    So are classes with the names of NVIDIA's driver: no simulation has that driver itself.
    """
    requests = claim["spec"].get("devices", {}).get("requests") or []
    wants = [want for r in requests for want in (r.get("exactly"), *(r.get("firstAvailable") or [])) if want]
    return any(want["deviceClassName"].endswith((driver, ".nvidia.com")) for want in wants)


class OtherDrivers:
    """Allocates claims on a node, first fit, as kube-scheduler's plugin DynamicResources does."""

    def __init__(self, api: Api, clock: Clock):
        self._api = api
        self._clock = clock

    def devices(self) -> Fleet:
        """All devices with their use, as the API has them now."""
        fleet = Fleet()
        for raw in self._api.list(DEVICE_CLASSES).items:
            fleet.upsert_class(class_from(raw))
        for raw in self._api.list(RESOURCE_SLICES).items:
            fleet.upsert_slice(slice_from(raw))
        for raw in self._api.list(DEVICE_TAINT_RULES).items:
            fleet.upsert_taint_rule(taint_rule_from(raw))
        for raw in self._api.list(RESOURCE_CLAIMS).items:
            fleet.upsert_claim(claim_from(raw))
        return fleet

    @staticmethod
    def choose(fleet: Fleet, node: Object, claims: Sequence[Object]) -> Sequence[Allocation] | None:
        """One allocation for each claim on the node; None if it has no devices for them."""
        metadata = node["metadata"]
        found = fleet.allocate(metadata["name"], metadata.get("labels") or {}, [claim_from(claim) for claim in claims])
        return None if isinstance(found, Unsatisfiable) else found

    def allocate(self, claim: Object, allocation: Allocation, consumer: Object) -> None:
        """Write the allocation, with the reservation for the pod."""
        changed = mutable_copy(claim)
        finalizers = changed["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
            changed = mutable_copy(self._api.update(RESOURCE_CLAIMS, changed))
        timestamp = rfc3339(self._clock.now())
        status = {"allocation": allocation_to(replace(allocation, timestamp=timestamp)), "reservedFor": [consumer]}
        self._api.update(RESOURCE_CLAIMS, {**changed, "status": status}, "status")
