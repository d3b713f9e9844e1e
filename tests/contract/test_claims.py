"""ResourceClaims: defaults, immutable fields, and setting and clearing allocations."""

from copy import deepcopy
from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Api, Invalid, NotFound, Object
from tests.contract.objects import allocation, claim, claim_spec, consumer

HOLD = "lode.example/hold"


def write_status(api: Api, obj: Object, **status: Any) -> Object:
    return api.update(RESOURCE_CLAIMS, {**obj, "status": status}, "status")


def allocated(api: Api, namespace: str, *consumers: str, name: str = "c") -> Object:
    created = api.create(RESOURCE_CLAIMS, claim(name, namespace))
    return write_status(api, created, allocation=allocation(), reservedFor=[consumer(uid) for uid in consumers])


def refused(api: Api, obj: Object, field: str, **status: Any) -> None:
    with pytest.raises(Invalid, match=field) as error:
        write_status(api, obj, **status)
    assert error.value.status == 422


def test_a_request_defaults_to_exactly_one_device(api: Api, namespace: str) -> None:
    obj = claim("c", namespace)
    obj["spec"]["devices"]["requests"] = [
        {"name": "a", "exactly": {"deviceClassName": "x", "tolerations": [{"key": "k"}]}},
        {"name": "b", "exactly": {"deviceClassName": "x", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"name": "s", "deviceClassName": "x"}]},
    ]
    one, everything, first = api.create(RESOURCE_CLAIMS, obj)["spec"]["devices"]["requests"]
    assert (one["exactly"]["allocationMode"], one["exactly"]["count"]) == ("ExactCount", 1)
    assert one["exactly"]["tolerations"][0]["operator"] == "Equal"
    assert "count" not in everything["exactly"]
    assert first["firstAvailable"][0]["count"] == 1


def test_create_ignores_status(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, {**claim("c", namespace), "status": {"allocation": allocation()}})
    assert created["status"] == {}


def test_the_spec_is_immutable(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    changed = deepcopy(created)
    changed["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    with pytest.raises(Invalid, match="spec"):
        api.update(RESOURCE_CLAIMS, changed)
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim_spec()}}
    api.create(RESOURCE_CLAIM_TEMPLATES, template, namespace)
    with pytest.raises(Invalid, match="spec"):
        api.patch(RESOURCE_CLAIM_TEMPLATES, "t", {"spec": {"spec": claim_spec("a", "b")}}, namespace=namespace)


def test_a_status_write_changes_only_status_and_no_other_write_does(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    both = deepcopy(created)
    both["metadata"] |= {"labels": {"a": "b"}, "finalizers": [HOLD]}
    both["status"] = {"allocation": allocation()}
    after = api.update(RESOURCE_CLAIMS, both, "status")
    assert "labels" not in after["metadata"]
    assert "finalizers" not in after["metadata"]
    assert after["status"]["allocation"] == allocation()
    both["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"]
    both["status"] = {}
    after = api.update(RESOURCE_CLAIMS, both)
    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["status"]["allocation"] == allocation()


def test_an_allocation_reads_back_as_written(api: Api, namespace: str) -> None:
    spec = claim("c", namespace)
    spec["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "1024Mi"}}
    created = api.create(RESOURCE_CLAIMS, spec)
    assert created["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "1Gi"}}
    shared = allocation("gpu-0-share")
    shared["devices"]["results"][0] |= {
        "shareID": "6a9aaae8-5a1c-4a7e-9a4a-3a9a4a7e5a1c",
        "consumedCapacity": {"memory": "4Gi", "cores": "30", "slots": "1"},
        "tolerations": [{"key": "lode.dev/x", "operator": "Exists", "effect": "NoExecute"}],
    }
    parameters: Object = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "empty": [], "none": None}
    shared["devices"]["config"] = [
        {"source": "FromClass", "opaque": {"driver": "lode.dev", "parameters": parameters}},
        {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": "lode.dev", "parameters": {"a": {"b": 1}}}},
    ]
    assert write_status(api, created, allocation=shared)["status"]["allocation"] == shared


def test_an_allocation_is_set_and_cleared_but_never_changed(api: Api, namespace: str) -> None:
    claimed = allocated(api, namespace)
    refused(api, claimed, "allocation", allocation=allocation("gpu-1"))
    refused(api, claimed, "allocation", allocation={**allocation(), "allocationTimestamp": "2027-01-15T08:00:01Z"})
    cleared = write_status(api, claimed)
    assert "allocation" not in cleared["status"]
    assert write_status(api, cleared, allocation=allocation("gpu-1"))["status"]["allocation"] == allocation("gpu-1")


def test_a_claim_is_reserved_only_while_it_is_allocated(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    refused(api, created, "reservedFor", reservedFor=[consumer("u1")])
    reserved = write_status(api, created, allocation=allocation(), reservedFor=[consumer("u1")])
    refused(api, reserved, "reservedFor", reservedFor=[consumer("u1")])
    assert write_status(api, reserved)["status"] == {}


def test_at_most_256_consumers_share_a_claim(api: Api, namespace: str) -> None:
    claimed = allocated(api, namespace)
    many = [consumer(f"u{i}") for i in range(257)]
    refused(api, claimed, "reservedFor", allocation=allocation(), reservedFor=many)
    after = write_status(api, claimed, allocation=allocation(), reservedFor=many[:256])
    assert len(after["status"]["reservedFor"]) == 256


@pytest.mark.parametrize("missing", ["name", "resource", "uid"])
def test_a_consumer_needs_all_its_fields(api: Api, namespace: str, missing: str) -> None:
    incomplete = {key: value for key, value in consumer("u1").items() if key != missing}
    refused(api, allocated(api, namespace), missing, allocation=allocation(), reservedFor=[incomplete])


def test_a_consumer_is_listed_once(api: Api, namespace: str) -> None:
    twice = [consumer("u1"), {**consumer("u1"), "name": "other"}]
    refused(api, allocated(api, namespace), "reservedFor", allocation=allocation(), reservedFor=twice)


def test_a_terminating_claim_loses_consumers_but_gets_no_new_ones(api: Api, namespace: str) -> None:
    claimed = allocated(api, namespace, "u1")
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": [HOLD]}}, namespace=namespace)
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    going = api.get(RESOURCE_CLAIMS, "c", namespace)
    more = [consumer("u1"), consumer("u2")]
    refused(api, going, "reservedFor", allocation=allocation(), reservedFor=more)
    going = write_status(api, going, allocation=claimed["status"]["allocation"])
    assert "reservedFor" not in going["status"]
    assert "allocation" not in write_status(api, going)["status"]
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": None}}, namespace=namespace)
    with pytest.raises(NotFound):
        api.get(RESOURCE_CLAIMS, "c", namespace)


def test_an_allocation_can_still_be_set_on_a_terminating_claim(api: Api, namespace: str) -> None:
    obj = claim("c", namespace)
    obj["metadata"]["finalizers"] = [HOLD]
    api.create(RESOURCE_CLAIMS, obj)
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    going = api.get(RESOURCE_CLAIMS, "c", namespace)
    assert write_status(api, going, allocation=allocation())["status"]["allocation"] == allocation()


def result(**changes: Any) -> Object:
    changed = allocation()
    changed["devices"]["results"][0] |= changes
    return changed


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("request", result(request="other")),
        ("request", result(request="gpu/sub")),
        ("driver", result(driver="")),
        ("driver", result(driver="Not a driver")),
        ("pool", result(pool="")),
        ("pool", result(pool="UPPER/x")),
        ("device", result(device="")),
        ("device", result(device="under_score")),
        ("shareID", result(shareID="not-a-uuid")),
        ("nodeSelectorTerms", {**allocation(), "nodeSelector": {"nodeSelectorTerms": []}}),
        ("results", {**allocation(), "devices": {"results": [result()["devices"]["results"][0]] * 33}}),
        ("source", {**allocation(), "devices": {"config": [{"opaque": {"driver": "a.b", "parameters": {"x": 1}}}]}}),
        ("requests", {**allocation(), "devices": {"config": [{"source": "FromClaim", "requests": ["other"]}]}}),
    ],
)
def test_a_malformed_allocation_is_refused(api: Api, namespace: str, field: str, wrong: Object) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    with pytest.raises(Invalid, match=field):
        write_status(api, created, allocation=wrong)


def test_the_api_does_not_check_whether_a_device_is_free(api: Api, namespace: str) -> None:
    assert allocated(api, namespace, name="c1")["status"] == allocated(api, namespace, name="c2")["status"]


def test_a_subrequest_is_named_with_its_request(api: Api, namespace: str) -> None:
    obj = claim("c", namespace)
    obj["spec"]["devices"]["requests"] = [
        {
            "name": "gpu",
            "firstAvailable": [{"name": "big", "deviceClassName": "x"}, {"name": "small", "deviceClassName": "x"}],
        }
    ]
    created = api.create(RESOURCE_CLAIMS, obj)
    refused(api, created, "request", allocation=result(request="gpu/medium"))
    write_status(api, created, allocation=result(request="gpu/small"))


def test_device_status_is_removed_with_the_allocation(api: Api, namespace: str) -> None:
    claimed = allocated(api, namespace)
    entry = {"driver": "lode.dev", "pool": "node-1/lode.dev", "device": "gpu-0", "data": {"a": 1}}
    refused(api, claimed, "devices", allocation=allocation(), devices=[{**entry, "device": "gpu-9"}])
    after = write_status(api, claimed, allocation=allocation(), devices=[entry])
    (stored,) = after["status"]["devices"]
    assert {name: value for name, value in stored.items() if value is not None} == entry
    assert write_status(api, after, devices=[entry])["status"] == {}


def requests(*items: Object) -> Object:
    return {"devices": {"requests": list(items)}}


def exactly(name: str = "a", **fields: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "x.example", **fields}}


def sub(name: str) -> Object:
    return {"name": name, "deviceClassName": "x"}


def constrained(constraint: Object) -> Object:
    return {"devices": {"requests": [exactly()], "constraints": [constraint]}}


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("name", requests(exactly("Upper"))),
        ("name", requests(exactly("a"), exactly("a"))),
        ("requests", requests({"name": "a"})),
        ("requests", requests({**exactly(), "firstAvailable": [sub("s")]})),
        ("deviceClassName", requests({"name": "a", "exactly": {}})),
        ("deviceClassName", requests(exactly(deviceClassName="Not a name"))),
        ("count", requests(exactly(count=-1))),
        ("count", requests(exactly(allocationMode="All", count=1))),
        ("allocationMode", requests(exactly(allocationMode="Some"))),
        ("requests", requests(*(exactly(f"r{i}") for i in range(33)))),
        ("firstAvailable", requests({"name": "a", "firstAvailable": [sub(f"s{i}") for i in range(9)]})),
        ("cel", requests(exactly(selectors=[{}]))),
        ("expression", requests(exactly(selectors=[{"cel": {"expression": ""}}]))),
        ("expression", requests(exactly(selectors=[{"cel": {"expression": "device.driver =="}}]))),
        ("operator", requests(exactly(tolerations=[{"key": "k", "operator": "Is"}]))),
        ("constraints", constrained({"requests": ["a"]})),
        ("constraints", constrained({"requests": ["z"], "matchAttribute": "a.b/c"})),
        ("matchAttribute", constrained({"matchAttribute": "unqualified"})),
        ("config", {"devices": {"requests": [exactly()], "config": [{"requests": ["a"]}]}}),
        ("parameters", {"devices": {"config": [{"opaque": {"driver": "a.b"}}]}}),
        ("driver", {"devices": {"config": [{"opaque": {"driver": "A b", "parameters": {"a": 1}}}]}}),
    ],
)
def test_a_malformed_spec_is_refused_in_claims_and_templates(
    api: Api, namespace: str, field: str, spec: Object
) -> None:
    for resource, wrapped in ((RESOURCE_CLAIMS, spec), (RESOURCE_CLAIM_TEMPLATES, {"spec": spec})):
        with pytest.raises(Invalid, match=field):
            api.create(resource, {"metadata": {"name": "c"}, "spec": wrapped}, namespace)


def test_admin_access_needs_a_namespace_that_allows_it(api: Api, namespace: str) -> None:
    obj = claim("c", namespace)
    obj["spec"] = requests(exactly(adminAccess=True))
    with pytest.raises(Invalid, match="adminAccess"):
        api.create(RESOURCE_CLAIMS, obj)
