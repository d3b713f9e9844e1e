"""``memory`` and ``driver/memory`` are one capacity: in slices, in requests and in what is allocated."""

from typing import Any

import pytest

from controller.allocation import Fleet, NodeReasons
from driver.names import Names
from driver.wire import allocation_from, allocation_to, claim_from, class_from, slice_from

DRIVER = "gpu.example.com"
SHORT, LONG = "memory", f"{DRIVER}/memory"
NODE = "n1"


def slice_with(*capacities: dict[str, str], driver: str = DRIVER, shared: bool = True) -> Any:
    devices = [
        {
            "name": f"d{number}",
            "allowMultipleAllocations": shared,
            "capacity": {name: {"value": amount} for name, amount in capacity.items()},
        }
        for number, capacity in enumerate(capacities)
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": NODE, "pool": pool, "devices": devices}}


def claim(uid: str, requests: dict[str, str], config: list[Any] | None = None) -> Any:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": requests}}
    devices = {"requests": [{"name": "r", "exactly": exactly}], "config": config or []}
    return claim_from({"metadata": {"name": uid, "namespace": "ns", "uid": uid}, "spec": {"devices": devices}})


def fleet_of(raw: Any) -> Fleet:
    fleet = Fleet()
    fleet.ledger.upsert_slice(slice_from(raw))
    fleet.upsert_class(class_from({"metadata": {"name": "gpu"}, "spec": {}}))
    return fleet


def written(fleet: Fleet, asked: Any) -> Any:
    """What the status of the claim says is consumed; None if nothing fits."""
    found = fleet.allocate(NODE, {}, [asked])
    if isinstance(found, NodeReasons):
        return None
    return allocation_to(found[0])["devices"]["results"][0].get("consumedCapacity", {})


@pytest.mark.parametrize("requested", [SHORT, LONG])
@pytest.mark.parametrize("published", [SHORT, LONG])
def test_either_spelling_asks_for_either_and_the_status_has_that_of_the_slice(requested: str, published: str) -> None:
    fleet = fleet_of(slice_with({published: "80Gi"}))
    assert written(fleet, claim("a", {requested: "10Gi"})) == {published: "10Gi"}


@pytest.mark.parametrize("requested", [SHORT, LONG])
@pytest.mark.parametrize("held", [SHORT, LONG])
@pytest.mark.parametrize("published", [SHORT, LONG])
def test_what_is_held_under_either_spelling_is_not_given_again(published: str, held: str, requested: str) -> None:
    fleet = fleet_of(slice_with({published: "80Gi"}))
    result = {"request": "r", "driver": DRIVER, "pool": "p", "device": "d0", "shareID": "1"}
    of_others = allocation_from({"devices": {"results": [{**result, "consumedCapacity": {held: "70Gi"}}]}})
    fleet.ledger.assume("others", of_others)
    assert written(fleet, claim("a", {requested: "20Gi"})) is None
    assert written(fleet, claim("a", {requested: "10Gi"})) == {published: "10Gi"}
    assert allocation_to(of_others)["devices"]["results"][0]["consumedCapacity"] == {held: "70Gi"}


def test_the_domain_of_another_driver_is_another_capacity() -> None:
    fleet = fleet_of(slice_with({SHORT: "80Gi"}))
    assert written(fleet, claim("a", {"other.example.com/memory": "10Gi"})) is None


def test_of_two_published_spellings_the_one_with_the_domain_counts() -> None:
    fleet = fleet_of(slice_with({SHORT: "80Gi", LONG: "40Gi"}))
    assert written(fleet, claim("a", {SHORT: "60Gi"})) is None
    assert written(fleet, claim("a", {SHORT: "30Gi"})) == {LONG: "30Gi"}


def test_one_amount_asked_for_by_both_spellings_is_a_fault_of_the_claim() -> None:
    ours = Names().driver
    fleet = fleet_of(slice_with({SHORT: "80Gi"}, driver=ours))
    found = fleet.allocate(NODE, {}, [claim("a", {SHORT: "1Gi", f"{ours}/memory": "2Gi"})])
    assert isinstance(found, NodeReasons)
    (fault,) = found.faults
    field = f"spec.devices.requests[0].exactly.capacity.requests[{ours}/memory]"
    assert str(fault) == f"claim {fault.key}: {field}: 2Gi is asked for beside 1Gi of memory; say one of them"


def test_both_spellings_of_another_driver_are_on_no_device() -> None:
    fleet = fleet_of(slice_with({SHORT: "80Gi"}))
    assert written(fleet, claim("a", {SHORT: "1Gi", LONG: "1Gi"})) is None


def test_the_claims_of_two_drivers_may_ask_by_the_same_names() -> None:
    """What a request takes of devices of one driver is not taken for what it takes of equal devices of another."""
    fleet = fleet_of(slice_with({SHORT: "80Gi"}))
    assert written(fleet, claim("a", {LONG: "10Gi"})) == {SHORT: "10Gi"}
    other = fleet_of(slice_with({SHORT: "80Gi"}, driver="npu.example.com"))
    assert written(other, claim("a", {LONG: "10Gi"})) is None
    both = fleet_of(slice_with({SHORT: "80Gi"}, driver="npu.example.com"))
    both.ledger.upsert_slice(slice_from({**slice_with({SHORT: "80Gi"}), "metadata": {"name": "t"}}))
    found = both.allocate(NODE, {}, [claim("a", {LONG: "10Gi"})])
    assert isinstance(found, tuple)
    assert found[0].results[0].device.driver == DRIVER


def test_a_whole_device_is_measured_under_either_spelling() -> None:
    fleet = fleet_of(slice_with({SHORT: "40Gi"}, {LONG: "80Gi"}, shared=False))
    for name in (SHORT, LONG):
        found = fleet.allocate(NODE, {}, [claim("a", {name: "60Gi"})])
        assert isinstance(found, tuple)
        assert found[0].results[0].device.device == "d1"


def test_memory_is_asked_for_in_per_cent_or_by_either_spelling_not_by_both() -> None:
    names = Names()
    parameters = {"apiVersion": names.parameters_api_version, "kind": "PlacementConfig", "memoryPercent": 50}
    config = [{"opaque": {"driver": names.driver, "parameters": parameters}}]
    fleet = fleet_of(slice_with({SHORT: "80Gi"}, driver=names.driver))
    for name in (SHORT, f"{names.driver}/memory"):
        found = fleet.allocate(NODE, {}, [claim("a", {name: "10Gi"}, config)])
        assert isinstance(found, NodeReasons)
        (fault,) = found.faults
        assert f"spec.devices.requests[0].exactly.capacity.requests[{name}]" in str(fault)


def test_an_amount_below_0_that_a_claim_holds_gives_nobody_more() -> None:
    fleet = fleet_of(slice_with({SHORT: "80Gi"}))
    for uid, amount in (("odd", "-40Gi"), ("other", "50Gi")):
        result = {"request": "r", "driver": DRIVER, "pool": "p", "device": "d0", "shareID": uid}
        fleet.ledger.assume(
            uid, allocation_from({"devices": {"results": [{**result, "consumedCapacity": {SHORT: amount}}]}})
        )
    assert written(fleet, claim("a", {SHORT: "31Gi"})) is None
    assert written(fleet, claim("a", {SHORT: "30Gi"})) == {SHORT: "30Gi"}


@pytest.mark.parametrize("requested", [{}, {"memory": "1"}, {"memory": "-1"}])
def test_nothing_below_0_is_ever_written_to_a_claim(requested: dict[str, str]) -> None:
    fleet = fleet_of(slice_with({SHORT: "-1"}))
    assert written(fleet, claim("a", requested)) is None
