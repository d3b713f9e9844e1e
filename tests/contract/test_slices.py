"""ResourceSlices, DeviceClasses and DeviceTaintRules."""

from collections.abc import Iterator
from typing import Any

import pytest

from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_SLICES, Api, Conflict, Invalid, Object
from tests.contract.conftest import eventually
from tests.contract.objects import resource_slice


@pytest.fixture
def name(api: Api, unique: str) -> Iterator[str]:
    yield unique
    for resource in (RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES):
        for item in api.list(resource, field_selector=f"metadata.name={unique}").items:
            api.delete(resource, item["metadata"]["name"])


def device(number: int = 0, **fields: Any) -> Object:
    return {"name": f"gpu-{number}", **fields}


def share(**policy: Any) -> Object:
    return device(allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi", "requestPolicy": policy}})


def numbered(stem: str, count: int) -> Object:
    return {f"{stem}{i}": {"value": "1"} for i in range(count)}


POOL = {"name": "a", "generation": 1, "resourceSliceCount": 1}
COUNTERS = {"name": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}
CONSUMES = {"counterSet": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}
PERCENT = {"min": "0", "max": "100", "step": "1"}
STEPS = {"min": "1Mi", "step": "1Mi"}


def test_a_slice_with_everything_reads_back_as_written(api: Api, name: str) -> None:
    whole = device(
        attributes={
            "uuid": {"string": "GPU-0"},
            "index": {"int": 0},
            "ecc": {"bool": False},
            "cuda": {"version": "12.4.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        },
        capacity={"memory": {"value": "80Gi"}, "cores": {"value": "100"}},
        consumesCounters=[CONSUMES],
        taints=[{"key": "a.b/c", "value": "ecc", "effect": "NoSchedule", "timeAdded": "2027-01-15T08:00:00Z"}],
    )
    shared = device(
        1,
        allowMultipleAllocations=True,
        capacity={
            "memory": {"value": "80Gi", "requestPolicy": {"default": "80Gi", "validRange": STEPS}},
            "cores": {"value": "100", "requestPolicy": {"default": "0", "validRange": PERCENT}},
            "slots": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
        },
    )
    wanted = resource_slice(name, whole, shared)
    created = api.create(RESOURCE_SLICES, wanted)
    assert created["spec"] == wanted["spec"]
    counters = resource_slice(name, sharedCounters=[COUNTERS])
    del counters["spec"]["devices"]
    counters["metadata"] = {"generateName": f"{name}-"}
    counted = api.create(RESOURCE_SLICES, counters)
    assert counted["spec"]["sharedCounters"] == [COUNTERS]
    api.delete(RESOURCE_SLICES, counted["metadata"]["name"])


def test_a_slice_without_devices_is_valid(api: Api, name: str) -> None:
    empty = resource_slice(name)
    empty["spec"]["devices"] = []
    assert not api.create(RESOURCE_SLICES, empty)["spec"].get("devices")


def test_a_taint_gets_the_time_it_was_added(api: Api, name: str) -> None:
    taint = {"key": "lode.dev/x", "effect": "NoExecute"}
    created = api.create(RESOURCE_SLICES, resource_slice(name, device(taints=[taint])))
    added = created["spec"]["devices"][0]["taints"][0]
    assert {key: added[key] for key in taint} == taint
    assert added["timeAdded"].endswith("Z")


def test_fields_behind_disabled_feature_gates_are_dropped_or_refused(api: Api, name: str) -> None:
    obj = resource_slice(name, skipNodeOperations=["*"])
    assert "skipNodeOperations" not in api.create(RESOURCE_SLICES, obj)["spec"]
    listed = resource_slice(f"{name}-list", device(attributes={"numa": {"ints": [0, 1]}}))
    with pytest.raises(Invalid):
        api.create(RESOURCE_SLICES, listed)
    grouped = resource_slice(f"{name}-group", device(consumesCounters=[{**CONSUMES, "compatibilityGroups": ["a"]}]))
    consumed = api.create(RESOURCE_SLICES, grouped)["spec"]["devices"][0]["consumesCounters"]
    assert consumed == [CONSUMES]
    api.delete(RESOURCE_SLICES, f"{name}-group")


@pytest.mark.parametrize(
    ("field", "value"),
    [("driver", "other.example"), ("nodeName", "other"), ("pool", {**POOL, "name": "other"})],
)
def test_driver_node_and_pool_name_of_a_slice_are_immutable(api: Api, name: str, field: str, value: Any) -> None:
    api.create(RESOURCE_SLICES, resource_slice(name))
    with pytest.raises(Invalid, match=field):
        api.patch(RESOURCE_SLICES, name, {"spec": {field: value}})
    pool = {"generation": 2, "resourceSliceCount": 3}
    assert api.patch(RESOURCE_SLICES, name, {"spec": {"pool": pool}})["spec"]["pool"] == {
        "name": f"{name}/pool",
        **pool,
    }


def many(count: int, **fields: Any) -> list[Object]:
    return [device(i, **fields) for i in range(count)]


def test_a_slice_holds_128_devices_or_64_with_counters_or_taints(api: Api, name: str) -> None:
    taint = {"key": "a", "effect": "None"}
    for fits, too_many in (
        (many(128), many(129)),
        (many(64, taints=[taint]), many(65, taints=[taint])),
        (many(64, consumesCounters=[CONSUMES]), [*many(64), device(64, consumesCounters=[CONSUMES])]),
    ):
        with pytest.raises(Invalid, match="devices"):
            api.create(RESOURCE_SLICES, resource_slice(name, *too_many))
        api.create(RESOURCE_SLICES, resource_slice(name, *fits))
        api.delete(RESOURCE_SLICES, name)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("driver", {"driver": ""}),
        ("driver", {"driver": "under_score.example"}),
        ("driver", {"driver": "x" * 64}),
        ("pool", {"pool": {"name": "", "generation": 1, "resourceSliceCount": 1}}),
        ("pool", {"pool": {"name": "a//b", "generation": 1, "resourceSliceCount": 1}}),
        ("generation", {"pool": {"name": "a", "generation": -1, "resourceSliceCount": 1}}),
        ("resourceSliceCount", {"pool": {"name": "a", "generation": 1, "resourceSliceCount": 0}}),
        ("nodeName", {"nodeName": None}),
        ("nodeName", {"nodeName": ""}),
        ("spec", {"allNodes": True}),
        ("allNodes", {"nodeName": None, "allNodes": False}),
        ("perDeviceNodeSelection", {"nodeName": None, "perDeviceNodeSelection": False}),
        ("nodeSelectorTerms", {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}),
        ("nodeName", {"nodeName": None, "perDeviceNodeSelection": True}),
        ("spec", {"sharedCounters": [COUNTERS]}),
        ("sharedCounters", {"devices": None, "sharedCounters": [{**COUNTERS, "name": f"g{i}"} for i in range(9)]}),
        ("sharedCounters", {"devices": None, "sharedCounters": [COUNTERS, COUNTERS]}),
        ("sharedCounters", {"devices": None, "sharedCounters": [{**COUNTERS, "name": "Not_A_Label"}]}),
        ("counters", {"devices": None, "sharedCounters": [{"name": "a", "counters": {}}]}),
        ("counters", {"devices": None, "sharedCounters": [{"name": "a", "counters": numbered("c", 33)}]}),
    ],
)
def test_a_malformed_slice_is_refused(api: Api, name: str, field: str, spec: Object) -> None:
    with pytest.raises(Invalid, match=field) as error:
        api.create(RESOURCE_SLICES, resource_slice(name, **{"devices": [device()], **spec}))
    assert error.value.status == 422


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("name", device(name="under_score")),
        ("name", device(name="Upper")),
        ("name", device(name="x" * 64)),
        ("name", device(name="")),
        ("attributes", device(attributes={"a-b": {"int": 1}})),
        ("attributes", device(attributes={"a" * 33: {"int": 1}})),
        ("attributes", device(attributes={"UPPER_/x": {"int": 1}})),
        ("attributes", device(attributes={"a": {}})),
        ("attributes", device(attributes={"a": {"int": 1, "string": "x"}})),
        ("string", device(attributes={"a": {"string": "x" * 65}})),
        ("string", device(attributes={"a": {"string": "é" * 33}})),
        ("version", device(attributes={"a": {"version": "580.65.06"}})),
        ("version", device(attributes={"a": {"version": "12.4"}})),
        ("version", device(attributes={"a": {"version": "v1.2.3"}})),
        ("32", device(attributes={f"a{i}": {"int": 1} for i in range(30)}, capacity=numbered("c", 3))),
        ("capacity", device(capacity={"a-b": {"value": "1"}})),
        ("requestPolicy", device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}})),
        ("default", share(validRange=STEPS)),
        ("min", share(default="1Mi", validRange={"step": "1Mi"})),
        ("default|min", share(default="1", validRange=STEPS)),
        ("max", share(default="1Mi", validRange={**STEPS, "max": "81Gi"})),
        ("max|step", share(default="1Mi", validRange={**STEPS, "max": "1537Ki"})),
        ("default|max", share(default="3Mi", validRange={**STEPS, "max": "2Mi"})),
        ("default|step", share(default="1537Ki", validRange=STEPS)),
        ("step", share(default="1Mi", validRange={"min": "1Mi", "step": "80Gi"})),
        ("step", share(default="1Mi", validRange={"min": "1Mi", "step": "-1"})),
        ("default", share(default="3Gi", validValues=["1Gi", "2Gi"])),
        ("default", share(validValues=["1Gi", "2Gi"])),
        ("validValues", share(default="1Gi", validValues=["2Gi", "1Gi"])),
        ("validValues", share(default="1Gi", validValues=["1Gi", "1Gi"])),
        ("validValues", share(default="1Gi", validValues=["1Gi", "81Gi"])),
        ("validValues", share(default="1", validValues=[str(i) for i in range(1, 12)])),
        ("requestPolicy", share(default="1Mi", validRange=STEPS, validValues=["1Mi"])),
        ("consumesCounters", device(consumesCounters=[{**CONSUMES, "counterSet": f"s{i}"} for i in range(3)])),
        ("consumesCounters", device(consumesCounters=[CONSUMES, CONSUMES])),
        ("counterSet", device(consumesCounters=[{**CONSUMES, "counterSet": ""}])),
        ("counters", device(consumesCounters=[{"counterSet": "a", "counters": {}}])),
        ("taints", device(taints=[{"key": "a", "effect": "None"}] * 17)),
        ("effect", device(taints=[{"key": "a", "effect": "Sometimes"}])),
        ("effect", device(taints=[{"key": "a"}])),
        ("key", device(taints=[{"key": "not a key", "effect": "None"}])),
        ("key", device(taints=[{"effect": "None"}])),
        ("nodeName", device(nodeName="n")),
        ("allNodes", device(allNodes=True)),
        ("bindingConditions|bindingFailureConditions", device(bindingConditions=["a"])),
        ("bindingConditions", device(bindingConditions=list("abcde"), bindingFailureConditions=["f"])),
        ("bindingConditions|bindingFailureConditions", device(bindingConditions=["a"], bindingFailureConditions=["a"])),
    ],
)
def test_a_malformed_device_is_refused(api: Api, name: str, field: str, wrong: Object) -> None:
    with pytest.raises(Invalid, match=field) as error:
        api.create(RESOURCE_SLICES, resource_slice(name, wrong))
    assert error.value.status == 422


def test_the_node_selector_of_a_slice_has_one_term(api: Api, name: str) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    of_slice = resource_slice(name, device(), nodeName=None, nodeSelector={"nodeSelectorTerms": [term] * 2})
    with pytest.raises(Invalid, match="exactly one node selector term"):
        api.create(RESOURCE_SLICES, of_slice)


def test_device_names_are_unique_in_a_slice(api: Api, name: str) -> None:
    with pytest.raises(Invalid, match="devices"):
        api.create(RESOURCE_SLICES, resource_slice(name, device(), device()))


def test_the_api_does_not_compare_slices(api: Api, name: str) -> None:
    dangling = device(consumesCounters=[{"counterSet": "nowhere", "counters": {"none": {"value": "1"}}}])
    api.create(RESOURCE_SLICES, resource_slice(name, dangling))
    again = resource_slice(f"{name}-again", dangling)
    again["spec"]["pool"]["name"] = f"{name}/pool"
    api.create(RESOURCE_SLICES, again)
    api.delete(RESOURCE_SLICES, f"{name}-again")


def test_classes_can_change_and_their_selectors_must_compile(api: Api, name: str) -> None:
    selector = {"cel": {"expression": 'device.driver == "lode.dev"'}}
    config = {"opaque": {"driver": "lode.dev", "parameters": {"kind": "GpuConfig"}}}
    spec = {"selectors": [selector], "config": [config]}
    created = api.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": spec})
    assert created["spec"] == spec
    for wrong in ({"cel": {"expression": "device."}}, {"cel": {"expression": "1"}}, {"cel": {"expression": "nobody"}}):
        with pytest.raises(Invalid, match="expression"):
            api.patch(DEVICE_CLASSES, name, {"spec": {"selectors": [wrong]}})
    assert api.patch(DEVICE_CLASSES, name, {"spec": {"selectors": None}})["spec"] == {"config": [config]}


def test_a_taint_rule_is_updated_only_with_its_version(api: Api, name: str) -> None:
    spec = {"deviceSelector": {"driver": "lode.dev"}, "taint": {"key": "a.example/b", "effect": "NoExecute"}}
    created = api.create(DEVICE_TAINT_RULES, {"metadata": {"name": name}, "spec": spec})
    assert created["spec"]["taint"]["timeAdded"]
    unversioned = {"metadata": {"name": name}, "spec": created["spec"]}
    with pytest.raises(Invalid, match="resourceVersion"):
        api.update(DEVICE_TAINT_RULES, unversioned)

    def change(driver: str, read: Object) -> Object:
        return api.update(DEVICE_TAINT_RULES, {**read, "spec": {**read["spec"], "deviceSelector": {"driver": driver}}})

    # A real cluster's eviction controller writes the rule's status at the same time.
    changed = eventually(lambda: change("other.example", api.get(DEVICE_TAINT_RULES, name)))
    assert changed["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        change("third.example", created)
