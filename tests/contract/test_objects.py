"""The other kinds that the programs use: Nodes, Namespaces, Events, Leases, Jobs; and the schema of all kinds."""

import json

import pytest

from driver.kube.api import EVENTS, LEASES, NAMESPACES, NODES, Api, Conflict, Forbidden, Invalid, Object
from memoryapi import JOBS
from testclusters.controlplane import ControlPlane
from tests.contract import openapi
from tests.contract.conftest import eventually
from tests.contract.objects import pod


def event(name: str, namespace: str, **fields: object) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": namespace, "uid": "u1"},
        "reason": "Unallocatable",
        "message": "no device left",
        "type": "Warning",
        "source": {"component": "lode-controller"},
        "reportingComponent": "lode-controller",
        "reportingInstance": "lode-controller-0",
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
        **fields,
    }


def test_an_event_is_created_counted_and_found_by_its_object(api: Api, namespace: str) -> None:
    api.create(EVENTS, event("e1", namespace))
    api.create(EVENTS, event("e2", namespace, reason="Other"))
    later = {"count": 2, "lastTimestamp": "2027-01-15T08:01:00Z", "message": "still none"}
    assert api.patch(EVENTS, "e1", later, namespace=namespace)["count"] == 2
    found = api.list(EVENTS, namespace=namespace, field_selector="involvedObject.name=p,reason=Unallocatable").items
    assert [item["message"] for item in found] == ["still none"]


def test_an_event_lives_in_the_namespace_of_its_object(api: Api, namespace: str) -> None:
    with pytest.raises(Invalid, match="namespace"):
        api.create(EVENTS, event("e", "default", involvedObject={"kind": "Pod", "name": "p", "namespace": namespace}))
    node = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    with pytest.raises(Invalid, match="namespace"):
        api.create(EVENTS, event("e", namespace, involvedObject=node))
    created = api.create(EVENTS, event(f"{namespace}-node", "default", involvedObject=node))
    api.delete(EVENTS, created["metadata"]["name"], "default")


def test_a_new_style_event_needs_reporter_action_and_reason(api: Api, namespace: str) -> None:
    new = event("e", namespace, eventTime="2027-01-15T08:00:00.000000Z", action="Allocate")
    for name in ("source", "firstTimestamp", "lastTimestamp", "count"):
        del new[name]
    api.create(EVENTS, new)
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        with pytest.raises(Invalid):
            api.create(EVENTS, {**new, "metadata": {"name": "f", "namespace": namespace}, name: ""})


def lease(namespace: str, **spec: object) -> Object:
    return {
        "metadata": {"name": "l", "namespace": namespace},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2027-01-15T08:00:00.000000Z",
            "renewTime": "2027-01-15T08:00:00.000000Z",
            "leaseTransitions": 0,
            **spec,
        },
    }


def test_of_two_candidates_only_one_takes_the_lease(api: Api, namespace: str) -> None:
    held = api.create(LEASES, lease(namespace))
    taken = {**held, "spec": {**held["spec"], "holderIdentity": "you", "leaseTransitions": 1}}
    assert api.update(LEASES, taken)["spec"]["holderIdentity"] == "you"
    with pytest.raises(Conflict):
        api.update(LEASES, {**held, "spec": {**held["spec"], "renewTime": "2027-01-15T08:00:03.000000Z"}})
    assert api.get(LEASES, "l", namespace)["spec"] == taken["spec"]


def test_an_update_creates_a_missing_lease(api: Api, namespace: str) -> None:
    assert api.update(LEASES, lease(namespace))["spec"]["holderIdentity"] == "me"


@pytest.mark.parametrize(
    "wrong", [{"leaseDurationSeconds": 0}, {"leaseTransitions": -1}, {"renewTime": "2027-01-15T08:00:00"}]
)
def test_a_malformed_lease_is_refused(api: Api, namespace: str, wrong: Object) -> None:
    with pytest.raises(Invalid):
        api.create(LEASES, lease(namespace, **wrong))


def test_a_node_keeps_the_status_it_is_created_with(api: Api, unique: str) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "64", "memory": "1024Gi"}, "conditions": [ready]}
    created = api.create(NODES, {"metadata": {"name": unique, "labels": {"a": "b"}}, "status": status})
    assert created["status"]["allocatable"] == {"cpu": "64", "memory": "1Ti"}
    assert "generation" not in created["metadata"]
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}], "allocatable": {"cpu": "1"}}}
    after = api.patch(NODES, unique, patch, subresource="status", patch_type="strategic")
    assert after["status"]["allocatable"] == {"cpu": "1", "memory": "1Ti"}
    assert [(item["type"], item["status"]) for item in after["status"]["conditions"]] == [("Ready", "False")]
    after = api.patch(NODES, unique, {"spec": {"unschedulable": True}, "status": {"allocatable": None}})
    assert after["spec"]["unschedulable"] is True
    assert after["status"]["allocatable"]["cpu"] == "1"
    taints = [{"key": "a", "effect": "NoSchedule"}]
    after = api.patch(NODES, unique, {"spec": {"taints": taints}}, patch_type="strategic")
    assert {"key": "a", "effect": "NoSchedule"} in [
        {name: taint[name] for name in ("key", "effect")} for taint in after["spec"]["taints"]
    ]
    assert api.list(NODES, field_selector=f"metadata.name={unique},spec.unschedulable=true").items
    api.delete(NODES, unique)


def test_a_new_node_has_an_empty_spec_and_can_be_updated_without_a_version(api: Api, unique: str) -> None:
    assert api.create(NODES, {"metadata": {"name": unique}})["spec"] == {}
    labelled = {"metadata": {"name": unique, "labels": {"a": "b"}}}
    assert api.update(NODES, labelled)["metadata"]["labels"] == {"a": "b"}
    api.delete(NODES, unique)


def test_a_new_namespace_is_active_and_has_a_label_with_its_name(api: Api, namespace: str) -> None:
    found = api.get(NAMESPACES, namespace)
    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace


def test_a_deleted_namespace_deletes_its_objects(api: Api, namespace: str) -> None:
    api.create(LEASES, {"metadata": {"name": "held", "finalizers": ["lode.example/hold"]}}, namespace)
    api.create(LEASES, {"metadata": {"name": "free"}}, namespace)
    api.delete(NAMESPACES, namespace)
    with pytest.raises(Forbidden):
        api.create(LEASES, {"metadata": {"name": "late"}}, namespace)
    assert api.get(NAMESPACES, namespace)["status"]["phase"] == "Terminating"
    eventually(lambda: api.get(LEASES, "held", namespace)["metadata"].get("deletionTimestamp"))
    eventually(lambda: [i["metadata"]["name"] for i in api.list(LEASES, namespace=namespace).items] == ["held"])
    api.patch(LEASES, "held", {"metadata": {"finalizers": None}}, namespace=namespace)
    eventually(lambda: not api.list(NAMESPACES, field_selector=f"metadata.name={namespace}").items, seconds=60)


def test_a_job_is_stored_and_its_spec_counts_generations(api: Api, namespace: str) -> None:
    template = {"spec": {**pod("p", namespace)["spec"], "restartPolicy": "Never"}}
    job = {
        "metadata": {"name": "j"},
        "spec": {"completions": 4, "parallelism": 4, "template": template, "suspend": True},
    }
    created = api.create(JOBS, job, namespace)
    assert (created["spec"]["completions"], created["metadata"]["generation"]) == (4, 1)
    assert (created["spec"]["backoffLimit"], created["spec"]["completionMode"]) == (6, "NonIndexed")
    after = api.patch(JOBS, "j", {"spec": {"parallelism": 2}, "status": {"active": 3}}, namespace=namespace)
    assert (after["spec"]["parallelism"], after["metadata"]["generation"]) == (2, 2)
    assert "active" not in after["status"]


def test_the_schema_of_a_real_server_is_as_recorded(control_plane: ControlPlane) -> None:
    said = json.loads(control_plane.kubectl("get", "--raw", "/version").stdout)
    version = f"{said['major']}.{said['minor']}"
    if version not in openapi.VERSIONS:
        pytest.skip(f"{version} does not serve every kind of the schema")
    assert openapi.render(openapi.collect_from(control_plane)) == openapi.render(openapi.recorded(version))


def test_the_schema_in_memory_is_what_every_version_allows() -> None:
    allowed = openapi.allowed_by_all(map(openapi.recorded, openapi.VERSIONS))
    assert openapi.render(allowed) == openapi.SCHEMA.read_text()
