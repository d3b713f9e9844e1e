"""`lode uninstall` on a real API server leaves no gate, slice, policy or allocation; while pods use devices, all."""

from collections.abc import Iterator

import pytest

from cli import uninstall
from cli.__main__ import main as lode
from testclusters.controlplane import ControlPlane
from tests.contract.identity import CONTROLLER, PLUGIN, Identity, Object, eventually
from tests.contract.installed import (
    CLAIMS,
    GATE,
    OTHER_DRIVER,
    OUR_DRIVER,
    SLICES,
    allocated,
    claim,
    pod_with_claim,
    slice_of,
)

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PROTECTED = {"karpenter.sh/do-not-disrupt": "true", "lode.dev/do-not-disrupt": "true"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = tuple(f"{what}admissionpolic{end}" for what in ("mutating", "validating") for end in ("ies", "ybindings"))


@pytest.fixture
def cluster() -> Iterator[tuple[ControlPlane, Identity]]:
    """A cluster without nodes, in which the manifests are installed."""
    with ControlPlane() as plane:
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.kubectl("apply", "-f", "manifests/adopt/hami/policies.yaml")
        plane.kubectl("wait", "--for=create", "serviceaccount/default")
        yield plane, Identity.admin(plane)


def ours(admin: Identity) -> dict[str, list[str]]:
    """What there is of Lode, by kind; empty if nothing is left."""
    found = {
        "gates": [it["metadata"]["name"] for it in items(admin, PODS) if GATE in it["spec"].get("schedulingGates", [])],
        "slices": [it["metadata"]["name"] for it in items(admin, SLICES) if it["spec"]["driver"] == OUR_DRIVER],
        "policies": [
            it["metadata"]["name"]
            for kind in KINDS
            for it in items(admin, f"{ADMISSION}/{kind}")
            if it["metadata"]["name"].endswith(OUR_DRIVER)
        ],
        "allocations": [it["metadata"]["name"] for it in items(admin, CLAIMS) if "allocation" in it.get("status", {})],
        "templates": [it["metadata"]["name"] for it in items(admin, TEMPLATES) if it["metadata"].get("labels")],
        "nodes": [it["metadata"]["name"] for it in items(admin, NODES) if annotations(it).keys() & PROTECTED.keys()],
        "finalizers": [it["metadata"]["name"] for it in items(admin, CLAIMS) if it["metadata"].get("finalizers")],
    }
    return {kind: names for kind, names in found.items() if names}


def annotations(obj: Object) -> Object:
    return dict(obj["metadata"].get("annotations") or {})


def items(admin: Identity, path: str) -> list[Object]:
    return list(admin.request("GET", path).must()["items"])


def gated_pod(admin: Identity) -> str:
    """A pod that waits for the controller. The policy may take a moment until it is in force."""

    def created() -> str:
        pod = admin.request("POST", PODS, pod_with_claim("none")).must()
        return str(pod["metadata"]["name"]) if GATE in pod["spec"].get("schedulingGates", []) else ""

    return str(eventually("a pod gets the gate", created))


def allocation(admin: Identity, **status: object) -> Object:
    stored = admin.request("POST", CLAIMS, claim()).must()
    wanted = allocated(stored, OUR_DRIVER)
    wanted["status"].update(status)
    return admin.as_user(CONTROLLER).request("PATCH", f"{CLAIMS}/{stored['metadata']['name']}/status", wanted).must()


def of_adoption(admin: Identity) -> list[str]:
    """The policies that adopt pods or refuse them."""
    return [name for name in ours(admin).get("policies", []) if "adopt" in name]


def call(plane: ControlPlane, *arguments: str) -> int:
    return lode(["uninstall", f"--kubeconfig={plane.kubeconfig(delayed=False)}", *arguments])


def device_plugin(name: str, folder: str) -> Object:
    """The DaemonSet of a vendor."""
    labels = {"app": name}
    volumes = [{"name": "folder", "hostPath": {"path": folder}}, {"name": "own", "emptyDir": {}}]
    spec = {"containers": [{"name": "main", "image": "none"}], "volumes": volumes}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_uninstalling_leaves_nothing_that_anybody_waits_for(
    cluster: tuple[ControlPlane, Identity], capsys: pytest.CaptureFixture[str]
) -> None:
    plane, admin = cluster
    for name, folder in (("moved", "/var/lib/kubelet/plugins/lode.dev/"), ("of-kubelet", "/var/lib/kubelet/")):
        admin.request("POST", DAEMON_SETS, device_plugin(name, f"{folder}device-plugins")).must()
    pod = gated_pod(admin)
    plugin = admin.as_user(PLUGIN, node="n1")
    plugin.request("POST", SLICES, slice_of(OUR_DRIVER, "n1", "n1-lode.dev-devices-000")).must()
    other = admin.request("POST", SLICES, slice_of(OTHER_DRIVER, "n1")).must()["metadata"]["name"]
    allocation(admin)
    # No pod of the programs gets there: without a kubelet it would not end.
    away = {"labels": {"lode.dev/kubeletplugin": "off"}, "annotations": {**PROTECTED, "other": "kept"}}
    admin.request("POST", NODES, {"metadata": {"name": "n1", **away}, "spec": {"unschedulable": True}}).must()
    wanted = {"spec": {"spec": claim()["spec"]}}
    on_demand = {"metadata": {"name": "lode.gpu", "labels": {"lode.dev/on-demand": "true"}}, **wanted}
    admin.as_user(CONTROLLER).request("POST", TEMPLATES, on_demand).must()
    admin.request("POST", TEMPLATES, {"metadata": {"name": "of-others"}, **wanted}).must()
    kinds = {"gates", "slices", "policies", "allocations", "nodes", "finalizers", "templates"}
    assert set(ours(admin)) == kinds
    assert call(plane) == 0
    assert ours(admin) == {}
    assert "Device plugins that nobody serves any more: default/moved. Apply the" in capsys.readouterr().out
    assert admin.request("GET", f"{PODS}/{pod}").ok
    assert admin.request("GET", f"{SLICES}/{other}").ok
    assert admin.request("GET", f"{TEMPLATES}/of-others").ok
    assert annotations(admin.get(f"{NODES}/n1"))["other"] == "kept"
    for namespace in ("lode-system", "lode-plugin"):
        assert not plane.kubectl("get", "deployments,daemonsets,pods", "-n", namespace, "-o", "name").stdout
    assert call(plane) == 0, "a second call finds nothing to do"
    plane.kubectl("delete", "--ignore-not-found", "--wait=false", "-k", "manifests/controller-allocated")


def test_pods_of_other_systems_are_let_through_before_anything_can_fail(
    cluster: tuple[ControlPlane, Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops here because a pod of a program does not end."""
    plane, admin = cluster
    labels = {"app.kubernetes.io/name": "lode-kubeletplugin"}
    spec = {"nodeName": "gone", "containers": [{"name": "main", "image": "none"}]}
    admin.request("POST", PODS, {"metadata": {"name": "stuck", "labels": labels}, "spec": spec}).must()
    monkeypatch.setattr(uninstall, "_PATIENCE_SECONDS", 1.0)
    assert of_adoption(admin)
    assert call(plane) == 2
    assert not of_adoption(admin)


def test_nothing_changes_while_pods_use_devices(
    cluster: tuple[ControlPlane, Identity], capsys: pytest.CaptureFixture[str]
) -> None:
    plane, admin = cluster
    pod = admin.request("GET", f"{PODS}/{gated_pod(admin)}").must()["metadata"]
    user = {"resource": "pods", "name": pod["name"], "uid": pod["uid"]}
    held = allocation(admin, reservedFor=[user])
    before = ours(admin)
    assert call(plane) == 1
    assert f"default/{held['metadata']['name']}" in capsys.readouterr().err
    assert ours(admin) == before
