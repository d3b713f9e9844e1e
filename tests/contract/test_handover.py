"""``lode handover`` with a real API server and DaemonSet controller, as a user with the documented role."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from cli.cards.device_plugins import MARK, RECORD
from driver.kube.api import DAEMON_SETS, DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_SLICES, Api, Object
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.sandbox import Sandbox

ROLE = Path(__file__).parent.parent.parent / "manifests" / "examples" / "administration" / "handover-role.yaml"
GPU = "nvidia.com/gpu"


class _Node:
    """A kubelet and a plugin of ours, as far as they matter here. The DaemonSet controller is real.

    Attributes:
        labels: the device plugin's ``nodeSelector``.
    """

    def __init__(self, sandbox: Sandbox):
        self.sandbox, self.api, self.name = sandbox, sandbox.api, sandbox.name
        self.labels = {"example.com/device-plugin": self.name}
        self.api.patch(NODES, self.name, {"metadata": {"labels": self.labels}})
        volume = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
        spec = {
            "nodeSelector": self.labels,
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [volume],
            "terminationGracePeriodSeconds": 0,
        }
        match = {"app": "plugin"}
        template = {"metadata": {"labels": match}, "spec": spec}
        made = {"metadata": {"name": "plugin"}, "spec": {"selector": {"matchLabels": match}, "template": template}}
        self.api.create(DAEMON_SETS, made, self.name)
        eventually(self._plugin_runs)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _plugin_runs(self) -> bool:
        found = self.api.list(PODS, namespace=self.name, field_selector=f"spec.nodeName={self.name}").items
        return any(pod["metadata"].get("ownerReferences") for pod in found)

    def _live(self) -> None:
        while not self._stopped.wait(0.2):
            runs = self._plugin_runs()
            amount = {GPU: "2" if runs else "0"}
            status = {"status": {"capacity": amount, "allocatable": amount}}
            self.api.patch(NODES, self.name, status, subresource="status")
            part = self.api.get(RESOURCE_SLICES, self.name)
            taint = {"key": f"{self.sandbox.driver}/other-driver", "value": "device-plugin", "effect": "NoSchedule"}
            for device in part["spec"]["devices"]:
                device["taints"] = [taint] if runs else []
            self.api.update(RESOURCE_SLICES, part)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@pytest.fixture
def node(admin: Api, control_plane: ControlPlane, unique: str) -> Iterator[_Node]:
    sandbox = Sandbox(admin, control_plane, unique)
    made = _Node(sandbox)
    control_plane.kubectl("apply", "-f", "-", input=ROLE.read_text().replace("lode-handover", unique))
    control_plane.kubectl("create", "clusterrolebinding", unique, f"--clusterrole={unique}", f"--user={unique}")
    yield made
    made.stop()
    sandbox.remove()


def test_a_node_is_taken_from_a_device_plugin_and_given_back(node: _Node, capsys: pytest.CaptureFixture[str]) -> None:
    sandbox = node.sandbox
    options = ["--kubeconfig", str(sandbox.plane.kubeconfig(sandbox.name, ())), "--driver", sandbox.driver]

    def call(*more: str) -> str:
        capsys.readouterr()
        status = lode(["handover", node.name, "--timeout=60s", *more, *options])
        shown = capsys.readouterr()
        assert status == 0, shown.err
        return shown.out

    def metadata() -> Object:
        found: Object = node.api.get(NODES, node.name)["metadata"]
        return found

    eventually(lambda: call("--dry-run"))
    assert RECORD not in metadata().get("annotations", {})
    assert f"node {node.name}: open to claims: card-0, card-1" in call()
    assert metadata()["labels"]["example.com/device-plugin"] == "false"
    assert f"node {node.name} is given back to {node.name}/plugin" in call("--back")
    assert metadata()["labels"]["example.com/device-plugin"] == node.name
    assert MARK not in metadata()["labels"]
    rules = [rule["metadata"]["name"] for rule in node.api.list(DEVICE_TAINT_RULES).items]
    assert not [name for name in rules if node.name in name]
