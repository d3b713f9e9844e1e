"""The API's JSON and the model say the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.model import (
    Allocation,
    Capacity,
    Consumer,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceId,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    OpaqueConfig,
    RequestPolicy,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
    Version,
    qualify,
)
from driver.quantity import Quantity
from driver.wire import (
    allocation_from,
    allocation_to,
    claim_from,
    claim_spec_from,
    class_from,
    consumer_to,
    device_from,
    device_to,
    only_node,
    slice_from,
    slice_spec_to,
    taint_rule_from,
)

DRIVER = "lode.dev"
names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
quantities = st.integers(0, 2**40).map(Quantity.whole)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), names, names.map(lambda name: Version(f"1.2.3-{name}"))
)
attribute_lists = st.one_of(*(st.lists(kind, min_size=1, max_size=3).map(tuple) for kind in (st.booleans(), names)))
policies = st.builds(
    RequestPolicy,
    default=quantities,
    minimum=st.none() | quantities,
    maximum=st.none() | quantities,
    step=st.none() | quantities,
)
selectors = st.builds(
    lambda key, values: NodeSelector((NodeSelectorTerm((NodeRequirement(key, "In", tuple(values)),)),)),
    names,
    st.lists(names, min_size=1, max_size=2),
)
devices = st.builds(
    Device,
    name=names,
    attributes=st.dictionaries(
        st.one_of(names.map(lambda n: f"{DRIVER}/{n}"), names.map(lambda n: f"other.dev/{n}")),
        st.one_of(scalars, attribute_lists),
        max_size=4,
    ),
    capacity=st.dictionaries(names, st.builds(Capacity, quantities, st.none() | policies), max_size=3),
    consumes=st.lists(
        st.builds(CounterConsumption, names, st.dictionaries(names, quantities, min_size=1, max_size=2)), max_size=2
    ).map(tuple),
    taints=st.lists(st.builds(Taint, names, names, st.sampled_from(["None", "NoSchedule"])), max_size=2).map(tuple),
    allow_multiple=st.booleans(),
    binds_to_node=st.booleans(),
    binding_conditions=st.lists(names, max_size=2).map(tuple),
    binding_failure_conditions=st.lists(names, max_size=2).map(tuple),
)
scopes = st.one_of(
    st.builds(NodeScope, node_name=names), st.just(NodeScope(all_nodes=True)), st.builds(NodeScope, selector=selectors)
)
results = st.builds(
    Result,
    request=names,
    device=st.builds(DeviceId, names, names, names),
    share_id=st.just("") | names,
    consumed=st.dictionaries(names, quantities, max_size=2),
    admin_access=st.booleans(),
    tolerations=st.lists(
        st.builds(Toleration, names, st.just("Exists"), seconds=st.none() | st.integers(0, 9)), max_size=2
    ).map(tuple),
    binding_conditions=st.lists(names, max_size=2).map(tuple),
    skip_node_operations=st.lists(names, max_size=1).map(tuple),
)
configs = st.builds(
    OpaqueConfig,
    names,
    st.dictionaries(names, st.integers(), min_size=1, max_size=2),
    st.lists(names, max_size=2).map(tuple),
    st.sampled_from(["FromClass", "FromClaim"]),
)
allocations = st.builds(
    Allocation,
    st.lists(results, min_size=1, max_size=3).map(tuple),
    st.lists(configs, max_size=2).map(tuple),
    st.none() | selectors | names.map(only_node),
    st.sampled_from(["", "2026-01-01T00:00:00Z"]),
)


@given(devices)
def test_a_device_survives_the_wire(device: Device) -> None:
    assert device_from(device_to(device, DRIVER), DRIVER) == device


@settings(max_examples=40)
@given(
    st.lists(devices, max_size=2),
    st.lists(st.builds(CounterSet, names, st.dictionaries(names, quantities, min_size=1))),
    scopes,
)
def test_a_slice_survives_the_wire(some: list[Device], sets: list[CounterSet], scope: NodeScope) -> None:
    part = Slice("s", DRIVER, "pool/x", 3, 2, scope, tuple(some) if not sets else (), tuple(sets))
    spec = slice_spec_to(part)
    assert slice_from({"metadata": {"name": "s"}, "spec": spec}) == part
    assert ("devices" in spec) != ("sharedCounters" in spec)


@given(allocations)
def test_an_allocation_survives_the_wire(allocation: Allocation) -> None:
    assert allocation_from(allocation_to(allocation)) == allocation


def test_an_allocation_names_its_node_only_where_it_is_bound_to_exactly_one() -> None:
    assert Allocation((), nodes=only_node("n1")).node_name == "n1"
    in_region = NodeSelector((NodeSelectorTerm((NodeRequirement("region", "In", ("eu",)),)),))
    two = NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", ("a", "b")),)),))
    assert [Allocation((), nodes=nodes).node_name for nodes in (None, in_region, two)] == ["", "", ""]


def test_unqualified_attributes_belong_to_the_driver_and_are_written_without_it() -> None:
    assert qualify("type", DRIVER) == "lode.dev/type"
    assert qualify("resource.kubernetes.io/pcieRoot", DRIVER) == "resource.kubernetes.io/pcieRoot"
    device = device_from({"name": "d", "attributes": {"type": {"string": "H100"}}}, DRIVER)
    assert device.attributes == {"lode.dev/type": "H100"}
    assert device_to(device, DRIVER)["attributes"] == {"type": {"string": "H100"}}


CLAIM: dict[str, Any] = {
    "metadata": {
        "namespace": "ns",
        "name": "c",
        "uid": "u",
        "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["f"],
        "ownerReferences": [{"kind": "Pod", "uid": "other"}, {"kind": "Pod", "uid": "p", "controller": True}],
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "one",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "selectors": [{"cel": {"expression": "true"}}],
                        "capacity": {"requests": {"memory": "4Gi"}},
                        "tolerations": [{"key": "k", "operator": "Exists"}],
                        "derivedAttributes": [],
                    },
                },
                {"name": "two", "firstAvailable": [{"name": "a", "deviceClassName": "x", "allocationMode": "All"}]},
            ],
            "constraints": [{"requests": ["one"], "matchAttribute": "lode.dev/numaNode"}],
            "config": [{"requests": ["one"], "opaque": {"driver": DRIVER, "parameters": {"a": 1}}}],
        }
    },
    "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}]},
}


def test_a_claim_is_read_with_everything_deciding_needs() -> None:
    claim = claim_from(CLAIM)
    assert (claim.key, claim.uid, claim.resource_version, claim.owner_pod_uid) == ("ns/c", "u", "7", "p")
    assert (claim.deleting, claim.finalizers, claim.allocation) == (True, ("f",), None)
    assert claim.reserved_for == (Consumer("pods", "p", "pu"),)
    assert consumer_to(claim.reserved_for[0]) == CLAIM["status"]["reservedFor"][0]
    one, two = claim.spec.requests
    (want,) = one.wants
    assert (want.mode, want.count, want.selectors) == ("ExactCount", 1, ("true",))
    assert want.capacity == {"memory": Quantity.parse("4Gi")}
    assert want.tolerations == (Toleration("k", "Exists"),)
    assert (two.prioritized, two.wants[0].name, two.wants[0].mode) == (True, "a", "All")
    assert claim.spec.constraints[0].match_attribute == "lode.dev/numaNode"
    assert claim.spec.config[0].parameters == {"a": 1}


def test_a_field_of_a_request_that_is_not_known_is_named() -> None:
    assert claim_from(CLAIM).spec.requests[0].wants[0].unsupported == ("derivedAttributes",)


def test_a_class_is_read_with_selectors_and_configuration() -> None:
    raw = {
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}],
        },
    }
    device_class = class_from(raw)
    assert (device_class.name, device_class.selectors) == ("gpu", ("true",))
    assert device_class.config == (OpaqueConfig(DRIVER, {"a": 1}),)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, TaintRule("r", Taint("k", "", "NoExecute"))),
        ({}, TaintRule("r", Taint("k", "", "NoExecute"), selects=True)),
        ({"pool": "p"}, TaintRule("r", Taint("k", "", "NoExecute"), selects=True, pool="p")),
    ],
)
def test_a_taint_rule_without_a_selector_selects_nothing(selector: dict[str, str] | None, expected: TaintRule) -> None:
    spec: dict[str, Any] = {"taint": {"key": "k", "effect": "NoExecute"}}
    if selector is not None:
        spec["deviceSelector"] = selector
    assert taint_rule_from({"metadata": {"name": "r"}, "spec": spec}) == expected


def test_fields_of_a_consumer_that_are_not_known_are_written_as_they_were_read() -> None:
    raw = {"resource": "pods", "name": "p", "uid": "u", "since": {"a": 1}}
    claim = claim_from({"metadata": {"name": "c"}, "spec": {}, "status": {"reservedFor": [raw]}})
    [consumer] = claim.reserved_for
    assert consumer_to(consumer) == raw
    assert consumer == Consumer("pods", "p", "u")


@pytest.mark.parametrize(
    "device",
    [
        {"name": {"a": 1}},
        {"name": "a", "taints": [{"key": {"a": 1}, "effect": "NoSchedule"}]},
        {"name": "a", "taints": [{"key": "a", "value": [1], "effect": "NoSchedule"}]},
        {"name": "a", "taints": [{"key": "a", "effect": {}}]},
        {"name": "a", "nodeName": ["n1"]},
        {"name": "a", "consumesCounters": [{"counterSet": {}, "counters": {}}]},
        {"name": "a", "consumesCounters": [{"counterSet": "s", "counters": {}, "compatibilityGroups": [{}]}]},
        {"name": "a", "bindingConditions": [{}]},
        {"name": "a", "bindingFailureConditions": [[]]},
    ],
)
def test_what_is_no_text_where_one_must_be_is_found_when_the_device_is_decoded(device: dict[str, Any]) -> None:
    """Later, it would be a fault of the index of all devices of the pool, and not of the slice."""
    with pytest.raises(TypeError):
        device_from(device, "lode.dev")


@pytest.mark.parametrize(
    "request_",
    [
        {"name": ["r"], "exactly": {"deviceClassName": "c"}},
        {"name": "r", "exactly": {"deviceClassName": {}}},
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": []}},
        {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": ["true"]}}]}},
        {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{"key": {}}]}},
        {"name": "r", "firstAvailable": [{"name": {}, "deviceClassName": "c"}]},
    ],
)
def test_what_is_no_text_where_one_must_be_is_found_when_the_claim_is_decoded(request_: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        claim_spec_from({"devices": {"requests": [request_]}})


@pytest.mark.parametrize("expression", [["true"], {"a": 1}, 1])
def test_a_class_with_a_selector_that_is_no_text_is_not_decoded(expression: object) -> None:
    with pytest.raises(TypeError):
        class_from({"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
