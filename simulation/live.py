"""The real programs, threads and sockets and all, over an API in memory; stand-ins for the rest of Kubernetes.

What ``simulation.cluster`` steps on a virtual clock runs here by itself, in real time and with real files.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.__main__ import ControllerProcess as ControllerRun
from driver.clock import SystemClock
from driver.files import SystemFiles
from driver.kube.api import DEVICE_CLASSES, NAMESPACES, NODES, Api, Object, Resource, WatchEvent
from driver.observe import logger
from driver.settings import ControllerSettings, KubeletPluginSettings, Settings
from kubeletplugin.__main__ import Plugin
from kubeletplugin.prepare.records import Records
from memoryapi import MemoryApi
from simulation.invariants import Invariants
from simulation.kubelet_client import KubeletClient
from simulation.programs import NAMESPACE
from simulation.runtime import ContainerView, container_view
from simulation.standins.admission import CLAIM_CONTROLLER, CONTROLLER, AdmittedApi
from simulation.standins.claims import ResourceClaimController
from simulation.standins.informed import StandIn
from simulation.standins.jobs import GarbageCollector, JobController
from simulation.standins.kubelet import Kubelet
from simulation.standins.machine import Machine
from simulation.standins.scheduler import KubeScheduler

PAUSE_SECONDS = 0.005
"""How long the stand-ins rest when there is nothing to do."""
STOP_SECONDS = 10.0


class _Impatient:
    """An ``Api`` whose watches deliver what there is and end, for stand-ins that share one thread."""

    def __init__(self, api: Api):
        self._api = api
        self.get, self.list, self.create = api.get, api.list, api.create
        self.update, self.patch, self.delete = api.update, api.patch, api.delete

    def watch(self, resource: Resource, **options: Any) -> Iterator[WatchEvent]:
        """What has changed until now."""
        return self._api.watch(resource, **{**options, "timeout_seconds": 0})


class LiveNode:
    """One machine: its folder, its plugin, its kubelet."""

    def __init__(self, api: MemoryApi, settings: Settings, name: str, folder: Path):
        self.machine = Machine(name)
        section = KubeletPluginSettings(
            kubelet_root=str(folder / "kubelet"), cdi_root=str(folder / "cdi"), boot_id_file=str(folder / "boot_id")
        )
        self.settings = settings.model_copy(update={"kubeletplugin": section})
        (folder / "kubelet" / "plugins_registry").mkdir(parents=True)
        (folder / "boot_id").write_text(self.machine.boot_id)
        names = settings.names
        plugin_api = AdmittedApi(api, names, f"plugin-{name}")
        self.plugin = Plugin(plugin_api, self.settings, name, pod_uid="")
        self.client = KubeletClient(section.kubelet_root, settings.driver_name)
        kubelet_api = _Impatient(AdmittedApi(api, names, f"kubelet-{name}"))
        self.kubelet = Kubelet(kubelet_api, SystemClock(), self.machine, self.client, lambda: 0.0)

    def view(self, pod: Object) -> ContainerView:
        """What a container of a running pod finds, once CDI has been applied."""
        ids = self.kubelet.cdi_ids[pod["metadata"]["uid"]]
        return container_view(SystemFiles(), self.settings.kubeletplugin.cdi_root, ids)

    def left_over(self) -> list[str]:
        """Claims and files of claims that are still on the node."""
        records = Records(SystemFiles(), self.settings)
        return sorted({*records.load().claims, *records.uids()})


class LiveCluster:
    """A cluster that runs until ``close``.

    Args:
        folder: an empty one with a short path (sockets must fit into 107 bytes).
        nodes: node name to labels; the label ``lode.dev/simulated-profile`` says which cards it has.
    """

    def __init__(self, folder: Path, nodes: Mapping[str, Mapping[str, str]], classes: Sequence[Object]):
        self.api = MemoryApi(SystemClock(), blocking=True)
        settings = Settings(observe_address="", controller=ControllerSettings(lease_seconds=15))
        self._names = settings.names
        self.user = AdmittedApi(self.api, self._names, "kubectl")
        self._install(nodes, classes)
        self.nodes = {name: LiveNode(self.api, settings, name, folder / name) for name in nodes}
        machines = [node.machine for node in self.nodes.values()]
        self.invariants = Invariants(_Impatient(self.api), self._names, machines)
        controller_api = AdmittedApi(self.api, self._names, CONTROLLER)
        environment = {"POD_NAME": "lode-controller-0", "POD_NAMESPACE": NAMESPACE}
        self._controller = ControllerRun(controller_api, SystemClock(), settings, logger("controller"), environment)
        self._stop = threading.Event()
        self._failures: list[str] = []
        self._threads = [self._thread("controller", self._controller.run)]
        self._threads += [self._thread(f"plugin-{name}", node.plugin.run) for name, node in self.nodes.items()]
        self._threads.append(self._thread("kubernetes", lambda: self._keep_stepping(self._kubernetes())))
        kubelets = [node.kubelet for node in self.nodes.values()]
        self._threads.append(self._thread("kubelets", lambda: self._keep_stepping(kubelets)))

    def close(self) -> list[str]:
        """Stop everything, the programs gracefully; what went wrong meanwhile."""
        self._controller.stop()
        for node in self.nodes.values():
            node.plugin.stop()
        for thread in self._threads[: 1 + len(self.nodes)]:
            thread.join(STOP_SECONDS)
        self._stop.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)
            if thread.is_alive():
                self._failures.append(f"{thread.name} does not stop")
        for node in self.nodes.values():
            node.client.close()
        return self._failures

    def _install(self, nodes: Mapping[str, Mapping[str, str]], classes: Sequence[Object]) -> None:
        self.user.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for device_class in classes:
            self.user.create(DEVICE_CLASSES, device_class)
        for name, labels in nodes.items():
            status = {
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            own = {"kubernetes.io/hostname": name, **labels}
            self.user.create(NODES, {"metadata": {"name": name, "labels": own}, "status": status})

    def _kubernetes(self) -> list[StandIn]:
        clock = SystemClock()

        def api(user: str) -> Api:
            return _Impatient(AdmittedApi(self.api, self._names, user))

        return [
            ResourceClaimController(api(CLAIM_CONTROLLER), clock),
            KubeScheduler(api("kube-scheduler"), clock, self.api.bind),
            JobController(api("job-controller"), clock),
            GarbageCollector(api("garbage-collector"), clock),
        ]

    def _keep_stepping(self, parts: Sequence[StandIn]) -> None:
        seen: dict[StandIn, str] = {}
        while not self._stop.is_set():
            worked = False
            for part in parts:
                version = self.api.resource_version
                if seen.get(part) != version:
                    for reflector in part.reflectors:
                        reflector.step()
                    if all(reflector.position for reflector in part.reflectors):
                        seen[part] = version
                while part.step():
                    worked = True
            if not worked:
                self._stop.wait(PAUSE_SECONDS)

    def _thread(self, name: str, work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                if status := work():
                    self._failures.append(f"{name} ended with status {status}")
            except Exception as error:
                self._failures.append(f"{name} died: {type(error).__name__}: {error}")
                raise

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread
