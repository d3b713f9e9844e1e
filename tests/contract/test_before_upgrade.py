"""`lode doctor --upgrade 1.38` on a kube-apiserver of 1.37 that holds what 1.38 refuses or reads otherwise."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cli.__main__ import main as lode
from testclusters.controlplane import ControlPlane
from tests.contract.identity import Identity, Object
from tests.contract.objects import resource_slice
from tests.contract.of_137 import LONG_VERSION, MANY, TERM, TWO_SLASHES, asking, consuming, device, on_nodes

API = "/apis/resource.k8s.io/v1"
BETA = "/apis/resource.k8s.io/v1beta1"
SYSTEM = "/api/v1/namespaces/kube-system"
DRIVER = "gpu.example"
STEPPED = {"default": "1", "validRange": {"min": "1", "step": "100m"}}
Findings = dict[tuple[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    flags = {"kube-apiserver": ["--runtime-config=resource.k8s.io/v1beta1=true"]}
    with ControlPlane(kubernetes="1.37", components=(), flags=flags) as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Identity:
    return Identity.admin(plane)


def diagnosis(capsys: pytest.CaptureFixture[str], plane: ControlPlane, user: str = "admin") -> tuple[int, Findings]:
    """The exit status, and the findings by check and subject."""
    access = plane.kubeconfig(delayed=False) if user == "admin" else plane.kubeconfig(user, ("nobody",))
    status = lode(["doctor", f"--kubeconfig={access}", "-o", "json", "--upgrade", "1.38"])
    found: Findings = {}
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        found.setdefault((finding["check"], finding["subject"]), []).append(finding)
    return status, found


def named(name: str, obj: Object) -> Object:
    return {**obj, "metadata": {"name": name}}


def of_slice(name: str, *devices: Object) -> Object:
    return resource_slice(name, *devices, driver=DRIVER)


def compared(name: str) -> Object:
    spec = asking(memory="1", **{f"{DRIVER}/memory": "1"})
    spec["devices"]["constraints"] = [{"matchAttribute": name}]
    spec["devices"]["requests"][0]["exactly"]["tolerations"] = [{"operator": "Exists"}]
    return spec


TWICE = device(capacity={"memory": {"value": "1"}, f"{DRIVER}/memory": {"value": "1"}})
BUILT = device(attributes={"firmware": {"version": "1.0.0+a"}})
SHARED = device(allowMultipleAllocations=True, capacity={"cores": {"value": "2", "requestPolicy": STEPPED}})
SLICES = {
    "slashes": of_slice("slashes", device(attributes={TWO_SLASHES: {"int": 1}})),
    "long": of_slice("long", device(attributes={"firmware": {"version": LONG_VERSION}})),
    "terms": on_nodes(TERM, TERM),
    "twice": of_slice("twice", TWICE),
    "steps": of_slice("steps", SHARED),
    "built": of_slice("built", BUILT),
    "empty": of_slice("empty", device(attributes={"serial": {"string": ""}})),
    "good": of_slice("good", device(attributes={"firmware": {"version": "1.0.0"}})),
}
LOOP = 'dyn(device.attributes["gpu.example"].serial).all(x, false)'
TEMPLATES = {
    "many": asking(**MANY),
    "unnamed": asking(**{"not-a-name": "1"}),
    "slashes": asking(**{TWO_SLASHES: "1"}),
    "compared": compared(f"{DRIVER}/firmware"),
    "good": asking(memory="1"),
}
EXPECTED = [
    ("slices", "ResourceSlice slashes", "failed", f"spec.devices[0].attributes: {TWO_SLASHES}: "),
    ("slices", "ResourceSlice long", "failed", f"spec.devices[0].attributes[firmware].version: {LONG_VERSION}: "),
    ("slices", "ResourceSlice terms", "failed", "spec.devices[0].nodeSelector.nodeSelectorTerms: 2 terms: "),
    ("slices", "ResourceSlice twice", "warning", f"spec.devices[0].capacity: memory and {DRIVER}/memory: "),
    ("slices", "ResourceSlice steps", "warning", "spec.devices[0].capacity[cores].requestPolicy.validRange: "),
    *(
        (kind, f"{resource} team/{name}", status, f"{path}.devices.requests[0].exactly.capacity.requests: {value}: ")
        for kind, resource, status, path in (
            ("claims", "ResourceClaim", "warning", "spec"),
            ("claim templates", "ResourceClaimTemplate", "failed", "spec.spec"),
        )
        for name, value in (("many", "33 capacities"), ("unnamed", "not-a-name"), ("slashes", TWO_SLASHES))
    ),
    (
        "claim templates",
        "ResourceClaimTemplate team/compared",
        "failed",
        f"spec.spec.devices.requests[0].exactly.capacity.requests: memory and {DRIVER}/memory: two spellings",
    ),
    (
        "claim templates",
        "ResourceClaimTemplate team/compared",
        "warning",
        f"spec.spec.devices.constraints[0].matchAttribute: {DRIVER}/firmware: ",
    ),
    (
        "claim templates",
        "ResourceClaimTemplate team/compared",
        "warning",
        "spec.spec.devices.requests[0].exactly.tolerations[0]: every key: the effect is empty",
    ),
    (
        "device classes",
        "DeviceClass loops",
        "warning",
        f"spec.selectors[0].cel.expression: device gpu-0 of {DRIVER}: an error in 1.37, true in 1.38: ",
    ),
    ("claims", "ResourceClaim team/holds", "warning", "status.allocation.devices.results[0].consumedCapacity: "),
    ("taint rules", "DeviceTaintRule everything", "warning", "spec.deviceSelector: {}, effect NoExecute: "),
    (
        "feature gates",
        "Pod kube-system/kube-scheduler-a",
        "failed",
        "spec.containers[0].command --feature-gates: DynamicResourceAllocation=true: ",
    ),
    (
        "feature gates",
        "ConfigMap kube-system/kubelet-config",
        "failed",
        "data.kubelet featureGates: PodGroupPreemptionPolicy=True: ",
    ),
    (
        "feature gates",
        "ConfigMap kube-system/kubeadm-config",
        "failed",
        "data.ClusterConfiguration apiServer.extraArgs feature-gates: DRADeviceTaints=false: ",
    ),
    ("API clients", "old-driver", "failed", "writes by resource.k8s.io/v1beta1, which 1.38 does not serve: 1 objects"),
    ("API clients", "resource.k8s.io/v1beta1", "warning", "is served here, and not by 1.38"),
]


def program(name: str, *flags: str) -> Object:
    container = {"name": "main", "image": "none", "command": [name, *flags]}
    return {"metadata": {"name": f"{name}-a"}, "spec": {"containers": [container]}}


def prepare(plane: ControlPlane, admin: Identity) -> None:
    """Write what an operator of 1.37 may have."""
    for namespace in ("team", "kube-system"):
        plane.kubectl("create", "namespace", namespace) if namespace == "team" else None
        plane.kubectl(f"-n={namespace}", "create", "serviceaccount", "default")
    for name, part in SLICES.items():
        admin.request("POST", f"{API}/resourceslices", named(name, part)).must()
    for name, spec in TEMPLATES.items():
        path = f"{API}/namespaces/team"
        admin.request("POST", f"{path}/resourceclaimtemplates", named(name, {"spec": {"spec": spec}})).must()
        admin.request("POST", f"{path}/resourceclaims", named(name, {"spec": spec})).must()
    holds = admin.request("POST", f"{API}/namespaces/team/resourceclaims", named("holds", {"spec": asking()})).must()
    status = {**holds, "status": {"allocation": consuming(**{"not-a-name": "1"})}}
    admin.request("PUT", f"{API}/namespaces/team/resourceclaims/holds/status", status).must()
    loops = {"selectors": [{"cel": {"expression": LOOP}}]}
    admin.request("POST", f"{API}/deviceclasses", named("loops", {"spec": loops})).must()
    rule = {"deviceSelector": {}, "taint": {"key": "example.com/off", "effect": "NoExecute"}}
    admin.request("POST", f"{API}/devicetaintrules", named("everything", {"spec": rule})).must()
    scheduler = program("kube-scheduler", "--v=2", "--feature-gates=A=true,kube:DynamicResourceAllocation=true")
    admin.request("POST", f"{SYSTEM}/pods", scheduler).must()
    kubelet = "kind: KubeletConfiguration\nfeatureGates:\n  PodGroupPreemptionPolicy: true\n  NodeLogQuery: true\n"
    arguments = "[{name: feature-gates, value: DRADeviceTaints=false}]"
    cluster = f"kind: ClusterConfiguration\napiServer:\n  extraArgs: {arguments}\nfeatureGates:\n  NodeSwap: true\n"
    for name, data in (("kubelet-config", {"kubelet": kubelet}), ("kubeadm-config", {"ClusterConfiguration": cluster})):
        admin.request("POST", f"{SYSTEM}/configmaps", named(name, {"data": data})).must()
    old = named("beta", {"spec": {**of_slice("beta")["spec"], "devices": []}})
    admin.request("POST", f"{BETA}/resourceslices?fieldManager=old-driver", old).must()


def test_what_138_refuses_or_changes_is_found_and_nothing_else(
    plane: ControlPlane, admin: Identity, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = diagnosis(capsys, plane)
    assert {one["status"] for findings in found.values() for one in findings} <= {"ok", "warning"}, found
    assert status == 0
    prepare(plane, admin)
    status, found = diagnosis(capsys, plane)
    assert status == 1
    for check, subject, severity, message in EXPECTED:
        matching = [one for one in found[check, subject] if one["message"].startswith(message)]
        assert [one["status"] for one in matching] == [severity], (check, subject, found[check, subject])
        assert matching[0]["remedy"]
    concerned = {key for key, findings in found.items() if any(one["status"] != "ok" for one in findings)}
    claims = {("claims", "ResourceClaim team/compared")}
    assert concerned == {(check, subject) for check, subject, _, _ in EXPECTED} | claims


def test_the_remedies_end_the_findings(
    plane: ControlPlane, admin: Identity, capsys: pytest.CaptureFixture[str]
) -> None:
    """Templates are made anew, and slices of drivers that are gone deleted: 1.38 then finds nothing of them."""
    plane.kubectl("delete", "resourceslices", *(name for name in SLICES if name not in ("good", "built")))
    for name in TEMPLATES:
        plane.kubectl("-n=team", "delete", "resourceclaim,resourceclaimtemplate", name)
    plane.kubectl("-n=team", "delete", "resourceclaim", "holds")
    plane.kubectl("delete", "devicetaintrule/everything", "deviceclass/loops")
    plane.kubectl("-n=kube-system", "delete", "configmap", "kubelet-config", "kubeadm-config")
    plane.kubectl("-n=kube-system", "delete", "pod", "kube-scheduler-a", "--force", "--grace-period=0")
    plane.kubectl("delete", "resourceslice", "beta")
    good = named("good", {"spec": {"spec": TEMPLATES["good"]}})
    admin.request("POST", f"{API}/namespaces/team/resourceclaimtemplates", good).must()
    status, found = diagnosis(capsys, plane)
    assert status == 0
    wrong = {key for key, findings in found.items() if any(one["status"] != "ok" for one in findings)}
    assert wrong == {("API clients", "resource.k8s.io/v1beta1")}


def test_a_user_with_few_rights_is_told_what_is_not_known(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = diagnosis(capsys, plane, "somebody")
    assert status == 1
    unknown = {check for (check, _), findings in found.items() if findings[0]["status"] == "unknown"}
    assert unknown == {
        *("slices", "claims", "claim templates", "device classes", "taint rules", "feature gates", "kubelets"),
        "API clients",
    }


CONFIGURATION = {"kubeletconfig": {"featureGates": {"DynamicResourceAllocation": True, "NodeLogQuery": True}}}


class Kubelet(BaseHTTPRequestHandler):
    """Answers as a kubelet does when it is asked for its configuration."""

    def do_GET(self) -> None:
        answer = json.dumps(CONFIGURATION).encode() if self.path == "/configz" else b""
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_what_kubelets_are_told_is_asked_through_the_api_server(
    plane: ControlPlane, admin: Identity, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that answers, and one whose address has no kubelet."""
    certificate = str(plane.kubeconfig("system:node:n1", ("system:nodes",)).with_suffix(""))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    address = own_address()
    server = HTTPServer((address, 0), Kubelet)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        for name, port in (("n1", server.server_address[1]), ("n2", 1)):
            plane.add_node(name)
            status = {
                "addresses": [{"type": "InternalIP", "address": address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            admin.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}).must()
        _, found = diagnosis(capsys, plane)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        plane.kubectl("delete", "node", "n1", "n2")
    (kubelet,) = found["kubelets", "Node n1"]
    assert kubelet["status"] == "failed"
    assert kubelet["message"].startswith("featureGates: DynamicResourceAllocation=True: ")
    (silent,) = found["kubelets", "n2"]
    assert silent["status"] == "unknown"


def own_address() -> str:
    """An address of this machine that is not its loopback, which API servers ask nobody at."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
