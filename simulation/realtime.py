"""The real programs with their threads and sockets, over an API in memory and fakes of the other components.

Everything runs by itself, in real time and with real files. Tests can also step everything on a virtual clock
(`tests.simulation.cluster`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from controller.__main__ import Apis
from controller.__main__ import ControllerProcess as ControllerRun
from driver.clock import SystemClock
from driver.files import SystemFiles
from driver.kube.api import DEVICE_CLASSES, NAMESPACES, NODES, Api, ApiCall, Object
from driver.kube.decorator import ApiDecorator
from driver.names import CONTROLLER_NAMESPACE
from driver.observe import METRICS, logger
from driver.settings import ControllerSettings, KubeletPluginSettings, Settings
from kubeletplugin.__main__ import PluginProcess
from kubeletplugin.prepare.storage import ClaimStorage
from memoryapi import MemoryApi
from simulation.container_runtime import ContainerView, container_view
from simulation.invariants import Invariants
from simulation.kubernetes.admission import CLAIM_CONTROLLER, CONTROLLER, AdmissionApi
from simulation.kubernetes.component import FakeComponent
from simulation.kubernetes.garbage_collector import GarbageCollector
from simulation.kubernetes.job_controller import JobController
from simulation.kubernetes.kubelet import Kubelet
from simulation.kubernetes.plugin_client import PluginClient
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from simulation.kubernetes.scheduler import KubeScheduler
from simulation.node import SimulatedNode, registered_node

PAUSE_SECONDS = 0.005
"""Pause of the fake components when they have no work."""
STOP_SECONDS = 10.0


class _NonBlockingApi(ApiDecorator):
    """The API with watches that end when they have delivered all changes, for components that share one thread."""

    def call(self, call: ApiCall) -> Any:
        """See ``Api``; a watch delivers the changes until now."""
        return super().call(call._replace(timeout_seconds=0))


class RealTimeNode:
    """One node: its folder, its plugin, its kubelet."""

    def __init__(self, api: MemoryApi, settings: Settings, name: str, folder: Path):
        self.node = SimulatedNode(name, SystemFiles(), str(folder / "kubelet"))
        section = KubeletPluginSettings(
            hardware="simulated",
            kubelet_root=self.node.kubelet_root,
            cdi_root=str(folder / "cdi"),
            boot_id_file=str(folder / "boot_id"),
            simulated_state=str(folder / "simulated.json"),
            simulated_faults=str(folder / "faults"),
        )
        self.settings = settings.model_copy(update={"kubeletplugin": section})
        (folder / "kubelet" / "plugins_registry").mkdir(parents=True)
        (folder / "boot_id").write_text(self.node.boot_id)
        names = settings.names
        plugin_api = AdmissionApi(api, names, f"plugin-{name}")
        self.plugin = PluginProcess(plugin_api, self.settings, name, pod_uid="")
        self.client = PluginClient(section.kubelet_root, settings.driver_name)
        kubelet_api = _NonBlockingApi(AdmissionApi(api, names, f"kubelet-{name}"))
        self.kubelet = Kubelet(kubelet_api, SystemClock(), self.node, self.client, lambda: 0.0)

    def view(self, pod: Object) -> ContainerView:
        """Devices, environment and mounts of the containers of a running pod, after CDI was applied."""
        ids = self.kubelet.cdi_ids[pod["metadata"]["uid"]]
        return container_view(self.node.files, self.settings.kubeletplugin.cdi_root, ids)

    def remaining_claims(self) -> list[str]:
        """Uids of the claims that are in the checkpoint or have files on the node."""
        storage = ClaimStorage(self.node.files, self.settings)
        return sorted({*storage.load().claims, *storage.uids()})


class RealTimeCluster:
    """A cluster that runs until ``close``.

    Args:
        folder: an empty folder with a short path (paths of sockets are limited to 107 bytes).
        fleet_metrics: how much the controller's metrics have of the fleet.
        nodes: node name to labels; the label ``lode.dev/simulated-profile`` selects the cards of a node.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, Mapping[str, str]],
        classes: Sequence[Object],
        *,
        fleet_metrics: Literal["cards", "claims"] = "cards",
    ):
        self.api = MemoryApi(SystemClock(), blocking=True)
        section = ControllerSettings(
            lease_seconds=15, debug_address="", verify_policies=False, fleet_metrics=fleet_metrics
        )
        settings = Settings(observe_address="", controller=section)
        self._names = settings.names
        self.user = AdmissionApi(self.api, self._names, "kubectl")
        self._install(nodes, classes)
        self.nodes = {name: RealTimeNode(self.api, settings, name, folder / name) for name in nodes}
        simulated = [node.node for node in self.nodes.values()]
        self.invariants = Invariants(_NonBlockingApi(self.api), self._names, simulated)
        controller_api = AdmissionApi(self.api, self._names, CONTROLLER)
        environment = {"POD_NAME": "lode-controller-0", "POD_NAMESPACE": CONTROLLER_NAMESPACE}
        connections = Apis(controller_api, controller_api, controller_api)
        self._controller = ControllerRun(connections, SystemClock(), settings, logger("controller"), environment)
        self._stop = threading.Event()
        self._failures: list[str] = []
        self._threads = [self._thread("controller", self._controller.run)]
        self._threads += [self._thread(f"plugin-{name}", node.plugin.run) for name, node in self.nodes.items()]
        self._threads.append(self._thread("kubernetes", lambda: self._step_until_stopped(self._kubernetes())))
        kubelets = [node.kubelet for node in self.nodes.values()]
        self._threads.append(self._thread("kubelets", lambda: self._step_until_stopped(kubelets)))

    def series(self, node: str = "") -> bytes:
        """Return the metrics of the plugin of a node, or of the controller, as text in the format of Prometheus."""
        metrics = self.nodes[node].plugin.metrics if node else self._controller.metrics
        return metrics.text(METRICS) or b""

    def close(self) -> list[str]:
        """Stop everything, the programs gracefully. Returns what went wrong while the cluster ran."""
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
        self.user.create(NAMESPACES, {"metadata": {"name": CONTROLLER_NAMESPACE}})
        for device_class in classes:
            self.user.create(DEVICE_CLASSES, device_class)
        for name, labels in nodes.items():
            self.user.create(NODES, registered_node(name, labels))

    def _kubernetes(self) -> list[FakeComponent]:
        clock = SystemClock()

        def api(user: str) -> Api:
            return _NonBlockingApi(AdmissionApi(self.api, self._names, user))

        return [
            ResourceClaimController(api(CLAIM_CONTROLLER), clock),
            KubeScheduler(api("kube-scheduler"), clock, self.api.bind),
            JobController(api("job-controller"), clock),
            GarbageCollector(api("garbage-collector"), clock),
        ]

    def _step_until_stopped(self, components: Sequence[FakeComponent]) -> None:
        read: dict[FakeComponent, str] = {}
        while not self._stop.is_set():
            worked = False
            for component in components:
                version = self.api.resource_version
                if read.get(component) != version:
                    for reflector in component.reflectors:
                        reflector.step()
                    if all(reflector.position for reflector in component.reflectors):
                        read[component] = version
                while component.step():
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
