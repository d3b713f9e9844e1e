"""What 1.38 refuses or reads otherwise is found in values, whatever else is written beside them."""

from typing import Any

import pytest

from cli.doctor.upgrade.concerns import MOST_NAMED, Concern, Concerns
from cli.doctor.upgrade.object_rules import Published, SelectorRules, of_claim, of_slice, of_taint_rule, of_template
from cli.doctor.upgrade.program_rules import LOCKED, REMOVED, Clients, of_config_map, of_kubelet, of_pod
from driver.kube.api import Object
from tests.contract.objects import resource_slice
from tests.contract.of_137 import asking, consuming, device

DRIVER = "gpu.example"
NONE = SelectorRules()
PUBLISHED = Published({DRIVER}, {f"{DRIVER}/firmware"})


def claim(spec: Object, allocation: Object | None = None) -> Object:
    status = {"allocation": allocation} if allocation else {}
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": spec, "status": status}


def found(concerns: Any) -> list[tuple[str, str, str]]:
    return [(one.status, one.field, one.value) for one in concerns]


def test_amounts_below_zero_are_found_in_requests_and_allocations() -> None:
    spec = asking(memory="-1Gi")
    path = "devices.requests[0].exactly.capacity.requests[memory]"
    assert found(of_claim(claim(spec), PUBLISHED, NONE)) == [("warning", f"spec.{path}", "-1Gi")]
    template = {"metadata": {"name": "t", "namespace": "team"}, "spec": {"spec": spec}}
    assert found(of_template(template, PUBLISHED, NONE)) == [("failed", f"spec.spec.{path}", "-1Gi")]
    held = claim(asking(), consuming(memory="-1"))
    (concern,) = of_claim(held, PUBLISHED, NONE)
    assert (concern.status, concern.value) == ("failed", "-1")
    assert concern.field == "status.allocation.devices.results[0].consumedCapacity[memory]"
    assert "delete the pods of claim team/c before the upgrade" in concern.remedy


@pytest.mark.parametrize(
    ("requests", "is_found"),
    [
        ({"memory": "1", f"{DRIVER}/memory": "1"}, True),
        ({"memory": "1", "other.example/memory": "1"}, False),
        ({"memory": "1", f"{DRIVER}/cores": "1"}, False),
        ({f"{DRIVER}/memory": "1"}, False),
    ],
)
def test_two_spellings_matter_where_the_domain_is_a_driver(requests: dict[str, str], is_found: bool) -> None:
    spec = asking(**requests)
    assert bool(found(of_claim(claim(spec), PUBLISHED, NONE))) is is_found
    assert found(of_claim(claim(spec, consuming()), PUBLISHED, NONE)) == []


@pytest.mark.parametrize(
    ("bounds", "is_found"),
    [
        ({"min": "1", "step": "100m"}, True),
        ({"min": "500m", "step": "1"}, True),
        ({"min": "500m", "max": "2"}, False),
        ({"min": "1", "step": "1"}, False),
        ({"min": "1Mi", "step": "1Mi", "max": "2500m"}, False),
    ],
)
def test_steps_change_where_they_or_their_beginning_are_no_whole_units(bounds: dict[str, str], is_found: bool) -> None:
    capacity = {"value": "8", "requestPolicy": {"default": "1", "validRange": bounds}}
    part = resource_slice("s", device(allowMultipleAllocations=True, capacity={"cores": capacity}))
    assert bool(found(of_slice(part))) is is_found


def test_lists_of_versions_are_looked_at_as_well() -> None:
    attributes = {"a": {"versions": ["1.0.0", f"{10**18}.0.0"]}}
    assert found(of_slice(resource_slice("s", device(attributes=attributes)))) == [
        ("failed", "spec.devices[0].attributes[a].version", f"{10**18}.0.0")
    ]


def test_of_a_driver_both_spellings_of_an_attribute_are_found() -> None:
    both = device(attributes={"model": {"string": "a"}, "lode.example/model": {"string": "b"}})
    assert found(of_slice(resource_slice("s", both))) == [
        ("warning", "spec.devices[0].attributes", "model and lode.example/model")
    ]


@pytest.mark.parametrize(
    ("selector", "is_found"), [({}, True), (None, False), ({"driver": DRIVER}, False), ({"device": "gpu-0"}, False)]
)
def test_a_taint_rule_for_everything_is_found(selector: Object | None, is_found: bool) -> None:
    spec = {"taint": {"key": "a", "effect": "None"}, **({} if selector is None else {"deviceSelector": selector})}
    assert bool(found(of_taint_rule({"metadata": {"name": "r"}, "spec": spec}))) is is_found


def pod(*command: str, **fields: Any) -> Object:
    return {"metadata": {"name": "p", **fields}, "spec": {"containers": [{"name": "c", "command": [*command]}]}}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("kube-apiserver", "--feature-gates=DynamicResourceAllocation=true"), ["DynamicResourceAllocation=true"]),
        (("/usr/bin/kube-scheduler", "--feature-gates", "NodeSwap=false,A=true"), ["NodeSwap=false"]),
        (("sh", "-c", "exec kube-proxy --feature-gates='WinDSR=true' --v=2"), ["WinDSR=true"]),
        (("kube-controller-manager", "--feature-gates=kube:DRADeviceTaints=false"), ["DRADeviceTaints=false"]),
        (("kube-controller-manager", "--feature-gates=DRADeviceTaints=True"), []),
        (("kube-apiserver", "--feature-gates=DRAConsumableCapacity=false"), []),
        (("csi-provisioner", "--feature-gates=NodeSwap=true"), []),
        (("kube-apiserver",), []),
    ],
)
def test_gates_that_a_program_does_not_start_with_are_found(command: tuple[str, ...], expected: list[str]) -> None:
    assert [one.value for one in of_pod(pod(*command))] == expected


def test_the_remedy_for_a_static_pod_names_its_manifest() -> None:
    static = pod("kube-apiserver", "--feature-gates=NodeSwap=true", annotations={"kubernetes.io/config.mirror": "x"})
    static["spec"]["nodeName"] = "cp-1"
    (concern,) = of_pod(static)
    assert concern.remedy == "remove it from the manifest of p in the kubelet's folder of static pods on node cp-1"


def test_gates_of_configurations_are_those_of_kubernetes_and_not_of_kubeadm() -> None:
    cluster = {
        "kind": "ClusterConfiguration",
        "featureGates": {"NodeSwap": True},
        "apiServer": {"extraArgs": {"feature-gates": "NodeSwap=true"}},
        "scheduler": {"extraArgs": [{"name": "feature-gates", "value": "DRADeviceTaintRules=false"}]},
        "controllerManager": {"extraArgs": "senseless"},
    }
    proxy = {"kind": "KubeProxyConfiguration", "featureGates": {"NFTablesProxyMode": True}}
    documents = [("a", cluster), ("b", proxy), ("c", ["senseless"]), ("d", {"featureGates": {"NodeSwap": True}})]
    assert [one.value for one in of_config_map("m", documents)] == [
        *("NodeSwap=true", "DRADeviceTaintRules=false", "NFTablesProxyMode=True")
    ]
    kubelet = {"kubeletconfig": {"featureGates": {"NodeSwap": False, "DRADeviceTaints": True}}}
    assert [one.value for one in of_kubelet("n", kubelet)] == ["NodeSwap=False"]


def test_no_gate_is_both_gone_and_locked() -> None:
    assert {"DynamicResourceAllocation", "PodGroupPreemptionPolicy"} <= REMOVED
    assert not REMOVED & LOCKED


def entry(manager: str, version: str, time: str = "2026-11-01T00:00:00Z") -> Object:
    return {"manager": manager, "apiVersion": version, "operation": "Update", "time": time}


def test_clients_of_a_version_that_is_gone_are_named_while_it_is_served() -> None:
    clients = Clients()
    for i, time in enumerate(("2026-11-02T00:00:00Z", "2026-11-01T00:00:00Z")):
        fields = [entry("old", "resource.k8s.io/v1beta1", time), entry("new", "resource.k8s.io/v1")]
        clients.add("ResourceSlice", {"metadata": {"name": f"s{i}", "managedFields": fields}})
    client, version = clients.findings(served=True)
    assert (client.status, client.subject, version.status) == ("failed", "old", "warning")
    assert "2 objects, such as ResourceSlice s0, last at 2026-11-02T00:00:00Z" in client.message
    assert [one.status for one in clients.findings(served=False)] == ["ok"]


def test_clients_are_counted_beyond_a_bound() -> None:
    clients = Clients()
    for i in range(50):
        metadata = {"name": "s", "managedFields": [entry(f"c{i:02}" * 100, "resource.k8s.io/v1beta1")]}
        clients.add("ResourceSlice", {"metadata": metadata})
    told = clients.findings(served=True)
    assert len(told) == 22
    assert "30 more writes" in told[-2].message
    assert all(len(one.subject) <= 60 for one in told)


def test_what_is_kept_of_many_and_long_values_has_a_bound() -> None:
    concerns = Concerns()
    for i in range(1000):
        of_one = (Concern("failed", "f" * 10_000, "v" * 10_000, "is refused", "change it") for _ in range(100))
        concerns.add("slices", f"ResourceSlice {i}", of_one)
    found = [*concerns.findings(["slices"])]
    assert len(found) == MOST_NAMED + 1
    assert found[-1].subject == "980 more objects"
    assert "(and 99 more fields)" in found[0].message
    assert all(len(one.message) < 500 for one in found)


def test_a_check_without_concerns_is_ok() -> None:
    concerns = Concerns()
    concerns.add("claims", "ResourceClaim a/b", ())
    assert [(one.status, one.subject) for one in concerns.findings(["claims", "slices"])] == [
        ("ok", "1 objects"),
        ("ok", "0 objects"),
    ]
