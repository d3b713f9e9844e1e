"""Claims for devices of ours and of a driver that the operator has named, and what that driver's claims become."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, repeat
from typing import Any

import pytest

from driver.adoption import PLAIN, SOURCES, adopt, template_spec
from driver.kube.api import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.names import FINALIZER, PCIE_ROOT
from tests.unit.controller.loop.world import NAMES, ControllerWorld

NET = "dra.net"
GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}
NIC = {"name": "nic", "exactly": {"deviceClassName": "rdma"}}
ALIGNED = [{"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT}]


def on_root(name: str, root: str, **fields: Any) -> Object:
    return {"name": name, "attributes": {"kind": {"string": "gpu"}, PCIE_ROOT: {"string": root}}, **fields}


class MixedWorld(ControllerWorld):
    """Beside cards, the nodes have network cards of another driver, which the settings name.

    Args:
        nics: the network cards of each node.
        also: the drivers that the settings name.
    """

    def __init__(self, *nics: list[Object], also: tuple[str, ...] = (NET,), cards: int = 2, **settings: Any):
        super().__init__(len(nics), cards, alsoAllocates=list(also), **settings)
        self.add_class("rdma", f'device.driver == "{NET}"')
        for number, devices in enumerate(nics, 1):
            self.add_slice(f"n{number}", NET, devices, nodeName=f"n{number}")

    looks: Iterator[str] | None = None
    """What the controller hears, look by look, when it asks why nothing may be decided; None for ``unsafe``."""

    def why_unsafe(self) -> str:
        return self.unsafe if self.looks is None else next(self.looks)

    def add_slice(self, pool: str, driver: str, devices: list[Object], **where: Any) -> None:
        of_pool = {"name": pool, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": of_pool, **where, "devices": devices}
        self.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{pool}-of-{driver}"}, "spec": spec})

    def replace_cards(self, node: str, devices: list[Object]) -> None:
        found = self.api.get(RESOURCE_SLICES, f"{node}-{NAMES.driver}")
        found["spec"]["devices"] = devices
        self.api.update(RESOURCE_SLICES, found)

    def allocated_by_kube_scheduler(self, name: str, device: str, pod: str = "") -> None:
        """The claim gets a network card of n1, as kube-scheduler allocates it."""
        claim = self.claim(name)
        claim["metadata"]["finalizers"] = [FINALIZER]
        claim = self.api.update(RESOURCE_CLAIMS, claim)
        node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        results = [{"request": "nic", "driver": NET, "pool": "n1", "device": device}]
        claim["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [node]},
                "allocationTimestamp": "2027-01-15T07:00:00Z",
            },
        }
        if pod:
            uid = self.pod(pod)["metadata"]["uid"]
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": uid}]
        self.api.update(RESOURCE_CLAIMS, claim, "status")

    def ask(self, name: str, *requests: Object, constraints: Any = None, **devices: Any) -> None:
        """A pod with a claim of the same name."""
        more = {"constraints": constraints} if constraints else {}
        self.add_claim(name, requests=list(requests), **more, **devices)
        self.add_pod(name, name)
        self.settle(1)

    def said(self, pod: str) -> str:
        return self.condition(pod)[2]


def names(count: int) -> list[Object]:
    return [{"name": f"nic-{number}"} for number in range(count)]


def test_a_card_and_a_network_card_hang_on_one_pci_root() -> None:
    world = MixedWorld([on_root("nic-0", "pci0000:40"), on_root("nic-1", "pci0000:80")])
    world.replace_cards("n1", [on_root("gpu-0", "pci0000:00"), on_root("gpu-1", "pci0000:80")])
    world.ask("p", GPU, NIC, constraints=ALIGNED)
    assert world.devices("p") == ["n1/gpu-1", "n1/nic-1"]
    assert world.gates("p") == []


def test_where_no_root_has_both_the_pod_waits_for_one_and_is_told_so() -> None:
    world = MixedWorld([on_root("nic-0", "pci0000:40")], [on_root("nic-0", "pci0000:80")])
    world.replace_cards("n1", [on_root("gpu-0", "pci0000:00")])
    world.replace_cards("n2", [on_root("gpu-0", "pci0000:80")])
    world.ask("p", GPU, NIC, constraints=ALIGNED)
    assert world.devices("p") == ["n2/gpu-0", "n2/nic-0"]
    world.ask("q", GPU, NIC, constraints=ALIGNED)
    assert world.condition("q")[1] == "Unallocatable"
    assert PCIE_ROOT in world.said("q") or "default/p" in world.said("q")


def test_a_claim_without_cards_is_allocated_too_and_nothing_is_left_to_kube_scheduler() -> None:
    world = MixedWorld(names(2))
    world.ask("p", NIC)
    world.ask("q", NIC)
    world.ask("r", NIC)
    assert [world.devices(name) for name in "pqr"] == [["n1/nic-0"], ["n1/nic-1"], []]
    assert (world.gates("q"), world.gates("r")) == ([], ["lode.dev/allocation"])
    world.remove_pod("p")
    world.settle(10)
    assert world.devices("r") == ["n1/nic-0"]


def test_alternatives_may_be_of_different_drivers() -> None:
    world = MixedWorld(names(1), cards=1)
    either = {
        "name": "any",
        "firstAvailable": [
            {"name": "nic", "deviceClassName": "rdma"},
            {"name": "gpu", "deviceClassName": "gpu.lode.dev"},
        ],
    }
    world.ask("p", either)
    world.ask("q", either)
    assert [world.devices(name) for name in "pq"] == [["n1/nic-0"], ["n1/gpu-0"]]


def test_all_amounts_counters_and_looks_count_for_both_drivers_in_one_claim() -> None:
    shared = {"name": "port", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10"}}}
    world = MixedWorld([shared])
    every = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "allocationMode": "All"}}
    part = {"name": "nic", "exactly": {"deviceClassName": "rdma", "capacity": {"requests": {"bandwidth": "6"}}}}
    world.ask("p", every, part)
    assert world.devices("p") == ["n1/gpu-0", "n1/gpu-1", "n1/port"]
    results = world.claim("p")["status"]["allocation"]["devices"]["results"]
    assert results[-1]["consumedCapacity"] == {"bandwidth": "6"}
    world.ask("q", part)
    assert world.devices("q") == [], "only 4 of its 10 are left"
    world.ask("r", {**part, "exactly": {"deviceClassName": "rdma", "capacity": {"requests": {"bandwidth": "4"}}}})
    assert world.devices("r") == ["n1/port"]


def test_a_device_that_every_node_reaches_does_not_bind_the_pod_and_one_with_a_card_does() -> None:
    world = MixedWorld([], [])
    world.add_slice("fabric", NET, names(2), allNodes=True)
    world.ask("p", NIC)
    world.ask("q", GPU, NIC)
    nodes = [world.claim(name)["status"]["allocation"].get("nodeSelector") for name in "pq"]
    assert nodes[0] is None
    assert nodes[1]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n1"]
    assert world.gates("p") == world.gates("q") == []


def test_a_taint_of_a_network_card_keeps_a_mixed_claim_from_its_node() -> None:
    taint = {"key": "dra.net/broken", "effect": "NoSchedule"}
    world = MixedWorld([{"name": "nic-0", "taints": [taint]}], names(1))
    world.ask("p", GPU, NIC)
    assert world.devices("p") == ["n2/gpu-0", "n2/nic-0"]


def test_what_the_device_says_of_bindings_is_in_the_allocation() -> None:
    conditions = {"bindingConditions": ["dra.net/attached"], "bindingFailureConditions": ["dra.net/failed"]}
    world = MixedWorld([{"name": "nic-0", **conditions}])
    world.ask("p", GPU, NIC)
    results = world.claim("p")["status"]["allocation"]["devices"]["results"]
    assert {name: results[1].get(name) for name in conditions} == conditions
    assert not set(conditions) & set(results[0])


def test_parameters_for_cards_mean_nothing_for_network_cards() -> None:
    placing = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "memoryPercent": 50}
    parameters = [{"opaque": {"driver": "lode.dev", "parameters": placing}}]
    world = MixedWorld(names(1), cards=0)
    card = {
        "name": "gpu-0",
        "attributes": {"kind": {"string": "gpu"}},
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi"}},
    }
    world.replace_cards("n1", [card])
    world.ask("p", GPU, NIC, config=parameters)
    assert world.devices("p") == ["n1/gpu-0", "n1/nic-0"]
    first, second = world.claim("p")["status"]["allocation"]["devices"]["results"]
    assert first["consumedCapacity"] == {"memory": "40Gi"}
    assert "consumedCapacity" not in second


def test_what_kube_scheduler_has_allocated_before_stays_and_counts() -> None:
    world = MixedWorld(names(2))
    world.add_claim("old", requests=[NIC])
    world.add_pod("user", "old", gates=())
    world.allocated_by_kube_scheduler("old", "nic-0", "user")
    world.bind("user", "n1")
    world.ask("p", GPU, NIC)
    world.settle(60)
    assert world.devices("old") == ["n1/nic-0"]
    assert world.devices("p") == ["n1/gpu-0", "n1/nic-1"]


def test_a_pod_that_kube_scheduler_was_about_to_serve_is_served_without_the_gate() -> None:
    world = MixedWorld(names(1))
    world.add_claim("late", requests=[NIC])
    world.add_pod("user", "late", gates=())
    world.settle(1)
    assert world.devices("late") == ["n1/nic-0"]


def test_of_a_driver_that_is_not_named_it_is_refused_with_the_setting_as_the_remedy() -> None:
    world = MixedWorld(names(1), also=("dra.cpu",))
    world.ask("p", GPU, NIC)
    assert world.condition("p")[1] == "MixedClaim"
    assert "devices of lode.dev, dra.cpu and of other drivers cannot be allocated together" in world.said("p")
    assert "controller.alsoAllocates" in world.said("p")
    assert world.devices("p") == []


def test_a_class_over_both_drivers_is_no_ambiguity_once_both_are_allocated() -> None:
    world = MixedWorld(names(1), cards=0)
    world.add_class("either", 'device.driver in ["lode.dev", "dra.net"]')
    world.ask("p", {"name": "any", "exactly": {"deviceClassName": "either"}})
    assert world.devices("p") == ["n1/nic-0"]


def test_metrics_and_facts_are_of_cards_alone() -> None:
    world = MixedWorld(names(1))
    world.ask("p", GPU, NIC)
    assert dict(world.controller.state.allocated_by_kind()) == {"gpu": 1}
    assert [entry["driver"] for entry in world.claim("p")["status"]["devices"]] == [NAMES.driver]


@pytest.mark.parametrize("named", [True, False])
def test_a_gang_that_waits_for_a_shared_claim_is_told_which_and_who_holds_such_devices(named: bool) -> None:
    world = MixedWorld(names(1), [], also=(NET,) if named else ())
    world.add_claim("taken", requests=[NIC])
    world.add_pod("other", "taken", gates=())
    world.allocated_by_kube_scheduler("taken", "nic-0", "other")
    world.add_claim("shared", requests=[NIC])
    placing = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": {"name": "g", "minAvailable": 2}}
    for member in "pq":
        world.add_claim(member, config=[{"opaque": {"driver": "lode.dev", "parameters": placing}}])
        world.add_pod(member, member, "shared")
    world.settle(30)
    assert "no node has devices now for the claim default/shared; 1 of 1 such device is in use" in world.said("p")
    assert "by default/taken" in world.said("q")


def test_a_pod_beside_a_claim_that_is_allocated_is_told_which_claim_leaves_it_one_node() -> None:
    world = MixedWorld(names(1), [], cards=1)
    world.ask("first", GPU)
    world.add_claim("nic", requests=[NIC])
    world.add_pod("user", "nic", gates=())
    world.allocated_by_kube_scheduler("nic", "nic-0", "user")
    world.bind("user", "n1")
    world.add_claim("gpu")
    world.add_pod("p", "gpu", "nic")
    world.settle(5)
    assert world.devices("first") == ["n1/gpu-0"]
    others = "Others do not reach all devices that the pod's claims (default/nic) already hold."
    assert world.said("p").startswith(f"0 of 1 node can take the pod. {others} node n1: claim default/gpu")


BY_CLASS = "deviceclass.resource.kubernetes.io/rdma"


@pytest.mark.parametrize("resource", ["example.com/nic", BY_CLASS])
def test_an_adopted_resource_of_a_named_driver_is_decided_with_the_claim_for_cards(
    resource: str,
) -> None:
    world = MixedWorld(names(1), names(2))
    pod = {"spec": {"containers": [{"name": "main", "resources": {"limits": {resource: "2"}}}]}}
    adopted = adopt(pod, replace(SOURCES[PLAIN], resources={resource: "rdma"}))
    [template] = adopted.templates.values()
    world.add_claim("gpu")
    world.add_claim("nics", **template_spec(template, NAMES)["spec"]["devices"])
    world.add_pod("p", "gpu", "nics")
    world.settle(1)
    assert (world.devices("gpu"), world.devices("nics")) == (["n2/gpu-0"], ["n2/nic-0", "n2/nic-1"])
    assert world.gates("p") == []


@pytest.mark.parametrize("resource", ["example.com/nic", BY_CLASS])
@pytest.mark.parametrize("named", [True, False])
def test_a_pod_with_such_a_resource_beside_its_claim_holds_no_card_in_vain(resource: str, named: bool) -> None:
    """kube-scheduler would make a claim for the resource, and none of a driver that is allocated here is admitted."""
    world = MixedWorld(names(1), also=(NET,) if named else ())
    rdma = world.api.get(DEVICE_CLASSES, "rdma")
    rdma["spec"]["extendedResourceName"] = "example.com/nic"
    world.api.update(DEVICE_CLASSES, rdma)
    world.add_claim("p")
    container = {"name": "main", "image": "pause", "resources": {"requests": {resource: "1"}}}
    world.add_pod("p", "p", containers=[container])
    world.settle(1)
    assert world.devices("p") == ([] if named else ["n1/gpu-0"])
    told = f"{resource} stands for devices that are allocated for claims alone: ask for them with a claim template"
    assert (told in world.said("p")) == named


@pytest.mark.parametrize("named", [True, False])
def test_claims_are_read_once_more_when_it_has_become_safe_to_allocate(named: bool) -> None:
    """kube-scheduler allocates while the policies come into force, and the watch of claims lags behind."""
    world = MixedWorld(names(1), also=(NET,) if named else ())
    world.unsafe = "the admission policies are new"
    world.add_claim("old", requests=[NIC])
    world.add_pod("user", "old", gates=())
    request = NIC if named else GPU
    world.add_claim("p", requests=[request])
    world.add_pod("p", "p")
    world.settle(1)
    assert world.devices("p") == []
    world.allocated_by_kube_scheduler("old", "nic-0", "user")
    world.unsafe = ""
    decide_without_watching(world)
    assert world.devices("p") == ([] if named else ["n1/gpu-0"])
    world.settle(1)
    assert world.devices("old") == ["n1/nic-0"]
    assert world.devices("p") == ([] if named else ["n1/gpu-0"])


def test_what_becomes_safe_in_the_middle_of_a_step_counts_from_the_next_one() -> None:
    """The thread that looks at the policies finds them in force between two looks of the thread that decides."""
    world = MixedWorld(names(1), also=(NET,))
    world.unsafe = "the admission policies are new"
    world.add_claim("old", requests=[NIC])
    world.add_pod("user", "old", gates=())
    world.add_claim("p", requests=[NIC])
    world.add_pod("p", "p")
    world.settle(1)
    world.allocated_by_kube_scheduler("old", "nic-0", "user")
    world.looks = cycle((world.unsafe, ""))
    decide_without_watching(world)
    assert world.devices("p") == []
    world.looks = repeat("")
    decide_without_watching(world)
    assert (world.devices("old"), world.devices("p")) == (["n1/nic-0"], [])


def decide_without_watching(world: ControllerWorld) -> None:
    """The controller decides and writes, and hears of nothing that it has not asked for."""
    for _ in range(50):
        if not (world.controller.step() or world.writes.step()):
            return
    raise AssertionError(f"it does not come to rest: {[pod['metadata']['name'] for pod in world.api.list(PODS).items]}")
