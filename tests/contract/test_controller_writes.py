"""What a token of the controller may change of pods, claims and nodes: what the controller writes, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.reconcile.decisions import Allocate, Deallocate
from controller.writing.sequences import no_wish, wish
from driver.device_facts import device_statuses
from driver.model import Consumer, OpaqueConfig
from driver.names import Names
from driver.wire import allocation_from, claim_from
from tests.contract.identity import CONTROLLER, SCHEDULER, Identity, Object, Response, eventually
from tests.contract.installed import (
    CLAIMS,
    GATE,
    OTHER_DRIVER,
    OUR_DRIVER,
    allocated,
    allocated_claim,
    claim,
    installed,
    patch_status,
    pod_with_claim,
    put_status,
)

PODS = "/api/v1/namespaces/default/pods"
QUEUE = {"name": "example.com/queue"}
SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
OURS = {"type": "lode.dev/Allocated", "status": "False", "reason": "NoRoom", "message": "no node has it"}
TOLERATION = {"key": "a", "operator": "Exists"}
DEFAULTED = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
]
"""What the API server adds to the tolerations of every pod."""
STAMP = "2027-01-01T00:00:00Z"
FINALIZER = "resource.kubernetes.io/delete-protection"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000"}


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor."""
    with installed() as admin:
        yield admin


@pytest.fixture(scope="module")
def controller(admin: Identity) -> Identity:
    return admin.as_user(CONTROLLER)


@pytest.fixture(scope="module")
def pod(admin: Identity) -> str:
    """The path of a gated pod that another queue holds back, too, and of which kube-scheduler has said something."""
    gated = pod_with_claim("none", schedulingGates=[QUEUE, GATE], tolerations=[TOLERATION])
    name = admin.request("POST", PODS, gated).must()["metadata"]["name"]
    scheduler = admin.as_user(SCHEDULER)
    scheduler.request("PATCH", f"{PODS}/{name}/status", {"status": {"conditions": [SCHEDULED]}}).must()
    return f"{PODS}/{name}"


@pytest.fixture(scope="module")
def let_go(admin: Identity) -> str:
    """The path of a pod without gates, of which kube-scheduler has said something."""
    name = admin.request("POST", PODS, pod_with_claim("none", schedulerName="none")).must()["metadata"]["name"]
    without = {"spec": {"schedulingGates": [{"$patch": "delete", **GATE}]}}
    admin.request("PATCH", f"{PODS}/{name}", without, patch="strategic-merge").must()
    scheduler = admin.as_user(SCHEDULER)
    scheduler.request("PATCH", f"{PODS}/{name}/status", {"status": {"conditions": [SCHEDULED]}}).must()
    return f"{PODS}/{name}"


def consumer(pod: Object) -> Consumer:
    return Consumer("pods", pod["metadata"]["name"], pod["metadata"]["uid"])


NODE = "/api/v1/nodes/n2"
KARPENTERS, OWN = "karpenter.sh/do-not-disrupt", "lode.dev/do-not-disrupt"
PROTECTED = {KARPENTERS: "true", OWN: "true"}


@pytest.fixture(scope="module")
def with_nodes(admin: Identity) -> Identity:
    """The controller, with a right that says nothing about fields of nodes."""
    rules = [{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]}]
    subject = {"kind": "ServiceAccount", "name": "lode-controller", "namespace": "lode-system"}
    reference = {"kind": "ClusterRole", "name": "all-of-nodes", "apiGroup": "rbac.authorization.k8s.io"}
    for kind, more in (("clusterroles", {"rules": rules}), ("clusterrolebindings", {"roleRef": reference})):
        body = {"metadata": {"name": "all-of-nodes"}, **more}
        body |= {"subjects": [subject]} if kind == "clusterrolebindings" else {}
        admin.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", body).must()
    controller = admin.as_user(CONTROLLER)
    eventually("it may write nodes", lambda: controller.request("PATCH", f"{NODE}?dryRun=All", {}).ok)
    return controller


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({}, PROTECTED),
        ({OWN: "true"}, PROTECTED),
        (PROTECTED, {KARPENTERS: None, OWN: None}),
        ({KARPENTERS: "false", OWN: "true"}, {OWN: None}),
        ({OWN: "true"}, {OWN: None}),
    ],
)
def test_of_a_node_it_sets_the_annotation_that_keeps_autoscalers_away_and_removes_its_own(
    admin: Identity, with_nodes: Identity, before: Object, change: Object
) -> None:
    annotate(admin, before)
    patch = {"metadata": {"annotations": change}}
    assert with_nodes.request("PATCH", f"{NODE}?dryRun=All", patch).must()["metadata"]["name"] == "n2"


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({}, {KARPENTERS: "true"}),
        ({}, {OWN: "true"}),
        ({}, {KARPENTERS: "10m", OWN: "true"}),
        ({}, {KARPENTERS: "true", OWN: "a" * 1000}),
        ({}, {**PROTECTED, "other": "a"}),
        ({KARPENTERS: "false"}, PROTECTED),
        ({KARPENTERS: ""}, PROTECTED),
        ({KARPENTERS: "true"}, {OWN: "true"}),
        ({KARPENTERS: "true"}, {KARPENTERS: None}),
        ({KARPENTERS: "true"}, {KARPENTERS: "false"}),
        ({KARPENTERS: "false", OWN: "true"}, {KARPENTERS: None, OWN: None}),
        (PROTECTED, {KARPENTERS: None}),
        (PROTECTED, {OWN: "false"}),
        ({**PROTECTED, "other": "a"}, {KARPENTERS: None, OWN: None, "other": None}),
    ],
)
def test_of_annotations_of_a_node_it_changes_nothing_else(
    admin: Identity, with_nodes: Identity, before: Object, change: Object
) -> None:
    annotate(admin, before)
    refused = with_nodes.request("PATCH", f"{NODE}?dryRun=All", {"metadata": {"annotations": change}})
    assert refused.status == 403
    assert "controller-writes.lode.dev" in refused.message


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        {"spec": {"providerID": "kwok://another"}},
        {"metadata": {"labels": {"gpu": "none"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
    ],
)
def test_of_a_node_it_writes_nothing_but_annotations(with_nodes: Identity, change: Object) -> None:
    assert with_nodes.request("PATCH", f"{NODE}?dryRun=All", change).status == 403
    assert with_nodes.request("PATCH", f"{NODE}/status?dryRun=All", {"status": {"addresses": []}}).status == 403


def annotate(admin: Identity, annotations: Object) -> None:
    """Give the node these annotations of those that the tests are about, and no others."""
    wanted = {KARPENTERS: None, OWN: None, "other": None, **annotations}
    admin.request("PATCH", NODE, {"metadata": {"annotations": wanted}}).must()


def strategic(who: Identity, path: str, body: Object) -> int:
    return who.request("PATCH", f"{path}?dryRun=All", body, patch="strategic-merge").status


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [OURS]},
        {"conditions": [OURS], "nominatedNodeName": "n1"},
        {"nominatedNodeName": None},
        {"conditions": [{"type": "PodScheduled", "lastProbeTime": "2027-01-01T00:00:00Z"}]},
    ],
)
def test_of_a_pods_status_it_writes_its_words_the_node_and_a_time(
    controller: Identity, pod: str, status: Object
) -> None:
    assert strategic(controller, f"{pod}/status", {"status": status}) == 200


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{**SCHEDULED, "status": "True"}]},
        {"conditions": [{"type": "PodScheduled", "reason": "SchedulerError"}]},
        {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]},
        {"conditions": [OURS, {"type": "Ready", "status": "True"}]},
        {"phase": "Succeeded"},
        {"message": "evicted"},
        {"reason": "Evicted"},
        {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]},
        {"hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}]},
        {"startTime": "2027-01-01T00:00:00Z"},
        {"resourceClaimStatuses": [{"name": "card", "resourceClaimName": "another"}]},
        {
            "containerStatuses": [
                {"name": "main", "image": "a", "imageID": "", "ready": True, "restartCount": 0, "state": {}}
            ]
        },
    ],
)
def test_of_a_pods_status_it_writes_nothing_else(controller: Identity, pod: str, status: Object) -> None:
    assert strategic(controller, f"{pod}/status", {"status": status}) == 403


@pytest.mark.parametrize("condition", [wish("a new node would take it", STAMP), no_wish(STAMP)])
def test_of_a_gated_pod_it_tells_autoscalers_whether_a_node_would_help(
    controller: Identity, pod: str, condition: Object
) -> None:
    assert strategic(controller, f"{pod}/status", {"status": {"conditions": [condition]}}) == 200


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "PodScheduled", "message": "other words"},
        {"type": "PodScheduled", "lastTransitionTime": STAMP},
        wish("a new node would take it", STAMP),
        no_wish(STAMP),
    ],
)
def test_of_a_pod_without_gates_it_leaves_what_kube_scheduler_says(
    controller: Identity, let_go: str, condition: Object
) -> None:
    assert strategic(controller, f"{let_go}/status", {"status": {"conditions": [condition]}}) == 403


def test_of_a_pods_spec_it_removes_its_gate(controller: Identity, pod: str) -> None:
    own = {"spec": {"schedulingGates": [{"$patch": "delete", **GATE}]}}
    assert strategic(controller, pod, own) == 200


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingGates": [{"$patch": "delete", **QUEUE}]},
        {"schedulingGates": [{"$patch": "replace"}]},
        {"containers": [{"name": "main", "image": "registry.example/evil:1"}]},
        {"tolerations": [TOLERATION, *DEFAULTED, {"key": "b", "operator": "Exists"}]},
        {"nodeSelector": {"a": "b"}},
        {"activeDeadlineSeconds": 1},
    ],
)
def test_of_a_pods_spec_it_changes_nothing_else(controller: Identity, pod: str, spec: Object) -> None:
    assert strategic(controller, pod, {"spec": spec}) == 403


@pytest.mark.parametrize("value", ["Ascend910-0", "Ascend910-0,Ascend910-10"])
def test_of_a_pods_annotations_it_writes_the_cards_of_npus(controller: Identity, pod: str, value: str) -> None:
    change = {"metadata": {"annotations": {"huawei.com/Ascend910": value}}}
    assert controller.request("PATCH", f"{pod}?dryRun=All", change).ok


@pytest.mark.parametrize("key", ["huawei.com/AscendReal", "huawei.com/npu-core", "example.com/huawei.com", "a"])
@pytest.mark.parametrize("value", ["Ascend910-0", "rm -rf /", ""])
def test_it_writes_no_other_annotation_of_a_pod(controller: Identity, pod: str, key: str, value: str) -> None:
    allowed = key.startswith("huawei.com/Ascend") and value == "Ascend910-0"
    change = {"metadata": {"annotations": {key: value}}}
    assert controller.request("PATCH", f"{pod}?dryRun=All", change).ok is allowed


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app": "bank"}},
        {"annotations": {"a": "b"}},
        {"ownerReferences": [OWNER]},
        {"finalizers": ["lode.example/hold"]},
    ],
)
def test_of_metadata_it_adds_one_finalizer_to_claims(
    admin: Identity, controller: Identity, pod: str, metadata: Object
) -> None:
    stored = admin.request("POST", CLAIMS, claim(finalizers=["lode.example/kept"])).must()
    path = f"{CLAIMS}/{stored['metadata']['name']}"
    for target in (pod, path):
        assert controller.request("PATCH", f"{target}?dryRun=All", {"metadata": metadata}).status == 403
    added = {"metadata": {"finalizers": ["lode.example/kept", FINALIZER]}}
    assert controller.request("PATCH", f"{path}?dryRun=All", added).ok
    assert controller.request("PATCH", f"{path}?dryRun=All", {"metadata": {"finalizers": [FINALIZER]}}).status == 403


def test_it_allocates_no_device_of_another_driver(admin: Identity, controller: Identity) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    assert patch_status(controller, allocated(stored, OTHER_DRIVER)).status == 403
    both = allocated(stored, OUR_DRIVER)
    results = both["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "driver": OTHER_DRIVER, "pool": "other"})
    assert patch_status(controller, both).status == 403
    foreign = put_status(admin, allocated(stored, OTHER_DRIVER)).must()
    assert patch_status(controller, {**foreign, "status": {}}).status == 403
    reserved = {**foreign["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}
    assert patch_status(controller, {**foreign, "status": reserved}).status == 403


def test_it_marks_no_claim_as_allocated_without_devices(admin: Identity, controller: Identity) -> None:
    """kube-scheduler would bind the pod of another driver's claim without its device."""
    stored = admin.request("POST", CLAIMS, claim()).must()
    marked: tuple[Object, ...] = (
        {},
        {"devices": {"results": []}},
        {"allocationTimestamp": "2026-01-01T00:00:00Z"},
    )
    for allocation in marked:
        assert patch_status(controller, {**stored, "status": {"allocation": allocation}}).status == 403


def test_of_devices_it_writes_the_status_of_its_own(admin: Identity, controller: Identity) -> None:
    def write(driver: str) -> Response:
        stored = allocated_claim(admin, driver)
        (result,) = stored["status"]["allocation"]["devices"]["results"]
        known = {"driver": driver, "pool": result["pool"], "device": result["device"], "data": {"sharing": "none"}}
        path = f"{CLAIMS}/{stored['metadata']['name']}/status"
        return controller.request("PATCH", path, {"status": {"devices": [known]}})

    assert write(OUR_DRIVER).ok
    refused = write(OTHER_DRIVER)
    assert not refused.ok
    assert "resourceclaims/driver" in refused.message


def test_which_card_it_is_is_written_with_the_allocation_and_goes_with_it(
    admin: Identity, controller: Identity
) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    wanted = allocated(stored, OUR_DRIVER)
    # The resource-claim-controller removes reservations for pods that do not exist, and then the allocation.
    user = admin.request("POST", PODS, pod_with_claim(stored["metadata"]["name"], schedulingGates=[QUEUE, GATE])).must()
    allocation = allocation_from(wanted["status"]["allocation"])
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "sharing": "mps"}
    config = OpaqueConfig(OUR_DRIVER, parameters, source="FromClaim")
    limited = replace(allocation, config=(config,))
    facts = device_statuses(limited, Names(OUR_DRIVER), lambda _: None)
    update = Allocate("default/c", limited, consumer(user), devices=facts)
    path = f"{CLAIMS}/{wanted['metadata']['name']}/status"
    status = update.status_patch(claim_from(wanted))
    written = controller.request("PATCH", path, {"status": status}).must()
    (entry,) = written["status"]["devices"]
    assert (entry["data"]["kind"], entry["data"]["sharing"]) == ("DeviceFacts", "mps")
    left = controller.request(
        "PATCH", path, {"status": Deallocate("default/c").status_patch(claim_from(written))}
    ).must()
    assert not {"devices", "allocation"} & left.get("status", {}).keys()


def test_a_write_that_changes_nothing_is_let_through_although_the_claim_holds_nothing_any_more(
    admin: Identity, controller: Identity
) -> None:
    held = allocated_claim(admin, OUR_DRIVER)
    path = f"{CLAIMS}/{held['metadata']['name']}/status"
    late = {"status": Deallocate("default/c").status_patch(claim_from(held))}
    controller.request("PATCH", path, late).must()
    left = controller.request("PATCH", path, late).must()
    assert not {"devices", "allocation", "reservedFor"} & left.get("status", {}).keys()
