"""Karpenter with its KWOK provider beside the real controller, on a control plane whose nodes Karpenter makes."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import run
from typing import Any, Final

from controller.state.knownnodes import DO_NOT_DISRUPT
from driver.kinds import Offer
from driver.kube.api import EVENTS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Api, ApiError, Object
from driver.kube.client import KubeClient
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from testclusters.programs import KARPENTER
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.running import SETTINGS, is_gated, running_controller
from tests.unit.cli.cluster import slices

TYPE: Final = "lode-node"
"""The instance type, which every new node has."""
_LIMIT: Final = 12
"""Most nodes that Karpenter makes: a scale-up that does not end would fill the machine."""
_PUBLISHED_AFTER: Final = 2.0
"""Seconds from the making of a node to its slices."""


class KarpenterCluster:
    """A control plane with our controller and Karpenter, and a stand-in for the kubelets of the nodes that it makes."""

    def __init__(self, plane: ControlPlane, api: Api, profile: str, offer: Sequence[Offer]):
        self.plane = plane
        self.api = api
        self.made: dict[str, float] = {}
        """When each node appeared that Karpenter has made."""
        self._profile = profile
        self._offer = tuple(offer)
        self._ended = threading.Event()
        self._published: set[str] = set()
        self._kubelet = threading.Thread(target=self._play_kubelets, daemon=True)

    def start(self) -> None:
        """Start the stand-in for kubelets."""
        self._kubelet.start()

    def stop(self) -> None:
        """Stop it."""
        self._ended.set()
        self._kubelet.join()

    def templates(self) -> list[Object]:
        """The slices of a new node, as the provider knows them."""
        return slices("template", self._profile, self._offer)

    # Users

    def add_pods(self, name: str, count: int, devices: Object, cpu: str = "1", **config: Any) -> list[str]:
        """Pods with one claim each, of which ``devices`` is the request ``exactly``."""
        body = self._pod_spec(name, devices, cpu, config)
        pods = [f"{name}-{number}" for number in range(count)]
        for pod in pods:
            self.api.create(PODS, {"metadata": {"name": pod, "namespace": "default"}, "spec": body}, "default")
        return pods

    def add_deployment(self, name: str, replicas: int, devices: Object) -> None:
        """A Deployment of such pods."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": self._pod_spec(name, devices, "1", {})}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": name, "namespace": "default"}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(deployment))

    def _pod_spec(self, name: str, devices: Object, cpu: str, config: Object) -> Object:
        """The spec of a pod with a claim from a template of this name, which is created."""
        spec = {"devices": {"requests": [{"name": "card", "exactly": devices}], **config}}
        template = {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": spec}}
        self.api.create(RESOURCE_CLAIM_TEMPLATES, template)
        resources: Object = {"requests": {"cpu": cpu}, "claims": [{"name": "card"}]}
        return {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": [{"name": "card", "resourceClaimTemplateName": name}],
        }

    def running(self) -> list[str]:
        """The pods that run, sorted."""
        pods = self.api.list(PODS, namespace="default").items
        return sorted(pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running")

    def await_running(self, pods: Sequence[str], seconds: float = 120) -> None:
        """Wait until the pods are bound, and run."""

        def all_run() -> bool:
            return all(self.pod(pod)["status"].get("phase") == "Running" for pod in pods)

        eventually(all_run, seconds)

    def pod(self, name: str) -> Object:
        return self.api.get(PODS, name, "default")

    def nodes(self) -> list[str]:
        """The nodes that there are."""
        return sorted(node["metadata"]["name"] for node in self.api.list(NODES).items)

    def protected(self) -> list[str]:
        """The nodes that Karpenter is told to leave alone."""
        nodes = [node["metadata"] for node in self.api.list(NODES).items]
        return sorted(one["name"] for one in nodes if (one.get("annotations") or {}).get(DO_NOT_DISRUPT) == "true")

    def stays(self, holds: Callable[[], bool], seconds: float) -> None:
        """Check that something holds for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert holds()
            time.sleep(0.5)

    def said_by_scheduler(self) -> list[str]:
        """The pods of which kube-scheduler has said that it could not place them."""
        found = self.api.list(EVENTS, namespace="default").items
        return [event["involvedObject"]["name"] for event in found if event["reason"] == "FailedScheduling"]

    # Kubelets

    def _play_kubelets(self) -> None:
        while not self._ended.wait(0.3):
            with suppress(ApiError, OSError):
                for node in self.api.list(NODES).items:
                    if (node["spec"].get("providerID") or "").startswith("kwok:"):
                        self._serve(node)
                for pod in self.api.list(PODS, namespace="default").items:
                    self._run(pod)

    def _serve(self, node: Object) -> None:
        name = node["metadata"]["name"]
        self.made.setdefault(name, time.monotonic())
        ready = {"type": "Ready", "status": "True", "reason": "Test"}
        if not any(
            one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or ()
        ):
            patch = {"status": {"conditions": [ready]}}
            self.api.patch(NODES, name, patch, subresource="status", patch_type="strategic")
        if name in self._published or time.monotonic() - self.made[name] < _PUBLISHED_AFTER:
            return
        for part in slices(name, self._profile, self._offer):
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            part["metadata"] = {"name": part["metadata"]["name"], "ownerReferences": [owner]}
            self.api.create(RESOURCE_SLICES, part)
        self._published.add(name)

    def _run(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            self.api.delete(PODS, name, "default", grace_period_seconds=0)
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            patch = {"status": {"phase": "Running"}}
            self.api.patch(PODS, name, patch, namespace="default", subresource="status", patch_type="strategic")


@contextmanager
def karpenter_cluster(
    profile: str, offer: Sequence[Offer] = (), consolidate_after: str = "Never"
) -> Iterator[KarpenterCluster]:
    """A cluster without nodes, in which Karpenter makes nodes with the cards of a profile.

    Args:
        consolidate_after: ``consolidateAfter`` of the NodePool.
    """
    program = KARPENTER.build() / "karpenter"
    with ControlPlane() as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.kubectl("apply", "-f", "manifests/autoscaling/autoscaling-rbac.yaml")
        # The pods of the programs would get nodes, too. The controller runs beside the cluster.
        plane.kubectl("delete", "deployment,daemonset", "--all", "--all-namespaces")
        eventually(lambda: not api.list(PODS).items, 60)
        # Slices are published by the stand-in for kubelets.
        plane.kubectl("delete", "validatingadmissionpolicybinding", "own-slices.lode.dev")
        definitions = run([program, "crds"], capture_output=True, text=True, check=True).stdout
        plane.kubectl("apply", "--server-side", "-f", "-", input=definitions)
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        eventually(lambda: is_gated(api), 60)
        settings = {"verifyPolicies": False, "autoscaling": {"enabled": True}}
        (plane.folder / SETTINGS).write_text(json.dumps({"observeAddress": "", "controller": settings}))
        cluster = KarpenterCluster(plane, api, profile, offer)
        pool = _pool(consolidate_after)
        eventually(lambda: plane.kubectl("apply", "-f", "-", input=pool, check=False).returncode == 0)
        environment = {**os.environ, **_environment(plane.folder, cluster, plane.kubeconfig())}
        process = start_process([program], plane.folder / "karpenter.log", environment)
        cluster.start()
        try:
            with running_controller(plane):
                yield cluster
        finally:
            cluster.stop()
            process.terminate()
            process.wait(30)
            api.close()


def _environment(folder: Path, cluster: KarpenterCluster, kubeconfig: Path) -> dict[str, str]:
    offering = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
    ]
    types = [
        {
            "name": TYPE,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "100Gi"},
            "offerings": [{"Price": 1.0, "Available": True, "Requirements": offering}],
        }
    ]
    (folder / "types.json").write_text(json.dumps(types))
    (folder / "templates.json").write_text(json.dumps({TYPE: cluster.templates()}))
    return {
        "KUBECONFIG": str(kubeconfig),
        "SYSTEM_NAMESPACE": "kube-system",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "LOG_LEVEL": "debug",
        "IGNORE_DRA_REQUESTS": "false",
        "INSTANCE_TYPES_FILE_PATH": str(folder / "types.json"),
        "SLICE_TEMPLATES": str(folder / "templates.json"),
    }


def _pool(consolidate_after: str) -> str:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
            "limits": {"cpu": str(64 * _LIMIT)},
            "disruption": {"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]},
        },
    }
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    return "\n".join(map(json.dumps, (node_class, pool)))
