"""A real control plane with the manifests installed, and the objects that tests create there."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testclusters.controlplane import ControlPlane
from tests.contract.identity import CONTROLLER, Identity, Object, Response, eventually

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
SLICES = f"{DRA}/resourceslices"
NODES = ("n1", "n2")
RESOURCES = ("resourceslices", "resourceclaims", "resourceclaims/status", "resourceclaims/binding")
OUR_DRIVER, OTHER_DRIVER = "lode.dev", "gpu.example.com"
GATE = {"name": "lode.dev/allocation"}
TRUSTED = "trusted"
"""A group that RBAC allows to write claims and slices, so that only the policies restrict it."""

_numbers = itertools.count()


@contextmanager
def installed() -> Iterator[Identity]:
    """The administrator of a control plane with the manifests of the default flavor and two nodes."""
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": [*RESOURCES], "verbs": ["*"]}]
    role = {**_named("ClusterRole", TRUSTED), "rules": rules}
    subject = {"kind": "Group", "name": TRUSTED, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": TRUSTED, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**_named("ClusterRoleBinding", TRUSTED), "roleRef": reference, "subjects": [subject]}
    with ControlPlane() as plane:
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        for node in NODES:
            plane.add_node(node)
        admin = Identity.admin(plane)
        for obj in (role, binding):
            admin.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{obj['kind'].lower()}s", obj).must()
        _wait_for_policies(admin)
        yield admin


def _named(kind: str, name: str) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}


def _wait_for_policies(admin: Identity) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    used, free = stored["metadata"]["name"], admin.request("POST", CLAIMS, claim()).must()["metadata"]["name"]
    held = allocated(stored, OUR_DRIVER)
    held["status"]["reservedFor"] = [{"apiGroup": "lode.example", "resource": "holds", "name": "h", "uid": "1"}]
    patch_status(admin.as_user(CONTROLLER), held).must()
    eventually("the policies are in force", lambda: in_force(admin, "default", used, free, "controller-allocated"), 60)
    # kube-scheduler and the resource-claim-controller leave it alone, and other tests do not.
    patch_status(admin.as_user(CONTROLLER), {**admin.get(f"{CLAIMS}/{used}"), "status": {}}).must()


def in_force(admin: Identity, namespace: str, used: str, free: str, flavor: str) -> bool:
    """Whether every policy of the flavor refuses or changes what it is there for.

    Args:
        used: a claim of the namespace with a device of ours that is reserved.
        free: one that is not allocated.
    """
    claims = CLAIMS.replace("default", namespace)
    checks = [
        admin.request("POST", f"{SLICES}?dryRun=All", slice_of(OUR_DRIVER, "n1")),
        admin.request("PATCH", f"{claims}/{used}?dryRun=All", {"metadata": {"finalizers": None}}),
    ]
    if flavor != "controller-allocated":
        return all(answer.status == 403 for answer in checks)
    stored = admin.get(f"{claims}/{free}")
    pod = admin.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod_with_claim("none")).body
    checks += [
        admin.request("PUT", f"{claims}/{free}/status?dryRun=All", allocated(stored, OUR_DRIVER)),
        admin.request("POST", f"{claims}?dryRun=All", extended(claim())),
        admin.as_user(CONTROLLER).request("PATCH", f"{claims}/{free}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}),
    ]
    return all(answer.status == 403 for answer in checks) and GATE in pod["spec"].get("schedulingGates", [])


def trusted(admin: Identity) -> Identity:
    return admin.as_user("somebody", TRUSTED)


def unique_name(stem: str) -> str:
    """A name that no other object has; sorted, such names are in the order in which they were given."""
    return f"{stem}-{next(_numbers):04d}"


def claim(class_name: str = "gpu.lode.dev", **metadata: Any) -> Object:
    devices = {"requests": [{"name": "card", "exactly": {"deviceClassName": class_name}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": unique_name("claim"),
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            **metadata,
        },
        "spec": {"devices": devices},
    }


def allocated(claim: Object, driver: str, node: str = "n1", device: str = "gpu-0") -> Object:
    result = {"request": "card", "driver": driver, "pool": f"{node}/{driver}", "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {**claim, "status": {"allocation": allocation}}


def put_status(who: Identity, claim: Object) -> Response:
    return who.request("PUT", f"{CLAIMS}/{claim['metadata']['name']}/status", claim)


def patch_status(who: Identity, claim: Object) -> Response:
    """Sets allocation and reservations, or clears them, as the controller does: by a merge patch of one version."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    patch = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "status": {"allocation": status.get("allocation"), "reservedFor": status.get("reservedFor")},
    }
    return who.request("PATCH", f"{CLAIMS}/{metadata['name']}/status", patch)


def allocated_claim(admin: Identity, driver: str) -> Object:
    """A stored claim with a device of ``driver``; a device of ours is allocated by the controller."""
    wanted = allocated(admin.request("POST", CLAIMS, claim()).must(), driver)
    written = patch_status(admin.as_user(CONTROLLER), wanted) if driver == OUR_DRIVER else put_status(admin, wanted)
    return written.must()


def pod_with_claim(claim_name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": unique_name("pod")},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "card", "resourceClaimName": claim_name}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "card"}]}}],
            **spec,
        },
    }


def extended(claim: Object) -> Object:
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return claim


def new_namespace(admin: Identity, labels: dict[str, str]) -> str:
    name = unique_name("namespace")
    admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).must()
    path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually("its service account", lambda: admin.request("GET", path).ok)
    return name


def slice_of(driver: str, node: str, name: str = "") -> Object:
    """A slice of the node with a card; a name of our driver is one that the plugin of the node gives."""
    if not name:
        name = f"{node}-{driver}-devices-{next(_numbers) % 100:03d}" if driver == OUR_DRIVER else unique_name("slice")
    spec: Object = {"driver": driver, "pool": {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {**spec, "nodeName": node, "devices": [{"name": "gpu-0"}]},
    }
