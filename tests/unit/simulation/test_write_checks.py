"""What is wrong with single writes of a controller, and of others."""

from collections.abc import Callable, Mapping

import pytest

from driver.kube.api import (
    EVENTS,
    JOB_SETS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Api,
    Invalid,
    Object,
)
from driver.names import FINALIZER, Names
from driver.wire import allocation_from
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.write_checks import MAX_CONDITION_MESSAGE, WriteChecks

NAMES = Names("lode.dev")


class CheckedWrites:
    """A node of 16 CPUs, and the API as a program has it."""

    def __init__(self, *, controller: bool = True):
        self.clock = VirtualClock()
        self.memory = MemoryApi(self.clock, custom=(JOB_SETS, VOLCANO_POD_GROUPS))
        self.found: list[str] = []
        self.api: Api = WriteChecks(self.memory, self.memory, NAMES, self.clock, self.found, controller=controller)
        status = {"allocatable": {"cpu": "16"}}
        self.memory.create(NODES, {"metadata": {"name": "n1"}, "status": status})

    def claim(self, name: str = "c", owner: str = "") -> Object:
        """A claim, which a pod of this uid controls."""
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner, "controller": True}
        metadata = {"name": name, "namespace": "default", "finalizers": [FINALIZER]}
        want = {"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}
        obj = {
            "metadata": {**metadata, "ownerReferences": [reference] if owner else []},
            "spec": {"devices": {"requests": [want]}},
        }
        return self.memory.create(RESOURCE_CLAIMS, obj)

    def pod(
        self, name: str = "p", claim: str = "c", *, cpu: str = "1", gate: str = NAMES.gate, priority: int = 0
    ) -> Object:
        container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "resourceClaims": [{"name": "device", "resourceClaimName": claim}]}
        gates = {"schedulingGates": [{"name": gate}]} if gate else {}
        metadata = {"name": name, "namespace": "default"}
        return self.memory.create(PODS, {"metadata": metadata, "spec": {**spec, **gates, "priority": priority}})

    def pods_of_which_one_fits(self) -> dict[str, Object]:
        """Pods that use one claim each, of which "b" is more important than "a"."""
        priorities = {"a": 0, "b": 1000}
        return {name: self.pod(name, f"c-{name}", cpu="9", priority=value) for name, value in priorities.items()}

    def allocate(self, *pods: Object, claim: str = "c", api: Api | None = None, **options: str) -> None:
        """Allocate the claim, or change its allocation, and reserve it for these pods."""
        given = allocation(**options)
        status = {"allocation": given, "devices": device_status(given), "reservedFor": consumers(*pods)}
        self.set_status(status, claim, api)

    def add_finalizer(self, claim: str) -> None:
        self.api.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}}, namespace="default")

    def set_status(self, status: Object, claim: str = "c", api: Api | None = None) -> None:
        (api or self.api).patch(RESOURCE_CLAIMS, claim, {"status": status}, namespace="default", subresource="status")

    def let_go(self, pod: Object) -> None:
        remove = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
        self.api.patch(PODS, pod["metadata"]["name"], remove, namespace="default", patch_type="json")

    def tell(self, pod: Object, status: Object) -> None:
        self.api.patch(
            PODS,
            pod["metadata"]["name"],
            {"status": status},
            namespace="default",
            subresource="status",
            patch_type="strategic",
        )


def allocation(*, driver: str = "lode.dev", device: str = "gpu-0", node: str = "n1") -> Object:
    result = {"request": "r", "driver": driver, "pool": f"{node}/lode.dev", "device": device}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        "allocationTimestamp": "2026-11-21T12:00:00Z",
    }


def device_status(given: Object) -> list[Object]:
    """What the controller says in the status about the devices of an allocation."""
    (result,) = given["devices"]["results"]
    facts = {"apiVersion": "lode.dev/v1alpha1", "kind": "DeviceFacts", "node": allocation_from(given).node_name}
    return [{**{name: result[name] for name in ("driver", "pool", "device")}, "data": facts}]


def consumers(*pods: Object) -> list[Object]:
    return [{"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in pods]


def condition(message: str) -> Object:
    return {"type": "lode.dev/Allocated", "status": "False", "reason": "Waits", "message": message}


def event(name: str = "e", message: str = "m") -> Object:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "involvedObject": about, "message": message, "reason": "Waits", "type": "Normal"}


# Wrong writes


def _lets_a_pod_go_whose_claim_has_no_devices(rig: CheckedWrites) -> None:
    rig.claim()
    rig.let_go(rig.pod())


def _lets_a_pod_go_whose_claim_is_not_reserved(rig: CheckedWrites) -> None:
    rig.claim()
    rig.allocate(rig.pod("other"))
    rig.let_go(rig.pod())


def _lets_more_go_than_the_node_has_room_for(rig: CheckedWrites) -> None:
    for name in ("a", "b"):
        rig.claim(f"c-{name}")
        pod = rig.pod(name, f"c-{name}", cpu="9")
        rig.allocate(pod, claim=f"c-{name}", device=f"gpu-{name}")
        rig.let_go(pod)


def _allocates_again_where_more_important_ones_fill_the_node(rig: CheckedWrites) -> None:
    pods = rig.pods_of_which_one_fits()
    for name, pod in pods.items():
        rig.claim(f"c-{name}")
        rig.allocate(pod, claim=f"c-{name}", device=f"gpu-{name}")
    rig.let_go(pods["b"])
    rig.set_status({"allocation": None, "devices": None, "reservedFor": None}, "c-a")
    rig.allocate(pods["a"], claim="c-a", device="gpu-a")
    rig.let_go(pods["a"])


def _lets_a_pod_go_where_more_important_ones_fill_the_node(rig: CheckedWrites) -> None:
    for name, priority in (("a", 1000), ("b", 0)):
        rig.claim(f"c-{name}")
        pod = rig.pod(name, f"c-{name}", cpu="9", priority=priority)
        rig.allocate(pod, claim=f"c-{name}", device=f"gpu-{name}")
        rig.let_go(pod)


def _nominates_another_node_than_that_of_the_devices(rig: CheckedWrites) -> None:
    rig.claim()
    pod = rig.pod()
    rig.allocate(pod)
    rig.tell(pod, {"nominatedNodeName": "n2"})


def _tells_too_much(rig: CheckedWrites) -> None:
    rig.claim()
    rig.tell(rig.pod(), {"conditions": [condition("m" * (MAX_CONDITION_MESSAGE + 1))]})


def _tells_of_the_claim_of_another_pod(rig: CheckedWrites) -> None:
    rig.claim()
    rig.tell(rig.pod(), {"conditions": [condition("claim default/strange, request r: no device")]})


def _replaces_an_allocation(rig: CheckedWrites) -> None:
    rig.claim()
    pod = rig.pod()
    rig.allocate(pod)
    rig.allocate(pod, device="gpu-1")


def _clears_an_allocation_in_use(rig: CheckedWrites) -> None:
    rig.claim()
    rig.allocate(rig.pod(gate=""))
    rig.set_status({"allocation": None, "devices": None, "reservedFor": None})


def _replaces_a_reservation_in_use(rig: CheckedWrites) -> None:
    rig.claim()
    rig.allocate(rig.pod(gate=""))
    rig.set_status({"reservedFor": consumers(rig.pod("other"))})


def _allocates_a_claim_that_is_being_deleted(rig: CheckedWrites) -> None:
    rig.claim()
    rig.memory.delete(RESOURCE_CLAIMS, "c", "default")
    rig.allocate(rig.pod())


def _gives_the_claim_of_a_pod_to_another(rig: CheckedWrites) -> None:
    rig.claim(owner="u1")
    rig.allocate(rig.pod())


def _allocates_devices_of_another_driver(rig: CheckedWrites) -> None:
    rig.claim()
    rig.allocate(rig.pod(), driver="nic.example.com")


def _records_an_event_that_is_too_long(rig: CheckedWrites) -> None:
    rig.api.create(EVENTS, event(message="m" * 1025))


def _records_an_event_with_a_name_that_is_too_long(rig: CheckedWrites) -> None:
    rig.api.create(EVENTS, event(name="e" * 254))


WRONG: Mapping[Callable[[CheckedWrites], None], str] = {
    _lets_a_pod_go_whose_claim_has_no_devices: "the pod is let go, but its claim c is not allocated",
    _lets_a_pod_go_whose_claim_is_not_reserved: "the pod is let go, but its claim c is not reserved for it",
    _lets_more_go_than_the_node_has_room_for: "pods that were let go want 18.0 CPUs of node n1, which has 16",
    _lets_a_pod_go_where_more_important_ones_fill_the_node: "pods that were let go want 18.0 CPUs of node n1, which",
    _allocates_again_where_more_important_ones_fill_the_node: "pods that were let go want 18.0 CPUs of node n1, which",
    _nominates_another_node_than_that_of_the_devices: "the pod is nominated for n2, but its devices are on ['n1']",
    _tells_too_much: "a message has 32769 characters",
    _tells_of_the_claim_of_another_pod: "the message names claims that are not the pod's: ['default/strange']",
    _clears_an_allocation_in_use: "the allocation is cleared, but reserved for pods",
    _replaces_a_reservation_in_use: "takes the place of that for",
    _gives_the_claim_of_a_pod_to_another: "the claim of pod owner u1 is given to another",
    _allocates_devices_of_another_driver: "devices of other drivers are allocated: ['nic.example.com']",
    _records_an_event_that_is_too_long: "the Event's message has 1025 characters",
}
"""Writes, and what is said about each."""

REFUSED: Mapping[Callable[[CheckedWrites], None], str] = {
    _replaces_an_allocation: "patch resourceclaims default/c is not valid: ",
    _allocates_a_claim_that_is_being_deleted: "patch resourceclaims default/c is not valid: ",
    _records_an_event_with_a_name_that_is_too_long: f"create events default/{'e' * 254} is not valid: ",
}
"""Writes that the API server refuses, whoever makes them."""


@pytest.mark.parametrize("write", WRONG, ids=lambda write: write.__name__.strip("_"))
def test_a_wrong_write_of_a_controller_is_described(write: Callable[[CheckedWrites], None]) -> None:
    rig, other = CheckedWrites(), CheckedWrites(controller=False)
    write(rig)
    write(other)
    assert any(WRONG[write] in one for one in rig.found), rig.found
    assert other.found == []


@pytest.mark.parametrize("controller", [True, False])
@pytest.mark.parametrize("write", REFUSED, ids=lambda write: write.__name__.strip("_"))
def test_a_write_that_is_not_valid_is_described_whoever_makes_it(
    write: Callable[[CheckedWrites], None], controller: bool
) -> None:
    rig = CheckedWrites(controller=controller)
    with pytest.raises(Invalid):
        write(rig)
    (one,) = rig.found
    assert one.startswith(REFUSED[write])


def test_the_right_writes_of_an_allocation_have_no_problems() -> None:
    rig = CheckedWrites()
    rig.claim()
    pod = rig.pod()
    rig.allocate(pod)
    rig.tell(pod, {"nominatedNodeName": "n1", "conditions": [condition("claim default/c, request r: allocated")]})
    rig.let_go(pod)
    rig.api.create(EVENTS, event())
    assert rig.found == []


def test_nominating_a_bound_pod_is_right_if_kube_scheduler_dropped_its_reservation() -> None:
    rig = CheckedWrites()
    rig.claim()
    pod = rig.pod(gate="")
    rig.allocate(pod)
    rig.memory.bind("default", "p", "n1")
    rig.set_status({"reservedFor": []}, api=rig.memory)
    rig.tell(pod, {"nominatedNodeName": "n1"})
    assert rig.found == []


def test_a_patch_for_a_pod_that_another_has_replaced_is_no_mistake() -> None:
    rig = CheckedWrites()
    rig.claim()
    patch = {"metadata": {"uid": "00000000-0000-4000-8000-000000000001"}, "status": {"conditions": [condition("m")]}}
    name = rig.pod()["metadata"]["name"]
    with pytest.raises(Invalid):
        rig.api.patch(PODS, name, patch, namespace="default", subresource="status", patch_type="strategic")
    assert rig.found == []


def test_a_pod_whose_claim_is_being_deleted_takes_no_room_because_kube_scheduler_refuses_it() -> None:
    rig = CheckedWrites()
    for name in ("a", "b"):
        claim = rig.claim(f"c-{name}")
        claim["metadata"]["finalizers"] = [FINALIZER]
        rig.memory.update(RESOURCE_CLAIMS, claim)
        pod = rig.pod(name, f"c-{name}", cpu="9")
        rig.allocate(pod, claim=f"c-{name}", device=f"gpu-{name}")
        rig.let_go(pod)
        rig.memory.delete(RESOURCE_CLAIMS, f"c-{name}", "default")
    assert rig.found == []


@pytest.mark.parametrize(
    ("device_class", "found"),
    [("gpu.lode.dev", ["the pod is let go, but its claim p-device is not allocated"]), ("nic.example.com", [])],
)
def test_a_claim_that_is_gone_is_missing_if_its_template_says_that_it_was_ours(
    device_class: str, found: list[str]
) -> None:
    rig = CheckedWrites()
    want = {"name": "r", "exactly": {"deviceClassName": device_class}}
    rig.memory.create(
        RESOURCE_CLAIM_TEMPLATES,
        {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": {"devices": {"requests": [want]}}}},
    )
    pod = rig.pod()
    pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "t"}]
    pod["metadata"] = {"name": "q", "namespace": "default"}
    pod = rig.memory.create(PODS, {"metadata": pod["metadata"], "spec": pod["spec"]})
    made = {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "p-device"}]}
    rig.memory.patch(PODS, "q", {"status": made}, namespace="default", subresource="status")
    rig.let_go(pod)
    assert [one.partition(": ")[2] for one in rig.found] == found


def test_a_more_important_pod_may_be_placed_on_a_node_while_another_is_let_go_there() -> None:
    rig = CheckedWrites()
    pods = rig.pods_of_which_one_fits()
    for name, pod in pods.items():
        rig.claim(f"c-{name}")
        rig.allocate(pod, claim=f"c-{name}", device=f"gpu-{name}")
    for name in ("b", "a"):
        rig.let_go(pods[name])
    assert rig.found == []


def test_the_devices_of_a_pod_are_chosen_before_the_first_write_for_them() -> None:
    rig = CheckedWrites()
    pods = rig.pods_of_which_one_fits()
    for name in pods:
        rig.claim(f"c-{name}")
        rig.add_finalizer(f"c-{name}")
    for name in ("b", "a"):
        rig.allocate(pods[name], claim=f"c-{name}", device=f"gpu-{name}")
        rig.let_go(pods[name])
    assert rig.found == []


THEIRS = "karpenter.sh/do-not-disrupt"
OURS = "lode.dev/do-not-disrupt"


@pytest.mark.parametrize(
    ("before", "patch", "wrong"),
    [
        ({}, {"annotations": {THEIRS: "true", OURS: "true"}}, ""),
        ({OURS: "true"}, {"annotations": {THEIRS: "true", OURS: "true"}}, ""),
        ({THEIRS: "true", OURS: "true"}, {"annotations": {THEIRS: None, OURS: None}}, ""),
        ({THEIRS: "10m", OURS: "true"}, {"annotations": {OURS: None}}, ""),
        ({}, {"annotations": {THEIRS: "true"}}, "our annotation does not say so"),
        ({}, {"annotations": {THEIRS: "yes", OURS: "true"}}, "do-not-disrupt is yes"),
        ({THEIRS: "true"}, {"annotations": {THEIRS: None}}, "somebody else has set true"),
        ({THEIRS: "10m", OURS: "true"}, {"annotations": {THEIRS: None, OURS: None}}, "somebody else has set 10m"),
        ({THEIRS: "true", OURS: "true"}, {"annotations": {THEIRS: None}}, "our annotation does not say so"),
        ({"a": "b"}, {"annotations": {"a": None}}, "annotations of others are changed: ['a']"),
        ({}, {"labels": {"a": "b"}}, "more is changed than annotations"),
    ],
)
def test_of_a_node_only_the_own_protection_is_changed(before: Object, patch: Object, wrong: str) -> None:
    checked = CheckedWrites()
    checked.memory.patch(NODES, "n1", {"metadata": {"annotations": before}})
    checked.api.patch(NODES, "n1", {"metadata": patch})
    assert [wrong in found for found in checked.found] == ([True] if wrong else [])


@pytest.mark.parametrize("restored", [True, False])
def test_a_wish_for_a_node_that_a_backup_has_brought_back_may_be_unknown(restored: bool) -> None:
    writes = CheckedWrites()
    writes.claim()
    pod = writes.pod()

    def say(reason: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        writes.api.patch(PODS, "p", {"status": {"conditions": [condition]}}, namespace="default", subresource="status")

    say("Unschedulable")
    backup = writes.memory.backup()
    say("SchedulingGated")
    writes.memory.restore(backup) if restored else say("Unschedulable")
    writes.allocate(pod)
    assert any("still asks autoscalers" in problem for problem in writes.found) != restored
