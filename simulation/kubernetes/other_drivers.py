"""Allocations that kube-scheduler makes itself: claims for devices that no other program allocates."""

from collections.abc import Sequence
from dataclasses import replace

from controller.allocation import Fleet, NodeReasons
from controller.allocation.selectors import CompiledSelectors
from driver.clock import Clock, rfc3339
from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.model import Allocation, Slice
from driver.names import DEFAULT_DRIVER, FINALIZER
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
        self._selectors = CompiledSelectors(DEFAULT_DRIVER)
        self._listed: list[Sequence[Object]] = []
        """What ``_fleet`` was made of."""
        self._fleet = Fleet()
        self._slices: tuple[Sequence[Object], list[Slice]] = (), []
        """The slices listed last, and what they mean."""

    def devices(self) -> Fleet:
        """All devices with their use, as the API has them now."""
        kinds = DEVICE_CLASSES, RESOURCE_SLICES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS
        listed = [self._api.list(kind).items for kind in kinds]
        if listed != self._listed:
            self._fleet, self._listed = self._fleet_of(listed), listed
        return self._fleet

    def _fleet_of(self, listed: Sequence[Sequence[Object]]) -> Fleet:
        classes, slices, rules, claims = listed
        fleet = Fleet(selectors=self._selectors)
        for raw in classes:
            fleet.upsert_class(class_from(raw))
        if slices != self._slices[0]:
            self._slices = slices, [slice_from(raw) for raw in slices]
        for part in self._slices[1]:
            fleet.ledger.upsert_slice(part)
        for raw in rules:
            fleet.ledger.upsert_taint_rule(taint_rule_from(raw))
        for raw in claims:
            fleet.ledger.upsert_claim(claim_from(raw))
        return fleet

    @staticmethod
    def choose(fleet: Fleet, node: Object, claims: Sequence[Object]) -> Sequence[Allocation] | None:
        """One allocation for each claim on the node; None if it has no devices for them."""
        metadata = node["metadata"]
        found = fleet.allocate(metadata["name"], metadata.get("labels") or {}, [claim_from(claim) for claim in claims])
        return None if isinstance(found, NodeReasons) else found

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
