"""What kube-scheduler says about a pod, how the controller marks it as old, and Events that are counted up."""

from typing import Any

from controller.reporting import Note, event_of
from controller.state.pods import pod_from
from controller.writing.execution import carry_out
from controller.writing.sequences import verdict_step
from driver.kube.api import DEVICE_CLASSES, EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from tests.contract.conftest import eventually
from tests.contract.objects import pod, resource_slice

STAMP = "2027-01-15T08:00:00Z"


def scheduled(api: Api, name: str, namespace: str) -> Object:
    conditions = api.get(PODS, name, namespace)["status"].get("conditions") or []
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def refuse(api: Api, name: str, namespace: str, message: str) -> None:
    """What kube-scheduler writes: it has no ``lastProbeTime`` of its own, so its patch removes one that is there."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    patch = {"status": {"conditions": [{**condition, "lastProbeTime": None}]}}
    api.patch(PODS, name, patch, namespace=namespace, subresource="status", patch_type="strategic")


def test_a_mark_changes_nothing_else_of_the_verdict_and_ends_with_the_next_one(api: Api, namespace: str) -> None:
    made = api.create(PODS, pod("p", namespace, gates=(), schedulerName="nobody"))
    refuse(api, "p", namespace, "no room")
    before = scheduled(api, "p", namespace)
    carry_out(api, verdict_step(pod_from(made, "mine"), STAMP))
    assert scheduled(api, "p", namespace) == {**before, "lastProbeTime": STAMP}
    assert pod_from(api.get(PODS, "p", namespace), "mine").unschedulable == ""
    refuse(api, "p", namespace, "no room")
    assert pod_from(api.get(PODS, "p", namespace), "mine").unschedulable == "no room"


def test_kube_scheduler_removes_the_mark_though_it_says_the_same_again(admin: Api, unique: str) -> None:
    """Without the mark it would write nothing. A new slice makes it try again a pod whose claim it cannot allocate."""
    api = admin
    no_device = [{"cel": {"expression": f'device.driver == "{unique}.example.com"'}}]
    api.create(DEVICE_CLASSES, {"metadata": {"name": unique}, "spec": {"selectors": no_device}})
    requests = [{"name": "gpu", "exactly": {"deviceClassName": unique}}]
    claim = {"metadata": {"name": unique, "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    add_node(api, unique)
    eventually(lambda: api.create(RESOURCE_CLAIMS, claim))
    entry = {"name": "gpu", "resourceClaimName": unique}
    made = eventually(lambda: api.create(PODS, pod(unique, "default", gates=(), resourceClaims=[entry])))
    said = eventually(lambda: "cannot allocate all claims" in scheduled(api, unique, "default").get("message", ""))
    assert said
    before = scheduled(api, unique, "default")
    carry_out(api, verdict_step(pod_from(made, "mine"), STAMP))
    assert scheduled(api, unique, "default")["lastProbeTime"] == STAMP
    api.create(RESOURCE_SLICES, resource_slice(unique, driver=f"{unique}.example.org", nodeName=unique))
    eventually(lambda: not scheduled(api, unique, "default").get("lastProbeTime"))
    assert scheduled(api, unique, "default")["message"] == before["message"]
    api.delete(NODES, unique)


def add_node(api: Api, name: str) -> None:
    status = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
    }
    api.create(NODES, {"metadata": {"name": name}, "status": status})


def test_one_event_is_counted_up(api: Api, namespace: str) -> None:
    def event(message: str, at: str) -> Any:
        note = Note(PODS, f"{namespace}/p", "u", "Full", message)
        return event_of(note, reporter="lode.dev/controller", instance="me", timestamp=at)

    for message, at in (("no room", STAMP), ("still no room", "2027-01-15T09:00:00Z")):
        carry_out(api, event(message, at))
    (counted,) = api.list(EVENTS, namespace=namespace, field_selector="involvedObject.name=p").items
    assert (counted["count"], counted["message"]) == (2, "still no room")
    assert (counted["firstTimestamp"], counted["lastTimestamp"]) == (STAMP, "2027-01-15T09:00:00Z")
