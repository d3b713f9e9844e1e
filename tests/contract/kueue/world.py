"""Kueue with its webhooks and its own rights, beside the real controller, on a control plane with cards."""

import base64
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import JOBS, KUEUE_WORKLOADS, PODS, RESOURCE_SLICES, Api, NotFound, Object, Resource
from driver.kube.client import KubeClient
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from testclusters.programs import KUEUE
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.running import SETTINGS, is_gated, running_controller
from tests.unit.cli.cluster import slices, template

SAMPLES: Final = Path(__file__).parents[3] / "manifests" / "examples" / "kueue"
QUEUE: Final = "accelerators"
"""The queue of the samples."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
CLUSTER_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
_NAMESPACE: Final = "kueue-system"
_SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)


class KueueCluster:
    """A control plane with nodes and their cards, our controller, and Kueue with the configuration of the samples."""

    def __init__(self, plane: ControlPlane, api: Api):
        self.plane = plane
        self.api = api

    # Users

    def add_template(
        self, name: str, device_class: str, expression: str = "", config: Sequence[Object] = (), **exactly: Any
    ) -> None:
        made = template(name, device_class, expression, **exactly)
        made["spec"]["spec"]["devices"]["config"] = [*config]
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(made))

    def add_job(self, name: str, claim_template: str, pods: int = 1) -> None:
        """A job in the queue, whose pods have a claim of the template each."""
        spec = {**_pod_spec(claim_template), "restartPolicy": "Never"}
        job = {
            "metadata": {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: QUEUE}},
            "spec": {"parallelism": pods, "completions": pods, "suspend": True, "template": {"spec": spec}},
        }
        self.api.create(JOBS, job, "default")

    def add_pod(self, name: str, claim_template: str, queue: str = QUEUE) -> None:
        """A pod in the queue; "" for none."""
        metadata = {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: queue} if queue else {}}
        self.api.create(PODS, {"metadata": metadata, "spec": _pod_spec(claim_template)}, "default")

    def remove_job(self, name: str) -> None:
        """Delete a job with its pods, which end at once, because no kubelet runs them."""
        self.plane.kubectl("delete", "job", name, "--wait=false")
        for pod in self.pods_of(name):
            with suppress(NotFound):
                self.api.delete(PODS, pod["metadata"]["name"], "default", grace_period_seconds=0)

    # What is seen

    def pod(self, name: str) -> Object:
        return self.api.get(PODS, name, "default")

    def gates(self, name: str) -> Sequence[str]:
        """The gates of a pod."""
        return [gate["name"] for gate in self.pod(name)["spec"].get("schedulingGates") or ()]

    def pods_of(self, job: str) -> Sequence[Object]:
        """The pods of a job."""
        label = "batch.kubernetes.io/job-name"
        pods = self.api.list(PODS, namespace="default").items
        return [pod for pod in pods if pod["metadata"].get("labels", {}).get(label) == job]

    def is_suspended(self, job: str) -> bool:
        return bool(self.api.get(JOBS, job, "default")["spec"].get("suspend"))

    def runs(self, job: str) -> bool:
        """Whether all pods of a job are bound."""
        pods = self.pods_of(job)
        parallelism = self.api.get(JOBS, job, "default")["spec"]["parallelism"]
        return len(pods) == parallelism and all(pod["spec"].get("nodeName") for pod in pods)

    def workload(self, owner: str) -> Object:
        """The Workload that Kueue has made for a job or pod; empty while there is none."""
        found = self.api.list(KUEUE_WORKLOADS, namespace="default").items
        return next((it for it in found if it["metadata"]["ownerReferences"][0]["name"] == owner), {})

    def condition(self, owner: str, kind: str) -> Object:
        """A condition of the Workload of a job or pod; empty if it has none."""
        conditions = self.workload(owner).get("status", {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    def used(self, resource: str) -> str:
        """What the queue has given of a resource of its quota."""
        status = self.api.get(CLUSTER_QUEUES, QUEUE)["status"]
        (flavor,) = status["flavorsReservation"]
        return str(next(one["total"] for one in flavor["resources"] if one["name"] == resource))


def _pod_spec(claim_template: str) -> Object:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "card"}]}
    return {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "resourceClaims": [{"name": "card", "resourceClaimTemplateName": claim_template}],
    }


@contextmanager
def kueue_cluster(nodes: Sequence[str], profile: str, controller: Object | None = None) -> Iterator[KueueCluster]:
    """A cluster with nodes that have the cards of a profile, and with the queue of the samples.

    Args:
        controller: settings of the controller, its own section.
    """
    folder = KUEUE.build()
    with ControlPlane() as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        port = _free_port()
        for name in nodes:
            plane.add_node(name)
            for part in slices(name, profile):
                # Without the owner, which is another node.
                api.create(RESOURCE_SLICES, {**part, "metadata": {"name": part["metadata"]["name"]}})
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.kubectl("apply", "-f", "manifests/kueue/kueue-rbac.yaml")
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        eventually(lambda: is_gated(api), 60)
        plane.kubectl("apply", "--server-side", "-f", "-", input=_manifests(plane, folder, port), timeout=120)
        (plane.folder / SETTINGS).write_text(
            json.dumps({"observeAddress": "", "controller": {"verifyPolicies": False, **(controller or {})}})
        )
        (plane.folder / "kueue.yaml").write_text(json.dumps(_configuration(plane.folder, port)))
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{_NAMESPACE}")
        identity = plane.kubeconfig(f"system:serviceaccount:{_NAMESPACE}:kueue-controller-manager", groups)
        options = [f"--config={plane.folder / 'kueue.yaml'}", f"--kubeconfig={identity}", "--zap-log-level=2"]
        process = start_process([folder / "kueue", *options], plane.folder / "kueue.log", dict(os.environ))
        try:
            _mount_certificate(api, plane.folder / "serving")
            eventually(lambda: plane.kubectl("apply", "-f", SAMPLES / "queues.yaml", check=False).returncode == 0, 120)
            plane.kubectl("apply", "-f", "manifests/kueue/kueue-writes-policy.yaml")
            with running_controller(plane):
                yield KueueCluster(plane, api)
        finally:
            process.kill()  # asked to end, it first waits for its webhooks
            process.wait(30)
            api.close()


def _manifests(plane: ControlPlane, folder: Path, port: int) -> str:
    """Kueue's own manifests, whose webhooks are on this machine."""
    objects = list(yaml.safe_load_all(plane.kubectl("kustomize", folder / "config" / "default").stdout))
    for obj in objects:
        if obj["kind"] == "Service" and obj["metadata"]["name"] == "kueue-webhook-service":
            obj["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        for webhook in obj.get("webhooks") or ():
            webhook["clientConfig"]["service"]["port"] = port
        if obj["kind"] == "CustomResourceDefinition" and "conversion" in obj["spec"]:
            obj["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = port
    # No node runs the Deployment, and nothing serves what an APIService names.
    return yaml.safe_dump_all(obj for obj in objects if obj["kind"] not in ("APIService", "Deployment"))


def _configuration(folder: Path, port: int) -> Object:
    """The configuration of the samples, with what this machine needs."""
    sample: Object = yaml.safe_load((SAMPLES / "configuration.yaml").read_text())
    gates = {**sample["featureGates"], "VisibilityOnDemand": False}
    return {
        **sample,
        "featureGates": gates,
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "webhook": {"port": port, "host": "localhost", "certDir": str(folder / "serving")},
        "integrations": {"frameworks": ["batch/job", "pod"]},
    }


def _mount_certificate(api: Api, folder: Path) -> None:
    """Write the certificate that Kueue has made, as the kubelet mounts the Secret with it."""
    secret = eventually(lambda: _issued(api), 60)
    folder.mkdir()
    for name, value in secret["data"].items():
        (folder / name).write_bytes(base64.b64decode(value))


def _issued(api: Api) -> Object | None:
    secret = api.get(_SECRETS, "kueue-webhook-server-cert", _NAMESPACE)
    return secret if "tls.crt" in secret.get("data", {}) else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
