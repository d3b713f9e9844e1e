"""What somebody could try to do, as one request each that stores nothing."""

from collections.abc import Callable, Mapping

from tests.contract import installed
from tests.contract.identity import Identity, Object, Response
from tests.contract.security.attacked import (
    ATTACKER,
    FOREIGN_FREE,
    FOREIGN_USED,
    FREE,
    GATED,
    ON,
    OTHERS,
    OWN,
    POD,
    QUOTA,
    SLICE,
    TEMPLATE,
    USED,
    VICTIM,
    allocation_of,
    claim_path,
    device_of,
    node_path,
    pod_path,
    quota_path,
    slice_named,
    template_named,
    template_path,
)

Action = Callable[[Identity], Response]


def _patch(path: str, body: Object, kind: str = "merge") -> Action:
    return lambda who: who.request("PATCH", f"{path}?dryRun=All", body, patch=kind)


def _allocate(claim: str, driver: str) -> Action:
    user = {"resource": "pods", "name": "user", "uid": "uid-of-another"}
    status = {"allocation": allocation_of(driver), "reservedFor": [user]}
    return _patch(claim_path(claim) + "/status", {"status": status})


def _mark_allocated(claim: str) -> Action:
    """Say that the claim is allocated and used, without any device: its pod would be bound without one."""
    user = {"resource": "pods", "name": "user", "uid": "uid-of-another"}
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": [user]}
    return _patch(claim_path(claim) + "/status", {"status": status})


def _clear(claim: str) -> Action:
    return _patch(claim_path(claim) + "/status", {"status": {"allocation": None, "reservedFor": None}})


def _describe(node: str) -> Action:
    """Say which card the claim on the node has."""
    entry = {**device_of(node), "data": {"uuid": "GPU-forged"}}
    return _patch(claim_path(ON[node]) + "/status", {"status": {"devices": [entry]}})


def _publish(name: str, node: str, pool: str) -> Action:
    return lambda who: who.request("POST", f"{installed.SLICES}?dryRun=All", slice_named(name, node, pool))


def _delete(path: str) -> Action:
    return lambda who: who.request("DELETE", f"{path}?dryRun=All")


def _make_template(name: str, namespace: str) -> Action:
    path = template_path("", namespace).rstrip("/")
    return lambda who: who.request("POST", f"{path}?dryRun=All", template_named(name))


def _ask_for_extended_resource(who: Identity) -> Response:
    wanted = installed.extended(installed.claim())
    return who.request("POST", claim_path("").rstrip("/") + "?dryRun=All", wanted)


_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000"}
_EVIL = {"spec": {"containers": [{"name": "main", "image": "registry.example/evil:1"}]}}
_CONDITION = {"type": "lode.dev/Allocated", "status": "True", "reason": "Allocated"}
_READY = {"type": "Ready", "status": "True"}
_PROTECTED = {"karpenter.sh/do-not-disrupt": "true", "lode.dev/do-not-disrupt": "true"}
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"

ACTIONS: Mapping[str, Action] = {
    "allocate a device of Lode": _allocate(FREE, "lode.dev"),
    "clear the allocation of a claim in use": _clear(USED),
    "remove the reservation of a claim in use": _patch(claim_path(USED) + "/status", {"status": {"reservedFor": None}}),
    "remove the finalizer of a claim in use": _patch(claim_path(USED), {"metadata": {"finalizers": None}}),
    "delete a claim in use": _delete(claim_path(USED)),
    "give a claim another owner": _patch(claim_path(FREE), {"metadata": {"ownerReferences": [_OWNER]}}),
    "request a device of Lode as an extended resource": _ask_for_extended_resource,
    "allocate another driver's device": _allocate(FOREIGN_FREE, "gpu.example.com"),
    "mark another driver's claim as allocated without devices": _mark_allocated(FOREIGN_FREE),
    "clear another driver's allocation": _clear(FOREIGN_USED),
    "say which card a claim on its own node has": _describe(ATTACKER),
    "say which card a claim on another node has": _describe(VICTIM),
    "publish devices of its own node": _publish(f"{ATTACKER}-lode.dev-devices-000", ATTACKER, f"{ATTACKER}/lode.dev"),
    "publish devices of another node": _publish(f"{VICTIM}-lode.dev-devices-001", VICTIM, f"{VICTIM}/lode.dev"),
    "publish into the pool of another node": _publish(
        f"{ATTACKER}-lode.dev-devices-001", ATTACKER, f"{VICTIM}/lode.dev"
    ),
    "take the name of another node's slice": _publish(
        f"{VICTIM}-lode.dev-devices-001", ATTACKER, f"{ATTACKER}/lode.dev"
    ),
    "publish slices without end": _publish(f"{ATTACKER}-lode.dev-devices-100", ATTACKER, f"{ATTACKER}/lode.dev"),
    "delete the slice of another node": _delete(f"{installed.SLICES}/{SLICE}"),
    "change the image of a pod of others": _patch(pod_path(POD, OTHERS), _EVIL, "strategic-merge"),
    "label a pod of others": _patch(pod_path(POD, OTHERS), {"metadata": {"labels": {"app": "bank"}}}),
    "label a pod of others through its status": _patch(
        pod_path(POD, OTHERS) + "/status", {"metadata": {"labels": {"app": "bank"}}}
    ),
    "say that a pod of others is ready": _patch(
        pod_path(POD, OTHERS) + "/status", {"status": {"conditions": [_READY]}}, "strategic-merge"
    ),
    "say that a pod has its devices": _patch(
        pod_path(GATED, OWN) + "/status", {"status": {"conditions": [_CONDITION]}}, "strategic-merge"
    ),
    "remove the gate of a pod": _patch(pod_path(GATED, OWN), {"spec": {"schedulingGates": None}}),
    "keep autoscalers from another node": _patch(node_path(VICTIM), {"metadata": {"annotations": _PROTECTED}}),
    "label another node": _patch(node_path(VICTIM), {"metadata": {"labels": {"gpu": "none"}}}),
    "cordon another node": _patch(node_path(VICTIM), {"spec": {"unschedulable": True}}),
    "raise the limit of a quota in its status": _patch(
        quota_path(QUOTA) + "/status", {"status": {"hard": {"lode.dev/cores": "1000"}}}
    ),
    "say how many pods a quota counts": _patch(quota_path(QUOTA) + "/status", {"status": {"used": {"pods": "0"}}}),
    "say how much of its cards a quota counts": _patch(
        quota_path(QUOTA) + "/status", {"status": {"used": {"lode.dev/cores": "0"}}}
    ),
    "make a template on demand": _make_template("lode.gpu", OWN),
    "make another template in the namespace of others": _make_template("another", OTHERS),
    "delete a template of others": _delete(template_path(TEMPLATE, OTHERS)),
    "delete the binding of a policy": _delete(f"{_BINDINGS}/own-slices.lode.dev"),
}
"""By the words of the table, in its order."""
