"""NVIDIA's shared device plugin for RDMA, unmodified and with its own manifests, under the kubelet and under Lode.

Machines of tests have no RDMA adapter, and their kernel may have no RDMA subsystem. So nodes have files in the places
in which the plugin looks for an adapter, and device nodes of another kind under its names (`rdma/`).
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testclusters import programs
from testclusters.images import RDMA_DEVICE_PLUGIN
from tests.e2e.bridged.offered import devices
from tests.e2e.bridged.test_vendors import seen
from tests.e2e.client import Client, Object, eventually
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.nodes import PLUGINS
from tests.e2e.pods import pod, request, template
from tests.e2e.test_killed_programs import kill_in_containers
from tests.e2e.watcher import Watcher

RESOURCE = "rdma/hca_shared_devices_a"
ROOT = Path(__file__).parents[3]
MOVED = ("manifests/moved-device-plugin", "manifests/moved-device-plugin-registry")
_ADAPTER = "/var/lib/lode-test-adapter"
_PROFILE = "/var/lib/kubelet/seccomp/no-rdma-subsystem.json"
_NO_SUBSYSTEM = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {
            "names": ["socket"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 22,  # EINVAL: the plugin takes the kernel for one that is older than the question
            "args": [
                {"index": 0, "value": 16, "op": "SCMP_CMP_EQ"},  # AF_NETLINK
                {"index": 2, "value": 20, "op": "SCMP_CMP_EQ"},  # NETLINK_RDMA
            ],
        }
    ],
}
_PLUG_IN = f"""
set -e
cd {_ADAPTER}
card=devices/pci0000:00/0000:18:00.0
mkdir -p $card/infiniband/mlx5_0 bus/pci/devices bus/pci/drivers/mlx5_core class/infiniband fs/cgroup
mkdir -p class/infiniband_mad/umad0 class/infiniband_verbs/uverbs0
ln -sfn ../../../$card bus/pci/devices/0000:18:00.0
ln -sfn ../../../bus/pci/drivers/mlx5_core $card/driver
ln -sfn ../../$card/infiniband/mlx5_0 class/infiniband/mlx5_0
echo pci:v000015B3d00001017sv000015B3sd00000020bc02sc07i00 > $card/modalias
echo 0x00 > $card/revision
echo mlx5_0 > class/infiniband_mad/umad0/ibdev
echo mlx5_0 > class/infiniband_verbs/uverbs0/ibdev
"""
_DEVICES = """
mkdir -p /dev/infiniband
mknod /dev/infiniband/rdma_cm c 1 3 2>/dev/null
mknod /dev/infiniband/umad0 c 1 5 2>/dev/null
mknod /dev/infiniband/uverbs0 c 1 7 2>/dev/null
"""


@pytest.fixture
def adapters(client: Client) -> Iterator[None]:
    """The first two workers have the files of an adapter."""
    client.cluster.load_image(RDMA_DEVICE_PLUGIN)
    nodes = client.cluster.workers[:2]
    for node in nodes:
        client.cluster.node_exec(node, "mkdir", "-p", _ADAPTER, str(Path(_PROFILE).parent))
        client.cluster.node_exec(node, "sh", "-c", f"cat > {_PROFILE}", input=json.dumps(_NO_SUBSYSTEM))
        client.cluster.node_exec(node, "sh", "-c", f"{_PLUG_IN}{_DEVICES}true")
    yield
    for node in nodes:
        client.cluster.node_exec(node, "rm", "-rf", _ADAPTER, _PROFILE, "/dev/infiniband")


class VendorsManifests:
    """The manifests of the plugin's module, with a node to run on."""

    def __init__(self, client: Client, namespace: str, folder: Path, overlay: str):
        self._client, self._namespace, self._folder = client, namespace, folder
        self._base = programs.RDMA_DEVICE_PLUGIN.build() / "deployment/k8s" / overlay
        self._applied: list[Path] = []

    def apply(self, node: str, *components: str, **container: object) -> None:
        """Start the plugin on a node; ``container`` are fields of its container."""
        folder = self._folder / node
        folder.mkdir()
        parts = [ROOT / "tests/e2e/bridged/rdma", *(ROOT / component for component in components)]
        spec: Object = {"nodeSelector": {"kubernetes.io/hostname": node}}
        if container:
            spec["containers"] = [{"name": "k8s-rdma-shared-dp-ds", **container}]
        metadata = {"name": "rdma-shared-dp-ds", "namespace": "kube-system"}
        patch = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata}
        patch["spec"] = {"template": {"spec": spec}}
        content = {
            "resources": [os.path.relpath(self._base, folder)],
            "components": [os.path.relpath(part, folder) for part in parts],
            "patches": [{"patch": json.dumps(patch)}],
            "labels": [{"pairs": {"lode-test/node": node}, "includeSelectors": True}],
            "nameSuffix": f"-{node}",
            "namespace": self._namespace,
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
        self._applied.append(folder)
        self._client.kubectl("apply", "-k", str(folder))

    def delete(self) -> None:
        """Delete what was applied."""
        for folder in self._applied:
            self._client.kubectl("delete", "-k", str(folder), "--ignore-not-found")


@pytest.fixture
def vendors(
    client: Client, bridging: None, adapters: None, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[VendorsManifests]:
    """The plugin's manifests, with `overlay` of them as a test says."""
    manifests = VendorsManifests(client, namespace, tmp_path, getattr(request, "param", "base"))
    yield manifests
    manifests.delete()


def slots(client: Client, node: str) -> list[str]:
    """The slots of the shared adapter of a node, as it is published, and the keys of its taints."""
    of_plugin = [it for it in devices(client, node) if it["attributes"].get("resource") == {"string": RESOURCE}]
    return [
        " ".join([it["capacity"]["slots"]["value"], *(taint["key"] for taint in it.get("taints", []))])
        for it in of_plugin
    ]


def slot() -> Object:
    """A claim template for a slot."""
    return template("slot", request("device-share", 1, f'device.attributes["lode.dev"].resource == "{RESOURCE}"'))


def theirs(node: str) -> Object:
    """A pod that asks the kubelet."""
    made = pod("theirs", nodeSelector={"kubernetes.io/hostname": node})
    made["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: "1"}
    return made


FILES = [f"/dev/infiniband/{name}" for name in ("rdma_cm", "umad0", "uverbs0")]
WAYS = [
    pytest.param("base", {}, id="devices"),
    pytest.param("overlay", {"command": ["/bin/k8s-rdma-shared-dp", "-use-cdi"]}, id="CDI"),
]


@pytest.mark.release
@pytest.mark.parametrize(("vendors", "container"), WAYS, indirect=["vendors"])
def test_containers_get_the_same_and_an_adapter_that_goes_is_tainted(
    client: Client, watcher: Watcher, namespace: str, vendors: VendorsManifests, container: Object
) -> None:
    kubelets, ours, _ = client.cluster.workers
    vendors.apply(kubelets, **container)
    vendors.apply(ours, *MOVED, **container)
    eventually("the adapter is offered", lambda: slots(client, ours) == ["3"])
    learn_slices(client, watcher)
    client.create(namespace, slot(), theirs(kubelets), pod("ours", "slot"))
    client.wait_until_ready(namespace, "theirs", "ours")
    found = seen(client, namespace, "ours")
    assert found == seen(client, namespace, "theirs")
    assert [line.split()[0] for line in found[0] if " special file " in line and "/infiniband/" in line] == FILES
    kill_in_containers(client, PLUGINS)
    client.create(namespace, pod("next", "slot"))
    client.wait_until_ready(namespace, "next")
    assert seen(client, namespace, "next") == found
    client.cluster.node_exec(ours, "rm", "-r", f"{_ADAPTER}/class/infiniband_verbs")
    eventually("the adapter is missed", lambda: slots(client, ours) == ["3 lode.dev/unhealthy"])
    client.cluster.node_exec(ours, "sh", "-c", _PLUG_IN)
    eventually("the adapter is back", lambda: slots(client, ours) == ["3"])
