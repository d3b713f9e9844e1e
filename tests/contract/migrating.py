"""The guides of docs/migrating from "old system installed" to "old system gone": their commands, as they are written.

The API server, the controllers, kube-scheduler and our controller are real. Kubelets, and what runs on nodes, is a
stand-in: pods run when they are bound, and a device plugin offers what it has while its DaemonSet has a pod there.
"""

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Object,
    Resource,
)
from driver.kube.client import KubeClient
from driver.names import Names
from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program, kubectl_program
from tests.contract.conftest import eventually
from tests.contract.identity import PLUGIN, Identity
from tests.contract.running import SETTINGS, let_run, running_controller, state_if_it_fails
from tests.unit.cli.cluster import slices

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/migrating"
NODE, NAMESPACE = "gpu-1", "team-a"
BACK = "If you want to go back"
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
_LODE = """#!/bin/sh
# The programs take a moment to be ready, which a person waits for.
tries=8
while ! "{python}" -m cli "$@"; do
    tries=$((tries - 1))
    [ "$1" = doctor ] && [ $tries -gt 0 ] || exit 1
    sleep 1
done
"""


@dataclass(frozen=True)
class System:
    """An old system, as far as a stand-in has it."""

    profile: str
    daemon_set: str
    limits: Mapping[str, Any]
    """What a pod asks for; {}: claims for NVIDIA's DRA driver."""
    label: Mapping[str, str]
    """The ``nodeSelector`` of the DaemonSet."""
    namespace: str = "kube-system"
    others: Sequence[tuple[Resource, str]] = ()
    """What else belongs to it."""

    @property
    def resource(self) -> str:
        """What the kubelet is asked for devices by; "" with claims."""
        return next(iter(self.limits), "")


SYSTEMS = {
    "nvidia-device-plugin": System(
        "a100x4",
        "nvidia-device-plugin-daemonset",
        {"nvidia.com/gpu": 1},
        {"nvidia.com/gpu.deploy.device-plugin": "true"},
    ),
    "hami": System(
        "a100x4",
        "hami-device-plugin",
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000},
        {"gpu": "on"},
        others=((DEPLOYMENTS, "hami-scheduler"), (WEBHOOKS, "hami-webhook")),
    ),
    "volcano": System(
        "a100x4", "volcano-device-plugin", {"volcano.sh/vgpu-number": 1}, {"example.com/volcano-device-plugin": "on"}
    ),
    "ascend": System("ascend310px4", "hami-ascend-device-plugin", {"huawei.com/Ascend310P": 1}, {"ascend": "on"}),
    "nvidia-dra-driver": System(
        "a100x4",
        "nvidia-dra-driver-gpu-kubelet-plugin",
        {},
        {"example.com/gpu": "on"},
        namespace="nvidia-dra-driver-gpu",
    ),
}


def workload(kind: str, name: str, spec: Object, **more: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more},
    }


class Kubelet:
    """The node, with the old system's device plugin and ours."""

    def __init__(self, api: Api, plugin: Identity, system: System):
        self._api, self._plugin, self._system = api, plugin, system
        self._cards: dict[str, int] = {}
        """The cards that pods have from the device plugin, by the pods' uids."""
        self._published: list[Object] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-in for a kubelet")
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.2):
            try:
                self._step()
            except ApiError:
                continue  # what others have changed or deleted meanwhile

    def _step(self) -> None:
        pods = list(self._api.list(PODS).items)
        for pod in pods:
            let_run(self._api, pod)
        here = [pod for pod in pods if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")]
        offered = any(self._is_of_daemon_set(pod) for pod in here)
        resource = self._system.resource
        if resource:
            amount = {resource: "4" if offered else "0"}
            for other in list(self._system.limits)[1:]:
                amount[other] = "100k" if offered else "0"
            status = {"status": {"capacity": amount, "allocatable": amount}}
            self._api.patch(NODES, NODE, status, subresource="status")
            self._count(here)
        else:
            found = self._api.list(RESOURCE_SLICES, field_selector="spec.driver=gpu.nvidia.com").items
            offered = bool(found)
        if plugins := self._api.list(DAEMON_SETS, namespace="lode-plugin").items:
            self._publish(range(4) if offered else self._cards.values(), plugins[0])

    def _is_of_daemon_set(self, pod: Object) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return any(owner["name"] == self._system.daemon_set for owner in owners)

    def _count(self, pods: Sequence[Object]) -> None:
        """Give each pod that asks for it a card that no other pod has."""
        asking = {
            pod["metadata"]["uid"]
            for pod in pods
            for container in pod["spec"]["containers"]
            if self._system.resource in (container["resources"].get("limits") or {})
        }
        self._cards = {uid: card for uid, card in self._cards.items() if uid in asking}
        for uid in sorted(asking - self._cards.keys()):
            self._cards[uid] = min(set(range(8)) - set(self._cards.values()))

    def _publish(self, closed: Iterable[int], plugin: Object) -> None:
        """Publish the cards, those of the other driver with a taint, by the settings of the plugin."""
        names, taken = Names("lode.dev", self._has_nvidia_names(plugin)), {str(number) for number in closed}
        wanted = slices(NODE, self._system.profile, ("whole", "share"), names=names)
        for part in wanted:
            for device in part["spec"].get("devices") or ():
                number = device["name"].split("-")[1]
                taint = {"key": "lode.dev/other-driver", "value": "device-plugin", "effect": "NoSchedule"}
                device["taints"] = [taint] if number in taken else []
        if wanted == self._published:
            return
        path = "/apis/resource.k8s.io/v1/resourceslices"
        for part in wanted:
            part = {**part, "metadata": {"name": part["metadata"]["name"]}}
            there = self._plugin.request("GET", f"{path}/{part['metadata']['name']}")
            if there.ok:
                body = {**there.body, "spec": {**part["spec"], "pool": _newer(there.body["spec"]["pool"])}}
                self._plugin.request("PUT", f"{path}/{part['metadata']['name']}", body).must()
            else:
                self._plugin.request("POST", path, part).must()
        self._published = wanted

    def _has_nvidia_names(self, daemon_set: Object) -> bool:
        volumes = daemon_set["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        settings = yaml.safe_load(self._api.get(CONFIG_MAPS, name, "lode-plugin")["data"]["settings.yaml"])
        return bool(settings.get("nvidiaDraNames"))


def _newer(pool: Object) -> Object:
    return {**pool, "generation": pool["generation"] + 1}


@dataclass
class Migration:
    """A guide, and the cluster in which it is followed."""

    guide: str
    plane: ControlPlane
    api: Api
    folder: Path
    programs: ExitStack = field(default_factory=ExitStack)
    starting: threading.Thread | None = None
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def sections(self) -> dict[str, list[str]]:
        """The blocks of commands of each section, by its heading; those before the first by ""."""
        found = {}
        for part in re.split(r"^## ", (GUIDES / f"{self.guide}.md").read_text(), flags=re.MULTILINE):
            blocks = re.findall(r"^ *```sh\n.*?^ *```$", part, re.DOTALL | re.MULTILINE)
            heading = "" if part.startswith("# ") else part.partition("\n")[0]
            found[heading] = [textwrap.dedent(block).partition("\n")[2].removesuffix("```") for block in blocks]
        return found

    def follow(self, number: str, *, blocks: slice = slice(None)) -> str:
        """Run the commands of the section with this number, or with this heading; returns what they print."""
        (commands,) = [found for heading, found in self.sections.items() if heading.startswith(number)]
        script = "".join([*self.sections[""], *commands[blocks]])
        shell = ["bash", "-euo", "pipefail", "-c", script]
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(self.plane.kubeconfig(delayed=False)),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            shell, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=280
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start_controller(self, **settings: Any) -> None:
        """Run our controller, in place of the one before."""
        self.programs.close()
        (self.plane.folder / SETTINGS).write_text(yaml.safe_dump({"observeAddress": "", **settings}))
        self.programs.enter_context(running_controller(self.plane))

    def start_when_installed(self) -> None:
        """Run our controller as soon as its Deployment is there. It ends with the thread that has started it."""

        def wait() -> None:
            eventually(lambda: self.api.get(DEPLOYMENTS, "lode-controller", "lode-system"), 120)
            self.start_controller()
            self.ending.wait()
            self.programs.close()  # before this thread ends

        self.starting = threading.Thread(target=wait)
        self.starting.start()

    def stop(self) -> None:
        """Stop our controller."""
        self.ending.set()
        if self.starting:
            self.starting.join()
        self.programs.close()

    def pods(self) -> list[Object]:
        """The pods of the namespace that are not being deleted."""
        found = self.api.list(PODS, namespace=NAMESPACE).items
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def wait_for(self, *, claims: bool) -> set[str]:
        """Wait until both pods run, with or without claims; returns their uids."""

        def both_run() -> bool:
            pods = self.pods()
            have = [bool(pod["spec"].get("resourceClaims")) for pod in pods]
            run = [pod["status"].get("phase") == "Running" for pod in pods]
            return len(pods) == 2 and all(run) and have == [claims] * 2

        eventually(both_run, 120)
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def devices(self) -> list[str]:
        """The devices of all claims of the namespace."""
        claims = self.api.list(RESOURCE_CLAIMS, namespace=NAMESPACE).items
        found = [(claim.get("status") or {}).get("allocation") or {"devices": {"results": []}} for claim in claims]
        return [f"{it['driver']} {it['device']}" for one in found for it in one["devices"]["results"]]


@contextmanager
def migration_along(guide: str, folder: Path) -> Iterator[Migration]:
    """A cluster with the old system of a guide, and a folder in which the guide's commands are run."""
    system = SYSTEMS[guide]
    (folder / "bin").mkdir()
    (folder / "charts").symlink_to(ROOT / "charts")
    for name, program in (("kubectl", kubectl_program()), ("helm", helm_program())):
        (folder / "bin" / name).symlink_to(program)
    (folder / "bin/kubectl-lode").write_text(_LODE.format(python=sys.executable))
    (folder / "bin/kubectl-lode").chmod(0o755)
    with ControlPlane() as plane, closing(KubeClient.from_environment(str(plane.kubeconfig()))) as api:
        plane.add_node(NODE, {"kubernetes.io/os": "linux", **system.label})
        _install_old_system(api, system)
        kubelet = Kubelet(api, Identity.admin(plane).as_user(PLUGIN, node=NODE), system)
        made = Migration(guide, plane, api, folder)
        try:
            with state_if_it_fails(plane):
                yield made
        finally:
            made.stop()
            kubelet.stop()


def _install_old_system(api: Api, system: System) -> None:
    for namespace in {NAMESPACE, system.namespace} - {"kube-system"}:
        api.create(NAMESPACES, {"metadata": {"name": namespace}})
    folder = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    spec = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": dict(system.label), "volumes": [folder]}
    api.create(DAEMON_SETS, workload("DaemonSet", system.daemon_set, spec), system.namespace)
    for resource, name in system.others:
        content = workload("Deployment", name, {"containers": [{"name": "main", "image": "none"}]}, replicas=0)
        obj = content if resource == DEPLOYMENTS else {"metadata": {"name": name}, "webhooks": []}
        api.create(resource, obj, system.namespace if resource.namespaced else "")
    container: Object = {"name": "main", "image": "none", "resources": {"limits": dict(system.limits)}}
    spec = {"containers": [container]}
    if not system.limits:
        _install_dra_driver(api)
        container["resources"] = {"claims": [{"name": "gpu"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "single-gpu"}]
    replicas = 1 if not system.limits else 2
    api.create(DEPLOYMENTS, workload("Deployment", "train", spec, replicas=replicas), NAMESPACE)


def _install_dra_driver(api: Api) -> None:
    for kind in ("gpu", "mig"):
        expression = f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
        selectors = [{"cel": {"expression": expression}}]
        api.create(DEVICE_CLASSES, {"metadata": {"name": f"{kind}.nvidia.com"}, "spec": {"selectors": selectors}})
    devices = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(4)]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": pool, "devices": devices}
    api.create(RESOURCE_SLICES, {"metadata": {"name": "of-nvidia"}, "spec": spec})
    selector = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].type == 'gpu'"}}
    exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": [selector]}
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
    }
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], "config": config}}
    template = {"metadata": {"name": "single-gpu"}, "spec": {"spec": claim}}
    api.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)


def follow_there_and_back(migration: Migration) -> None:
    """Follow the guide of a device plugin: to claims, back, to claims again, and to the end of the old system."""
    system = SYSTEMS[migration.guide]
    old = migration.wait_for(claims=False)
    migration.follow("1.")
    assert "kind: ResourceClaimTemplate" in (migration.folder / "claims.yaml").read_text()

    migration.start_when_installed()
    assert f"a device plugin offers {system.resource}" in migration.follow("2.")
    migration.follow("3.")
    assert migration.wait_for(claims=False) == old, "nothing is restarted"

    assert "train-" in migration.follow("4.")
    assert not migration.wait_for(claims=True) & old
    assert len(migration.devices()) == 2
    limits = [pod["spec"]["containers"][0]["resources"].get("limits") for pod in migration.pods()]
    assert limits == [None, None]

    migration.follow(BACK)
    back = migration.wait_for(claims=False)
    migration.follow("3.")
    assert migration.wait_for(claims=False) == back
    migration.follow("4.", blocks=slice(1))
    new = migration.wait_for(claims=True)
    assert "a device plugin offers" not in migration.follow("5.")
    assert migration.wait_for(claims=True) == new, "nothing is restarted"
    left = [it["metadata"]["name"] for it in migration.api.list(DAEMON_SETS, namespace=system.namespace).items]
    assert left == []
    node = migration.api.get(NODES, NODE)["metadata"]
    assert "lode.dev/handover" not in node.get("annotations", {})
