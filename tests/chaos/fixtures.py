"""What a run needs on the cluster: Lode, small disks, a vendor's device plugin under it, another driver beside it."""

import base64
import gzip
import json
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from testclusters.images import PREVIOUS, previous_source
from testclusters.kindupgrade import upgrade_kubelet
from testclusters.programs import KUBERNETES_VERSIONS
from tests.chaos.manifests import OFF_LABEL, installed
from tests.chaos.workload import ADOPTED, CHAOS, LABEL, Flavour, templates
from tests.e2e.adopted import ADOPTION, adopt_from
from tests.e2e.bridged import vendor_plugin
from tests.e2e.client import Client
from tests.e2e.flavors import wait_until_installed
from tests.e2e.mixed.network_cards import network_cards
from tests.e2e.nodes import PLUGIN
from tests.e2e.pods import pod

Object = dict[str, Any]

CURRENT: Final = "lode-dra:dev"
OTHER_DRIVERS: Final = "app in (dra-example, nic-driver)"
"""Selects the pods of other drivers."""
DEVICE_PLUGIN: Final = "plugin=amd"
"""Selects the pod of the vendor's device plugin."""
OLD_KUBELET: Final = 0
"""The number of the worker whose kubelet is of the oldest version that is supported."""
_ROOT: Final = Path(__file__).parents[2]
_EXAMPLE: Final = _ROOT / "benchmarks/example-driver.yaml"
_MIXED: Final = Path(__file__).parent / "mixed"
"""The flavor in which the controller also allocates network cards."""
_EARLY: Final = 20
"""Pods that ask for a network card while Lode is told to allocate those: more than there are cards."""
_DISK_MEBIBYTES: Final = 16
_IMAGE, _MOUNT = "/kind/small-disk.img", "/kind/mount-small-disk"
_MOUNT_SCRIPT: Final = f"""#!/bin/sh
mkdir -p {PLUGIN}
mountpoint -q {PLUGIN} || mount -o loop {_IMAGE} {PLUGIN}
"""
_UNIT: Final = f"[Service]\nExecStartPre={_MOUNT}\n"
_PUT: Final = f"""
set -e
base64 -d | gzip -d >{_IMAGE}
mkdir -p /etc/systemd/system/kubelet.service.d
printf %s "$1" >{_MOUNT}; chmod 755 {_MOUNT}
printf %s "$2" >/etc/systemd/system/kubelet.service.d/small-disk.conf
systemctl daemon-reload
{_MOUNT}
"""


class NotPlayed(Exception):
    """A run cannot be played; the message says why, and what to do."""


@dataclass(frozen=True)
class Fixtures:
    """Everything on the cluster but the pods of the workload.

    Args:
        mixed: whether there are network cards, which Lode is told to allocate.
    """

    client: Client
    mixed: bool = False

    @property
    def bridging_node(self) -> str:
        """The worker whose devices a vendor's device plugin serves."""
        return self.client.cluster.workers[1]

    def set_up(self) -> None:
        """Install all of it on a new cluster.

        Raises:
            NotPlayed: the cluster has Lode already, or something is missing on this machine.
        """
        client, cluster = self.client, self.client.cluster
        if any(it["metadata"]["name"].startswith("lode-") for it in client.list("namespaces")):
            raise NotPlayed(f"the cluster {cluster.name} has Lode already: make chaos creates one of its own")
        # On a node without pods of its own; the kubelets of the others are of the cluster's version.
        upgrade_kubelet(cluster, cluster.workers[OLD_KUBELET], KUBERNETES_VERSIONS[-1])
        image = _small_disk()
        for node in cluster.workers:
            cluster.node_exec(node, "sh", "-c", _PUT, "sh", _MOUNT_SCRIPT, _UNIT, input=image, timeout=120)
        _, bridging, npus = cluster.workers
        client.kubectl("label", "node", bridging, f"{OFF_LABEL}=off", "lode.dev/simulated-profile-")
        client.kubectl("label", "node", npus, "lode.dev/ib-cluster=ib-a", "--overwrite")  # gangs go over two workers
        client.kubectl("apply", "-f", str(_EXAMPLE))
        if self.mixed:
            network_cards().install(client)
        self.install(CURRENT)
        for namespace in (CHAOS, ADOPTED):
            client.kubectl("create", "namespace", namespace)
        client.apply(CHAOS, *templates())
        adopt_from(client, ADOPTED, "nvidia", "ascend")
        self.revive_device_plugin()

    def install(self, version: str) -> None:
        """Apply the manifests of a version, `CURRENT` or `PREVIOUS`, and wait until its programs are ready."""
        self._install(previous_source() / ADOPTION.relative_to(_ROOT) if version == PREVIOUS else ADOPTION, version)

    def name_driver(self) -> None:
        """Tell Lode to allocate the network cards, while kube-scheduler allocates them to pods that are being made."""
        made = [pod(f"early-{number}", Flavour.NIC, labels={LABEL: str(Flavour.NIC)}) for number in range(_EARLY)]
        with ThreadPoolExecutor(1) as meanwhile:
            for one in made:
                meanwhile.submit(self.client.create, CHAOS, one)
            self._install(_MIXED, CURRENT)

    def _install(self, source: Path, version: str) -> None:
        rendered = [obj for obj in yaml.safe_load_all(self.client.kubectl("kustomize", str(source))) if obj]
        content = {"apiVersion": "v1", "kind": "List", "items": list(installed(rendered, version))}
        self.client.kubectl("apply", "-f", "-", input=json.dumps(content), timeout=120)
        wait_until_installed(self.client)

    def revive_device_plugin(self) -> None:
        """Make the pod of the device plugin if it is not there, as a DaemonSet does."""
        wanted = vendor_plugin.pod("amd", self.bridging_node, vendor_plugin.OURS)
        there = self.client.list("pods", CHAOS, labels=DEVICE_PLUGIN)
        if ended := [it for it in there if it["status"].get("phase") in ("Failed", "Succeeded")]:
            self.client.delete(CHAOS, "pods", *(it["metadata"]["name"] for it in ended), wait=False)
        if not there:
            self.client.create(CHAOS, wanted)


def _small_disk() -> str:
    """An empty ext4 file system of a few MiB, compressed, in base64."""
    make = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not make:
        raise NotPlayed("mkfs.ext4 is not installed: apt install e2fsprogs")
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder, "small-disk.img")
        with image.open("wb") as file:
            file.truncate(_DISK_MEBIBYTES * 2**20)
        subprocess.run([make, "-q", image], check=True, capture_output=True)
        return base64.b64encode(gzip.compress(image.read_bytes())).decode()
