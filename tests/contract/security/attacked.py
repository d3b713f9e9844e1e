"""A control plane with one flavor installed, and everybody who could attack it, with credentials of their own.

No controller runs, so nothing changes but what the tests ask for, and they ask without storing anything (dryRun).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from testclusters.controlplane import ControlPlane
from tests.contract import installed
from tests.contract.identity import CONTROLLER, NODE_NAME, PLUGIN, Identity, Object, eventually

Flavor = Literal["controller-allocated", "scheduler-allocated"]
FLAVORS: tuple[Flavor, ...] = ("controller-allocated", "scheduler-allocated")

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWN, OTHERS = "team-a", "kube-system"
"""The namespace of the tenant, and one of others."""
VICTIM, ATTACKER = "n1", "n2"
"""The node that is attacked, and the one whose kubelet and plugin are compromised."""
USED, FREE, FOREIGN_USED, FOREIGN_FREE = "used", "free", "foreign-used", "foreign-free"
ON = {node: f"on-{node}" for node in (VICTIM, ATTACKER)}
"""A claim that is allocated on each node."""
POD, GATED = "victim", "gated"
QUOTA = "cards"
TEMPLATE = "of-others"
SLICE = f"{VICTIM}-lode.dev-devices-000"
_RESTRICTED = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": "none",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
"""A pod that the controller's namespace admits."""
_DEVICE = {"request": "card", "driver": "lode.dev", "pool": f"{VICTIM}/lode.dev", "device": "gpu-0"}


@dataclass(frozen=True)
class AttackedCluster:
    """The cluster, and who can act in it, by the name in the table."""

    flavor: Flavor
    actors: Mapping[str, Identity]


@contextmanager
def attacked_cluster(flavor: Flavor) -> Iterator[AttackedCluster]:
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-k", f"manifests/{flavor}")
        if flavor == "controller-allocated":
            plane.kubectl("apply", "-f", "manifests/autoscaling/autoscaling-rbac.yaml")
        for node in (VICTIM, ATTACKER):
            plane.add_node(node)
        admin = Identity.admin(plane)
        _create_objects(admin, flavor)
        eventually("the policies are in force", lambda: installed.in_force(admin, OWN, USED, FREE, flavor), 60)
        yield AttackedCluster(flavor, _actors(plane, admin, flavor))


def allocation_of(driver: str) -> Object:
    return {"devices": {"results": [{**_DEVICE, "driver": driver}]}}


def device_of(node: str) -> Object:
    """The device of the claim that is allocated on the node."""
    return {"driver": "lode.dev", "pool": f"{node}/lode.dev", "device": "gpu-0"}


def allocation_on(node: str) -> Object:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    results = [{"request": "card", **device_of(node)}]
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}


def quota_path(name: str) -> str:
    """The path of a quota in the tenant's namespace."""
    return f"/api/v1/namespaces/{OWN}/resourcequotas/{name}"


def template_path(name: str, namespace: str = OWN) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates/{name}"


def template_named(name: str) -> Object:
    return {
        "metadata": {"name": name, "labels": {"lode.dev/on-demand": "true"}},
        "spec": {"spec": installed.claim()["spec"]},
    }


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def claim_path(name: str, namespace: str = OWN) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"


def pod_path(name: str, namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def slice_named(name: str, node: str, pool: str) -> Object:
    devices = [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}]
    spec = {
        "driver": "lode.dev",
        "nodeName": node,
        "pool": {"name": pool, "generation": 10**12, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _create_objects(admin: Identity, flavor: Flavor) -> None:
    admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}}).must()
    held = slice_named(SLICE, VICTIM, f"{VICTIM}/lode.dev")
    publisher = admin.as_user(PLUGIN, node=VICTIM)
    publisher.request("POST", installed.SLICES, held).must()
    allocator = admin.as_user(CONTROLLER) if flavor == "controller-allocated" else admin
    for name, driver in ((USED, "lode.dev"), (FREE, ""), (FOREIGN_USED, "gpu.example.com"), (FOREIGN_FREE, "")):
        wanted = installed.claim()
        wanted["metadata"]["name"] = name
        admin.request("POST", claim_path("").rstrip("/"), wanted).must()
        if driver:
            user = {"resource": "pods", "name": "user", "uid": f"uid-of-user-of-{name}"}
            status = {"status": {"allocation": allocation_of(driver), "reservedFor": [user]}}
            who = allocator if driver == "lode.dev" else admin
            who.request("PATCH", claim_path(name) + "/status", status).must()
    for node, name in ON.items():
        wanted = installed.claim()
        wanted["metadata"]["name"] = name
        admin.request("POST", claim_path("").rstrip("/"), wanted).must()
        user = {"resource": "pods", "name": "user", "uid": f"uid-of-user-of-{name}"}
        status = {"status": {"allocation": allocation_on(node), "reservedFor": [user]}}
        allocator.request("PATCH", claim_path(name) + "/status", status).must()
    quota = {"metadata": {"name": QUOTA}, "spec": {"hard": {"lode.dev/cores": "100", "pods": "10"}}}
    admin.request("POST", quota_path("").rstrip("/"), quota).must()
    admin.request("POST", template_path("", OTHERS).rstrip("/"), template_named(TEMPLATE)).must()
    for name, namespace, spec in (
        (POD, OTHERS, {"nodeName": VICTIM}),
        (GATED, OWN, {"schedulingGates": [installed.GATE]}),
    ):
        containers = [{"name": "main", "image": "registry.example/a:1"}]
        pod = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
        admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod).must()


def _actors(plane: ControlPlane, admin: Identity, flavor: Flavor) -> Mapping[str, Identity]:
    everything = ("resourceclaims", "resourceclaims/status", "resourceclaims/binding", "resourceclaims/driver")
    for name in ("tenant", "tenant-with-status"):
        # What the role `edit` is made of; a controller that does not run here puts it together.
        for role in ("system:aggregate-to-edit", "system:aggregate-to-view"):
            _bind(admin, OWN, name, role)
    _grant(admin, OWN, "tenant-with-status", everything)
    _grant(admin, "default", "other-driver", (*everything, "resourceslices"))
    found = {
        "tenant": _with_token(plane, admin, OWN, "tenant"),
        "tenant with claim status": _with_token(plane, admin, OWN, "tenant-with-status"),
        "plugin's token": _with_token(plane, admin, "lode-plugin", "lode-kubeletplugin"),
        "other driver": _with_token(plane, admin, "default", "other-driver"),
        "kube-scheduler": Identity.with_certificate(plane, "system:kube-scheduler"),
        "kubelet": Identity.with_certificate(plane, f"system:node:{ATTACKER}", "system:nodes"),
        "administrator": admin,
    }
    if flavor == "controller-allocated":
        found["controller's token"] = _with_token(plane, admin, "lode-system", "lode-controller")
    return found


def _grant(admin: Identity, namespace: str, account: str, resources: Sequence[str]) -> None:
    """Every right on these resources, so that only policies restrict the account."""
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": [*resources], "verbs": ["*"]}]
    admin.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": account}, "rules": rules}).must()
    _bind(admin, "" if "resourceslices" in resources else namespace, account, account, namespace)


def _bind(admin: Identity, namespace: str, account: str, role: str, home: str = OWN) -> None:
    """Give the account the role in the namespace, or in the whole cluster if it is empty."""
    kind = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    binding = {
        "metadata": {"name": f"{account}-{role.replace(':', '-')}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    admin.request("POST", f"{RBAC}/{kind}", binding).must()


def _with_token(plane: ControlPlane, admin: Identity, namespace: str, account: str) -> Identity:
    """The account with a token as the kubelet mounts it: bound to a pod, on the node of the attacker."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if not admin.request("GET", f"{accounts}/{account}").ok:
        admin.request("POST", accounts, {"metadata": {"name": account}}).must()
    spec = {"serviceAccountName": account, "nodeName": ATTACKER, **_RESTRICTED}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = admin.request("POST", pods, {"metadata": {"name": f"of-{account}"}, "spec": spec}).must()["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
    token = admin.request("POST", f"{accounts}/{account}/token", request).must()["status"]["token"]
    found = Identity.with_token(plane, token)
    known = found.request("POST", REVIEWS, {}).must()["status"]["userInfo"]
    assert known["username"] == f"system:serviceaccount:{namespace}:{account}"
    assert known["extra"][NODE_NAME] == [ATTACKER]
    return found
