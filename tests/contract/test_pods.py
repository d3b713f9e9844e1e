"""Pods: gates, mutable fields, binding and deletion."""

from typing import Any

import pytest

from driver.kube.api import PODS, Api, Conflict, Invalid, NotFound, Object, Resource
from memoryapi import MemoryApi
from tests.contract.objects import GATE, pod
from tests.contract.test_reading import events


def bind(api: Api, namespace: str, name: str, node: str) -> None:
    """Bind a pod, as kube-scheduler does."""
    if isinstance(api, MemoryApi):
        api.bind(namespace, name, node)
        return
    binding = Resource("", "v1", f"pods/{name}/binding", "Binding", namespaced=True)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    api.create(binding, {"metadata": {"name": name}, "target": target}, namespace)


def unscheduled(name: str, namespace: str, **spec: Any) -> Object:
    """A pod without gates that no scheduler handles."""
    return pod(name, namespace, gates=(), schedulerName="nobody", **spec)


def term(**parts: Any) -> Object:
    def requirement(key: str, value: str) -> Object:
        return {"key": key, "operator": "In", "values": [value]}

    return {name: [requirement(key, value) for key, value in wanted.items()] for name, wanted in parts.items()}


def required(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def container(**resources: Object) -> Object:
    return {"name": "a", "image": "x", "resources": resources}


CLAIM_A = {"name": "a", "resourceClaimName": "b"}
NODE_N = term(matchFields={"metadata.name": "n"})
ZONE_Z = term(matchExpressions={"zone": "z"})


def test_a_pod_gets_the_defaults_that_placement_depends_on(api: Api, namespace: str) -> None:
    containers = [
        {**container(limits={"cpu": "0.5", "memory": "1024Mi"}, requests={"cpu": "100m"}), "image": "x:1"},
        {"name": "b", "image": "x", "ports": [{"containerPort": 80, "hostPort": 8080}]},
    ]
    created = api.create(PODS, pod("p", namespace, containers=containers))
    spec = created["spec"]
    assert spec["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "1Gi"},
    }
    assert spec["containers"][1]["ports"] == [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    assert [container["imagePullPolicy"] for container in spec["containers"]] == ["IfNotPresent", "Always"]
    assert {(item["key"], item["effect"], item["tolerationSeconds"]) for item in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }
    expected = {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
        "securityContext": {},
    }
    assert {name: spec[name] for name in expected} == expected
    assert created["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_quality_of_service(api: Api, namespace: str, resources: Object, expected: str) -> None:
    containers = [{"name": "a", "image": "x", "resources": resources}]
    created = api.create(PODS, {**pod("p", namespace, containers=containers), "status": {"phase": "Failed"}})
    assert (created["status"]["phase"], created["status"]["qosClass"]) == ("Pending", expected)


def test_a_gated_pod_has_its_condition_at_once(api: Api, namespace: str) -> None:
    (condition,) = api.create(PODS, pod("p", namespace))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert "conditions" not in api.create(PODS, unscheduled("q", namespace))["status"]


def test_gates_can_be_removed_but_not_added(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace, gates=("a.example/x", GATE), schedulerName="nobody"))
    with pytest.raises(Invalid, match="schedulingGates"):
        api.patch(PODS, "p", {"spec": {"schedulingGates": [{"name": "b.example/y"}]}}, namespace=namespace)
    after = api.patch(PODS, "p", {"spec": {"schedulingGates": [{"name": GATE}]}}, namespace=namespace)
    assert after["spec"]["schedulingGates"] == [{"name": GATE}]
    after = api.patch(PODS, "p", {"spec": {"schedulingGates": None}}, namespace=namespace)
    assert "schedulingGates" not in after["spec"]
    with pytest.raises(Invalid, match="schedulingGates"):
        api.patch(PODS, "p", {"spec": {"schedulingGates": [{"name": GATE}]}}, namespace=namespace)


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (None, required(NODE_N), True),
        ({}, required(NODE_N), True),
        (required(ZONE_Z), required({**ZONE_Z, **NODE_N}), True),
        (required(ZONE_Z, ZONE_Z), required({**ZONE_Z, **NODE_N}, {**ZONE_Z, **NODE_N}), True),
        (required(ZONE_Z), required(ZONE_Z, NODE_N), False),
        (required(ZONE_Z, ZONE_Z), required(ZONE_Z), False),
        (required(ZONE_Z), required(NODE_N), False),
        (required(ZONE_Z), None, False),
        (required({}), required(NODE_N), False),
        (required(ZONE_Z), {**required(ZONE_Z), "podAffinity": {}}, False),
    ],
)
def test_node_affinity_of_a_gated_pod_can_only_become_stricter(
    api: Api, namespace: str, before: Object | None, after: Object | None, allowed: bool
) -> None:
    api.create(PODS, pod("p", namespace, affinity=before))
    patch = [{"op": "add", "path": "/spec/affinity", "value": after}]
    if allowed:
        written = api.patch(PODS, "p", patch, namespace=namespace, patch_type="json")
        assert written["spec"]["affinity"] == after
    else:
        with pytest.raises(Invalid, match=r"(?i)affinity"):
            api.patch(PODS, "p", patch, namespace=namespace, patch_type="json")


def test_a_gated_pods_node_selector_only_grows(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace, nodeSelector={"a": "1"}))
    for wrong in ({"a": "2"}, {"a": None}):
        with pytest.raises(Invalid, match="nodeSelector"):
            api.patch(PODS, "p", {"spec": {"nodeSelector": wrong}}, namespace=namespace)
    after = api.patch(PODS, "p", {"spec": {"nodeSelector": {"b": "2"}}}, namespace=namespace)
    assert after["spec"]["nodeSelector"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "change",
    [
        {"affinity": required(NODE_N)},
        {"nodeSelector": {"a": "1"}},
        {"nodeName": "n"},
        {"priority": 7},
        {"restartPolicy": "Never"},
        {"schedulerName": "somebody"},
        {"tolerations": [{"key": "other", "operator": "Exists"}]},
        {"containers": [{"name": "main", "image": "x", "env": [{"name": "A", "value": "b"}]}]},
        {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]},
    ],
)
def test_most_fields_of_a_pod_without_a_gate_are_immutable(api: Api, namespace: str, change: Object) -> None:
    api.create(PODS, unscheduled("p", namespace, tolerations=[{"key": "k", "operator": "Exists"}]))
    with pytest.raises(Invalid, match="spec"):
        api.patch(PODS, "p", {"spec": change}, namespace=namespace)


def test_fields_that_can_change_in_any_pod(api: Api, namespace: str) -> None:
    created = api.create(PODS, unscheduled("p", namespace))
    added = {"key": "k", "operator": "Exists"}
    change = {
        "activeDeadlineSeconds": 60,
        "tolerations": [*created["spec"]["tolerations"], added],
        "containers": [{**created["spec"]["containers"][0], "image": "registry.example/app:2"}],
    }
    after = api.patch(PODS, "p", {"spec": change, "metadata": {"labels": {"a": "b"}}}, namespace=namespace)
    assert after["spec"]["tolerations"][-1] == added
    assert after["spec"]["containers"][0]["image"] == "registry.example/app:2"
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("containers", {"containers": []}),
        ("nodeName", {"nodeName": "n"}),
        ("resourceClaims", {"resourceClaims": [{"name": "a"}]}),
        ("resourceClaims", {"resourceClaims": [{**CLAIM_A, "resourceClaimTemplateName": "c"}]}),
        ("resourceClaims", {"resourceClaims": [CLAIM_A] * 2}),
        ("claims", {"containers": [{"name": "a", "image": "x", "resources": {"claims": [{"name": "none"}]}}]}),
        ("name", {"containers": [{"image": "x"}]}),
        ("name", {"containers": [{"name": "a", "image": "x"}] * 2}),
        ("image", {"containers": [{"name": "a"}]}),
        ("restartPolicy", {"restartPolicy": "Maybe"}),
        ("limits|requests", {"containers": [container(limits={"cpu": "1"}, requests={"cpu": "2"})]}),
    ],
)
def test_a_malformed_pod_is_refused(api: Api, namespace: str, field: str, wrong: Object) -> None:
    with pytest.raises(Invalid, match=field) as error:
        api.create(PODS, pod("p", namespace, **wrong))
    assert error.value.status == 422


def test_a_pod_is_bound_once_and_only_without_gates(api: Api, namespace: str) -> None:
    api.create(PODS, pod("gated", namespace))
    with pytest.raises(Conflict):
        bind(api, namespace, "gated", "n")
    api.create(PODS, unscheduled("free", namespace))
    bind(api, namespace, "free", "n")
    bound = api.get(PODS, "free", namespace)
    assert bound["spec"]["nodeName"] == "n"
    assert {item["type"]: item["status"] for item in bound["status"]["conditions"]} == {"PodScheduled": "True"}
    with pytest.raises(Conflict):
        bind(api, namespace, "free", "other")
    with pytest.raises(NotFound):
        bind(api, namespace, "absent", "n")


def test_a_pod_without_a_node_is_deleted_at_once(api: Api, namespace: str) -> None:
    for name, obj in (("gated", pod("gated", namespace)), ("free", unscheduled("free", namespace))):
        created = api.create(PODS, obj)["metadata"]
        api.delete(PODS, name, namespace)
        with pytest.raises(NotFound):
            api.get(PODS, name, namespace)
        marked, gone = events(api, PODS, created["resourceVersion"], 2, namespace=namespace)
        assert (marked.type, gone.type) == ("MODIFIED", "DELETED")
        for event in (marked, gone):
            metadata = event.object["metadata"]
            assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
            assert metadata["deletionTimestamp"] >= created["creationTimestamp"]


def test_a_deleted_pod_that_is_bound_waits_for_its_kubelet(api: Api, namespace: str) -> None:
    created = api.create(PODS, unscheduled("p", namespace, nodeName="n"))
    api.delete(PODS, "p", namespace)
    going = api.get(PODS, "p", namespace)["metadata"]
    assert going["deletionGracePeriodSeconds"] == 30
    assert going["deletionTimestamp"] > created["metadata"]["creationTimestamp"]
    assert going["generation"] == 2
    api.delete(PODS, "p", namespace)
    assert api.get(PODS, "p", namespace)["metadata"] == going
    api.delete(PODS, "p", namespace, grace_period_seconds=5)
    sooner = api.get(PODS, "p", namespace)["metadata"]
    assert sooner["deletionGracePeriodSeconds"] == 5
    assert sooner["deletionTimestamp"] < going["deletionTimestamp"]
    api.delete(PODS, "p", namespace, grace_period_seconds=0, uid=going["uid"])
    with pytest.raises(NotFound):
        api.get(PODS, "p", namespace)
    version = created["metadata"]["resourceVersion"]
    seen = [event.type for event in events(api, PODS, version, 4, namespace=namespace)]
    assert seen == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


def test_a_finished_pod_is_deleted_at_once(api: Api, namespace: str) -> None:
    api.create(PODS, unscheduled("p", namespace, nodeName="n"))
    api.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, namespace=namespace, subresource="status")
    api.delete(PODS, "p", namespace)
    with pytest.raises(NotFound):
        api.get(PODS, "p", namespace)


def test_a_killed_pod_with_a_finalizer_stays_until_it_is_removed(api: Api, namespace: str) -> None:
    obj = unscheduled("p", namespace, nodeName="n")
    obj["metadata"]["finalizers"] = ["lode.example/hold"]
    api.create(PODS, obj)
    api.delete(PODS, "p", namespace)
    api.delete(PODS, "p", namespace, grace_period_seconds=0)
    assert api.get(PODS, "p", namespace)["metadata"]["deletionGracePeriodSeconds"] == 0
    api.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=namespace)
    with pytest.raises(NotFound):
        api.get(PODS, "p", namespace)


def test_a_pods_claims_are_recorded_in_its_status(api: Api, namespace: str) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    api.create(PODS, pod("p", namespace, resourceClaims=claims))
    statuses = [{"name": "gpu", "resourceClaimName": "c-1"}]
    patch = {"status": {"resourceClaimStatuses": statuses}}
    answer = api.patch(PODS, "p", patch, namespace=namespace, subresource="status")
    assert answer["status"]["resourceClaimStatuses"] == statuses
    assert answer["metadata"]["generation"] == 1


def test_a_write_to_a_pods_status_does_not_change_its_spec(api: Api, namespace: str) -> None:
    created = api.create(PODS, pod("p", namespace))
    created["spec"]["schedulingGates"] = []
    created["metadata"]["labels"] = {"a": "b"}
    created["status"]["phase"] = "Running"
    after = api.update(PODS, created, "status")
    assert after["spec"]["schedulingGates"] == [{"name": GATE}]
    assert after["status"]["phase"] == "Running"
    assert after["metadata"].get("labels") == {"a": "b"}
