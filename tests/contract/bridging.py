"""A cluster with one node, on which a vendor's device plugin is served; for the tutorial about it.

The API server, the controllers, kube-scheduler, our controller and our kubelet plugin are real. The kubelet is a
stand-in, which runs what the DaemonSets of the node say: our plugin as a process, and in place of the vendor's image a
scripted device plugin that answers as AMD's does.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import PODS, Api, ApiError, Object, Resource
from driver.kube.client import KubeClient
from simulation.kubernetes.dra_plugin import PluginDown
from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program, kubectl_program
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.preparing import PreparingKubelet, start_plugin
from tests.contract.running import SETTINGS, running_controller
from tests.contract.tutorials import COMMAND, ROOT, Reader
from tests.fakes.deviceplugin.plugin import ScriptedPlugin
from tests.fakes.deviceplugin.script import Answer, FileOfDevice, Listed, Script

NODE: Final = "worker-1"
RESOURCE: Final = "amd.com/gpu"
IDS: Final = ("0000:18:00.0", "0000:af:00.0")
_FOLDER: Final = "/var/lib/kubelet/plugins/lode.dev/device-plugins"
_DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


def as_amd_answers(ids: Any) -> Answer:
    """The device files that all cards share, and two of each card."""
    files = [FileOfDevice("/dev/null", "/dev/kfd")]
    for number in (IDS.index(each) for each in ids):
        files += [
            FileOfDevice("/dev/zero", f"/dev/dri/card{number}"),
            FileOfDevice("/dev/full", f"/dev/dri/renderD{128 + number}"),
        ]
    return Answer(devices=tuple(files))


class NodeStandIn:
    """The kubelet of the node. ``step`` does what is due."""

    def __init__(self, plane: ControlPlane, api: Api, place: Path):
        self.vendors: ScriptedPlugin | None = None
        self.cdi = place / "cdi"
        self._plane = plane
        self._api = api
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._kubelet = PreparingKubelet(api, NODE, place / "kubelet")

    def step(self) -> None:
        """Start what DaemonSets ask for, and let pods run whose claims are prepared."""
        sets = {each["metadata"]["name"]: each for each in self._api.list(_DAEMON_SETS).items}
        if self._process is None and "lode-kubeletplugin" in sets:
            self._start_ours()
        if self.vendors is None and any(map(_is_moved, sets.values())) and self._folder.is_dir():
            self._start_vendors()
        for pod in self._api.list(PODS).items:
            with suppress(ApiError, PluginDown):  # others have changed or deleted it meanwhile
                self._kubelet.sync(pod)

    def close(self) -> None:
        """End what runs on the node."""
        self._kubelet.close()
        if self.vendors:
            self.vendors.kill()
        if self._process:
            self._process.terminate()
            self._process.wait(30)

    @property
    def _folder(self) -> Path:
        return self._place / "plugins"

    def _start_vendors(self) -> None:
        devices = tuple(Listed(each, numa=(-1,)) for each in IDS)
        script = Script(resource=RESOURCE, devices=devices, allocate=as_amd_answers, endpoint="amd.com_gpu")
        self.vendors = ScriptedPlugin(self._folder, self._place, script)
        self.vendors.start()

    def _start_ours(self) -> None:
        (installed,) = [
            yaml.safe_load(each["data"]["settings.yaml"])
            for each in self._api.list(_CONFIG_MAPS, namespace="lode-plugin").items
            if each["metadata"]["name"].startswith("lode-settings")
        ]
        bridged = {"folder": str(self._folder), "hostRoot": "/"}
        own = installed["kubeletplugin"]
        own["deviceplugin"] = {**own.get("deviceplugin", {}), **bridged}
        self._process = start_plugin(self._plane, self._place, NODE, installed)


def _is_moved(daemon_set: Object) -> bool:
    volumes = daemon_set["spec"]["template"]["spec"].get("volumes", ())
    name = daemon_set["metadata"]["name"]
    return name != "lode-kubeletplugin" and any(each.get("hostPath", {}).get("path") == _FOLDER for each in volumes)


@contextmanager
def cluster(folder: Path, place: Path) -> Iterator[tuple[Reader, NodeStandIn]]:
    """The cluster without Lode, and somebody who has the manifests and the commands.

    Args:
        folder: of the reader.
        place: the file system of the node.
    """
    (folder / "bin").mkdir()
    for name in ("charts", "manifests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin/helm").symlink_to(helm_program())
    (folder / "bin/kubectl").symlink_to(kubectl_program())
    for name in ("lode", "kubectl-lode"):
        (folder / "bin" / name).write_text(COMMAND.format(python=sys.executable))
        (folder / "bin" / name).chmod(0o755)
    with ControlPlane() as plane, closing(KubeClient.from_environment(str(plane.kubeconfig()))) as api:
        plane.add_node(NODE, {"kubernetes.io/os": "linux", "amd.com/gpu.product-name": "MI300X"})
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        (plane.folder / SETTINGS).write_text(yaml.safe_dump({"observeAddress": ""}))
        node, stopped = NodeStandIn(plane, api, place), threading.Event()

        def run() -> None:
            while not stopped.wait(0.2):
                with suppress(ApiError):
                    node.step()

        thread = threading.Thread(target=run, name="stand-in for the kubelet")
        with running_controller(plane):
            thread.start()
            try:
                yield Reader(plane, api, folder), node
            finally:
                stopped.set()
                thread.join()
                node.close()
