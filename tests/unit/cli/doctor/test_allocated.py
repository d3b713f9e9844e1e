"""Drivers that the controller allocates, too: absent ones are found, and what others allocate of theirs."""

from typing import Any

from cli.doctor.allocated import AllocatedDriver, changed_at, check_allocated, driver_of, holding, published
from driver.kube.api import Object

POLICY = {
    "metadata": {
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "time": "2026-11-20T00:00:00Z"}],
    }
}
BEFORE, AFTER = "2026-11-19T00:00:00Z", "2026-11-21T00:00:00Z"


def part(driver: str, devices: int) -> Object:
    return {"spec": {"driver": driver, "devices": [{"name": f"d{at}"} for at in range(devices)]}}


def claim(name: str, device: str, at: str, manager: str = "lode", **result: Any) -> Object:
    results = [{"driver": "dra.net", "pool": "n1", "device": device, **result}]
    return {
        "metadata": {
            "namespace": "a",
            "name": name,
            "managedFields": [{"manager": manager, "fieldsV1": {"f:status": {"f:allocation": {}}}}],
        },
        "status": {"allocation": {"devices": {"results": results}, "allocationTimestamp": at}},
    }


def seen(*claims: Object, devices: int = 2) -> AllocatedDriver:
    slices = [published(one) for one in (part("dra.net", devices), part("other", 7), {"spec": {"driver": "dra.net"}})]
    return driver_of("dra.net", slices, [*map(holding, claims)], changed_at(POLICY))


def said(driver: AllocatedDriver) -> list[tuple[str, str]]:
    return [(found.status, found.message) for found in check_allocated([driver])]


def test_a_driver_that_is_there_is_one_line() -> None:
    driver = seen(claim("c", "nic-0", AFTER), claim("waits", "x", "") | {"status": {}})
    assert said(driver) == [("ok", "the controller allocates its 2 devices")]


def test_a_driver_without_devices_may_be_misspelt() -> None:
    assert said(seen(devices=0)) == [
        ("warning", "is named in controller.alsoAllocates, and publishes no device"),
    ]


def test_what_another_program_allocates_is_found_from_when_the_policies_were_changed() -> None:
    old, new = (claim(at, f"nic-{at}", at, "kube-scheduler") for at in (BEFORE, AFTER))
    assert said(seen(old)) == [("ok", "the controller allocates its 2 devices")]
    message = f"another program has allocated its devices: ResourceClaim a/{AFTER}"
    assert said(seen(old, new)) == [("failed", message)]
    reserved = claim("c", "nic-0", AFTER)
    reserved["metadata"]["managedFields"].append(
        {"manager": "kube-scheduler", "fieldsV1": {"f:status": {"f:reservedFor": {}}}}
    )
    assert seen(reserved).by_others == ()
    assert changed_at(None) == ""


def test_a_device_of_two_claims_is_found_unless_it_is_shared_or_only_looked_at() -> None:
    one, other = claim("one", "nic-0", BEFORE), claim("other", "nic-0", BEFORE)
    assert said(seen(one, other)) == [("failed", "devices are held by several claims: n1/nic-0 (a/one and a/other)")]
    looks, shares = (
        claim("other", "nic-0", BEFORE, adminAccess=True),
        claim("other", "nic-0", BEFORE, shareID="1"),
    )
    assert [seen(one, second).held_twice for second in (looks, shares)] == [(), ()]
