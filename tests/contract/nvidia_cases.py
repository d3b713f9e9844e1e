"""A node with simulated cards and everything that claims meet there: cases of another driver are played on it."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from charts import built
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Object
from driver.kube.client import KubeClient
from simulation.kubernetes.dra_plugin import PluginDown
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.preparing import PreparingKubelet, start_plugin
from tests.contract.running import SETTINGS, is_gated, message_of, running_controller, state_if_it_fails

NODE: Final = "gpu-1"
PROFILE: Final = "h100x8"
NAMESPACE: Final = "default"
_PATIENCE_SECONDS: Final = 90.0


@dataclass(frozen=True)
class PlayedNode:
    """The cluster with one node: controller and plugin are real, and the kubelet is a stand-in."""

    plane: ControlPlane
    api: Api
    kubelet: PreparingKubelet

    def play(self, case: Mapping[str, Any]) -> None:
        """Apply the objects of a case, see that all that it says becomes true, and delete them; nothing may be left."""
        objects = [json.loads(json.dumps(obj)) for obj in case.get("objects", ())]
        for _ in range(case.get("rounds", 1)):
            with state_if_it_fails(self.plane), self._applied(objects):
                self._check(case)

    @contextmanager
    def _applied(self, objects: Sequence[Object]) -> Iterator[None]:
        """The objects are there; afterwards they and the claims of their pods are gone."""
        text = yaml.safe_dump_all(objects)
        if objects:
            self.plane.kubectl("create", "-f", "-", input=text)
        try:
            yield
        finally:
            if objects:
                self.plane.kubectl("delete", "--cascade=foreground", "--timeout=50s", "-f", "-", input=text)
            eventually(lambda: not self.api.list(RESOURCE_CLAIMS, namespace=NAMESPACE).items, _PATIENCE_SECONDS)

    def _check(self, case: Mapping[str, Any]) -> None:
        seen = {place: self._seen(place, number) for place, number in case.get("sees", {}).items()}
        for places in case.get("equal", ()):
            assert len({tuple(seen[place]) for place in places}) == 1, seen
        apart = [device for place in case.get("apart", ()) for device in seen[place]]
        assert len(apart) == len(set(apart)), seen
        for pod, word in case.get("waits", {}).items():
            eventually(partial(self._is_told, pod, word), _PATIENCE_SECONDS)
        if runs := case.get("runs"):
            eventually(lambda: self._agrees(runs, ends=case.get("ends", False)), _PATIENCE_SECONDS)
        if attributes := case.get("attributes"):
            self._check_attributes(**attributes)

    def _is_told(self, pod: str, word: str) -> bool:
        return word in message_of(self.api, pod)

    def _seen(self, place: str, number: int) -> Sequence[str]:
        """What a container gets, once its pod runs."""
        name, _, container = place.partition("/")

        def pod() -> Object | None:
            found = self.api.get(PODS, name, NAMESPACE)
            return found if found["status"]["phase"] == "Running" else None

        devices = self.kubelet.devices_of(eventually(pod, _PATIENCE_SECONDS), container)
        assert len(devices) == number, (place, devices)
        return devices

    def _agrees(self, runs: Mapping[str, Any], *, ends: bool) -> bool:
        """Whether as many pods with these labels are as told; with ``ends``, those that run end."""
        pods = list(self.api.list(PODS, namespace=NAMESPACE, label_selector=runs["labels"]).items)
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        for pod in running if ends else ():
            self._end(pod)
        if sum(pod["status"]["phase"] == runs["phase"] for pod in pods) != runs["pods"]:
            return False
        devices = {tuple(self.kubelet.devices_of(pod, "main")) for pod in running}
        pending = sum(pod["status"]["phase"] == "Pending" for pod in pods)
        wanted = runs.get("devices", len(devices)), runs.get("pending", 0)
        return (len(devices), pending) == wanted

    def _end(self, pod: Object) -> None:
        ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        containers = [{**each, "ready": False, "state": ended} for each in pod["status"]["containerStatuses"]]
        status = {"phase": "Succeeded", "containerStatuses": containers}
        self.api.patch(PODS, pod["metadata"]["name"], {"status": status}, namespace=NAMESPACE, subresource="status")

    def _check_attributes(self, type: str, names: Sequence[str], lacking: Sequence[str]) -> None:
        slices = self.api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={NODE}").items
        devices = [device for it in slices for device in it["spec"].get("devices") or ()]
        described = [
            device["attributes"].keys()
            for device in devices
            if device["attributes"].get("gpu.nvidia.com/type") == {"string": type}
        ]
        assert described
        for attributes in described:
            assert set(names) <= attributes, set(names) - attributes
            assert not set(lacking) & attributes


@contextmanager
def played_node(place: Path) -> Iterator[PlayedNode]:
    """The node, with the names of NVIDIA's DRA driver.

    Args:
        place: its files; the paths of sockets have to be short.
    """
    with ControlPlane() as plane, closing(KubeClient.from_environment(str(plane.kubeconfig()))) as api:
        plane.add_node(NODE, {"kubernetes.io/os": "linux"})
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(built("controller-allocated", "nvidia-dra-names")))
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", NAMESPACE))
        eventually(lambda: is_gated(api), 60)
        common = {"nvidiaDraNames": True, "observeAddress": ""}
        (plane.folder / SETTINGS).write_text(yaml.safe_dump(common))
        own = {"hardware": "simulated", "profile": PROFILE, "bootIdFile": str(place / "boot-id")}
        (place / "boot-id").write_text("6f2b3c0e-6b0f-4d55-9a8e-0f4a1f1c2d3e\n")
        offer = {"offer": ["whole", "share", "partitions"]}
        plugin = start_plugin(plane, place, NODE, {**common, "kubeletplugin": {**own, **offer}})
        kubelet = PreparingKubelet(api, NODE, place / "kubelet")
        stopped = threading.Event()
        thread = threading.Thread(target=_run, args=(api, kubelet, stopped), name="stand-in for the kubelet")
        try:
            with running_controller(plane):
                thread.start()
                published = f"spec.nodeName={NODE}"
                eventually(lambda: api.list(RESOURCE_SLICES, field_selector=published).items, 60)
                yield PlayedNode(plane, api, kubelet)
        finally:
            stopped.set()
            if thread.is_alive():
                thread.join()
            kubelet.close()
            plugin.terminate()
            plugin.wait(30)


def _run(api: Api, kubelet: PreparingKubelet, stopped: threading.Event) -> None:
    while not stopped.wait(0.1):
        with suppress(ApiError):
            for pod in api.list(PODS, namespace=NAMESPACE).items:
                with suppress(ApiError, PluginDown, KeyError):  # not all of its claims are made yet, or it is away
                    kubelet.sync(pod)
