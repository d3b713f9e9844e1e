"""lode doctor on a real kube-apiserver: as installed nothing of the API is wrong, and what is taken away is found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from testclusters.controlplane import ControlPlane
from tests.contract.identity import CONTROLLER, Identity, eventually
from tests.contract.installed import CLAIMS, GATE, OUR_DRIVER, allocated, claim, pod_with_claim

NAME = "single-allocator.lode.dev"
PODS = "/api/v1/namespaces/default/pods"
PLUGIN = "system:serviceaccount:lode-plugin:lode-kubeletplugin"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(components=()) as plane:
        plane.add_node("n1")
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        yield plane


def diagnosis(
    capsys: pytest.CaptureFixture[str], plane: ControlPlane, status: int = 1, kubeconfig: Path | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """All findings, by check and subject. The programs do not run here, so the status is 1."""
    access = kubeconfig or plane.kubeconfig(delayed=False)
    assert lode(["doctor", f"--kubeconfig={access}", "-o", "json"]) == status
    told = json.loads(capsys.readouterr().out)
    return {(found["check"], found["subject"]): found for found in told["findings"]}


def failed(found: dict[tuple[str, str], dict[str, Any]]) -> set[tuple[str, str]]:
    return {key for key, finding in found.items() if finding["status"] in ("failed", "unknown")}


NOT_RUNNING = {
    ("programs", "Deployment lode-controller"),
    ("leader", "Lease lode-controller"),
    ("plugin", "n1"),
}


def test_as_installed_nothing_is_wrong_but_that_no_program_runs(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnosis(capsys, plane)
    assert failed(found) == NOT_RUNNING
    assert found["version", "API server"]["message"].startswith("v1.")
    assert found["rights", "service accounts"]["status"] == "ok"
    assert found["policies", f"ValidatingAdmissionPolicy {NAME}"]["status"] == "ok"
    assert found["policies", "ValidatingAdmissionPolicyBinding own-slices.lode.dev"]["status"] == "ok"


@pytest.mark.parametrize(
    ("gone", "finding", "message"),
    [
        (
            f"validatingadmissionpolicybinding/{NAME}",
            ("policies", f"ValidatingAdmissionPolicyBinding {NAME}"),
            "does not exist",
        ),
        ("deviceclass/mig.lode.dev", ("device classes", "mig.lode.dev"), "does not exist"),
        ("clusterrolebinding/lode-kubeletplugin", ("rights", PLUGIN), "may not get resourceslices.resource.k8s.io"),
        (
            "-n=lode-plugin daemonset/lode-kubeletplugin",
            ("programs", "DaemonSet lode-kubeletplugin"),
            "does not exist",
        ),
    ],
)
def test_what_is_deleted_is_found_until_it_is_back(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str], gone: str, finding: tuple[str, str], message: str
) -> None:
    plane.kubectl("delete", *gone.split())
    try:
        found = diagnosis(capsys, plane)
    finally:
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
    assert finding in failed(found)
    assert found[finding]["message"].startswith(message)
    assert "apply the manifests" in found[finding]["remedy"]
    assert failed(diagnosis(capsys, plane)) == NOT_RUNNING


def test_names_of_nvidias_driver_that_select_our_devices_are_seen(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.kubectl("apply", "-f", "manifests/nvidia-dra-names/classes.yaml")
    try:
        found = diagnosis(capsys, plane)
    finally:
        plane.kubectl("delete", "-f", "manifests/nvidia-dra-names/classes.yaml")
    assert found["names of NVIDIA's driver", "gpu.nvidia.com, mig.nvidia.com"]["status"] == "ok"
    assert failed(found) == NOT_RUNNING


def test_what_is_left_of_another_system_is_found_until_it_is_gone(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.kubectl("create", "namespace", "team")
    plane.kubectl("-n=team", "create", "serviceaccount", "default")
    plane.kubectl("-n=team", "create", "quota", "cards", "--hard=requests.nvidia.com/gpumem=4k")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": "team"},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": "H100"},
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}},
                }
            ],
        },
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    plane.kubectl("label", "namespace", "team", "lode.dev/adopt-hami=on")
    try:
        found = diagnosis(capsys, plane)["adoption", "team"]
        assert (found["status"], "manifests/adopt/hami" in found["remedy"]) == ("failed", True)
        plane.kubectl("apply", "-f", "manifests/adopt/hami/policies.yaml")
        told = {key: found["message"] for key, found in diagnosis(capsys, plane).items()}
        assert told["adoption", "team/old"].startswith("ask for resources of hami")
        assert told["quotas", "ResourceQuota team/cards"].startswith("limits nvidia.com/gpumem")
        assert told["node labels", "team/old"].startswith("want nodes with the label nvidia.com/gpu.product")
        plane.kubectl("-n=team", "delete", "pod/old", "quota/cards", "--force", "--grace-period=0")
        found = diagnosis(capsys, plane)["adoption", "1 namespaces"]
        assert (found["status"], found["message"]) == ("ok", "pods of hami get claims")
        plane.kubectl("label", "namespace", "team", "lode.dev/adopt-nvidia=on")
        assert "their pods are refused" in diagnosis(capsys, plane)["adoption", "team"]["message"]
    finally:
        plane.kubectl("delete", "-f", "manifests/adopt/hami/policies.yaml", "--ignore-not-found")
        plane.kubectl("label", "namespace", "team", "lode.dev/adopt-hami-", "lode.dev/adopt-nvidia-")
    assert failed(diagnosis(capsys, plane)) == NOT_RUNNING


def test_a_user_with_few_rights_is_told_what_could_not_be_checked(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnosis(capsys, plane, kubeconfig=plane.kubeconfig("somebody", ("nobody",)))
    unknown = {check for (check, _), finding in found.items() if finding["status"] == "unknown"}
    assert unknown == {"API", "programs", "leader", "device classes", "policies", "rights", "devices", "adoption"}
    assert all("administrator" in finding["remedy"] for finding in found.values() if finding["status"] == "unknown")


def test_the_other_flavor_needs_no_controller(capsys: pytest.CaptureFixture[str]) -> None:
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-k", "manifests/scheduler-allocated")
        found = diagnosis(capsys, plane, status=0)
    assert failed(found) == set()
    assert found["programs", "Deployment lode-controller"]["message"] == "not installed: kube-scheduler allocates"


def test_pods_that_were_left_behind_are_named_once_the_programs_are_gone(capsys: pytest.CaptureFixture[str]) -> None:
    with ControlPlane() as plane:
        plane.add_node("n1")
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.kubectl("wait", "--for=create", "serviceaccount/default")
        admin = Identity.admin(plane)
        stored = admin.request("POST", CLAIMS, claim()).must()
        path = f"{CLAIMS}/{stored['metadata']['name']}/status"
        waiting, running = (
            admin.request("POST", PODS, pod_with_claim("none", schedulingGates=[GATE])).must()["metadata"] for _ in "ab"
        )
        user = {"resource": "pods", "name": running["name"], "uid": running["uid"]}
        status = {**allocated(stored, OUR_DRIVER)["status"], "reservedFor": [user]}
        admin.as_user(CONTROLLER).request("PATCH", path, {"status": status}).must()
        plane.kubectl("delete", "--wait=false", "-k", "manifests/controller-allocated")
        eventually("the DaemonSet is gone", lambda: not plane.kubectl("get", "ds", "-A", "-o", "name").stdout)
        found = diagnosis(capsys, plane)
    told = {finding["subject"]: finding["message"] for (check, _), finding in found.items() if check == "pods"}
    assert told.keys() == {f"default/{waiting['name']}, default/{running['name']}", f"default/{running['name']}"}
    assert "they stay Terminating" in told[f"default/{running['name']}"]
    assert not [finding for finding in found.values() if "kube-scheduler allocates" in finding["message"]]
