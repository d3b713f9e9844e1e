"""JobSet with its webhooks and its own rights, beside the real controller, in a namespace that adopts pods."""

import base64
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import JOB_SETS, PODS, Api, Object
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from testclusters.pki import Authority
from testclusters.programs import JOBSET
from tests.contract.adopted import adopt, adopting_namespace, no_pods
from tests.contract.conftest import eventually
from tests.contract.running import installed, running_controller

NAMESPACE: Final = "old"
"""Adopts pods of NVIDIA's device plugin."""
_SYSTEM: Final = "jobset-system"


class JobSetCluster:
    """A control plane with two nodes of four cards, our controller, and JobSet; no kubelets."""

    def __init__(self, api: Api):
        self.api = api

    # Users

    def add(self, name: str, **parts: Object) -> Object:
        """A JobSet with the replicated jobs; returns what is stored."""
        jobs = [{"name": part, **spec} for part, spec in parts.items()]
        metadata = {"name": name, "namespace": NAMESPACE}
        return self.api.create(JOB_SETS, {"metadata": metadata, "spec": {"replicatedJobs": jobs}})

    def add_pod(self, name: str, cards: int) -> None:
        """A pod that asks for cards, for itself."""
        self.api.create(PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": _asking(cards)})

    def remove(self, job_set: str) -> None:
        """Delete a JobSet, and wait until all pods are gone, which end at once, because nothing runs them."""
        self.api.delete(JOB_SETS, job_set, NAMESPACE)
        eventually(lambda: no_pods(self.api, NAMESPACE), 60)

    def remove_pod(self, name: str) -> None:
        self.api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)

    # Kubelets

    def make_ready(self, pod: str) -> None:
        """A pod runs and is ready."""
        condition = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [condition]}
        self.api.patch(PODS, pod, {"status": status}, namespace=NAMESPACE, subresource="status")

    # What is seen

    def job_set(self, name: str) -> Object:
        return self.api.get(JOB_SETS, name, NAMESPACE)

    def pods(self, part: str = "") -> list[Object]:
        """The pods of a replicated job; by default, all pods."""
        label = "jobset.sigs.k8s.io/replicatedjob-name"
        pods = self.api.list(PODS, namespace=NAMESPACE).items
        return [pod for pod in pods if not part or pod["metadata"].get("labels", {}).get(label) == part]


def jobs(count: int, cards: int, *, gang: bool = False, **fields: Any) -> Object:
    """A replicated job: as many Jobs, each with one pod that asks for cards."""
    labels = {"lode.dev/gang": ""} if gang else {}
    template = {"metadata": {"labels": labels}, "spec": {**_asking(cards), "restartPolicy": "Never"}}
    return {"replicas": count, "template": {"spec": {"template": template}}, **fields}


def _asking(cards: int) -> Object:
    amounts = {"nvidia.com/gpu": cards}
    resources = {"limits": amounts, "requests": {"cpu": "1", **amounts}}
    return {"containers": [{"name": "main", "image": "none", "resources": resources}]}


@contextmanager
def jobset_cluster() -> Iterator[JobSetCluster]:
    """A cluster whose namespace adopts pods."""
    folder = JOBSET.build()
    with installed({"n1": {}, "n2": {}}, {}, {"vendor": "nvidia"}) as (plane, api):
        port, certificates = _free_port(), plane.folder / "jobset"
        authority = _issue_certificate(certificates)
        plane.kubectl("apply", "--server-side", "-f", "-", input=_manifests(plane, folder, port, authority))
        (plane.folder / "jobset.yaml").write_text(json.dumps(_configuration(certificates, port)))
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{_SYSTEM}")
        identity = plane.kubeconfig(f"system:serviceaccount:{_SYSTEM}:jobset-controller-manager", groups)
        options = [f"--config={plane.folder / 'jobset.yaml'}", f"--kubeconfig={identity}"]
        process = start_process([folder / "jobset", *options], plane.folder / "jobset.log", dict(os.environ))
        try:
            with running_controller(plane):
                eventually(lambda: _is_served(plane), 120)
                adopt(plane, api, "nvidia")
                with adopting_namespace(api, NAMESPACE, "nvidia", [JOB_SETS]):
                    yield JobSetCluster(api)
        finally:
            process.kill()
            process.wait(30)


def _issue_certificate(folder: Path) -> str:
    """Write the certificate of the webhooks; returns that of its authority, as a webhook has it."""
    folder.mkdir()
    authority = Authority(folder)
    authority.issue("tls", "jobset", addresses=["localhost"])
    return base64.b64encode(authority.certificate.read_bytes()).decode()


def _manifests(plane: ControlPlane, folder: Path, port: int, authority: str) -> str:
    """JobSet's own manifests, whose webhooks are on this machine."""
    objects = list(yaml.safe_load_all(plane.kubectl("kustomize", folder / "config" / "default").stdout))
    for obj in objects:
        for webhook in obj.get("webhooks") or ():
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://localhost:{port}{path}", "caBundle": authority}
    # No node runs the Deployment.
    return yaml.safe_dump_all(obj for obj in objects if obj["kind"] != "Deployment")


def _configuration(certificates: Path, port: int) -> Object:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": port, "host": "localhost", "certDir": str(certificates)},
    }


def _is_served(plane: ControlPlane) -> bool:
    spec = {"replicatedJobs": [{"name": "p", **jobs(1, 1)}]}
    probe = {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": {"name": "probe"}, "spec": spec}
    return plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(probe), check=False).returncode == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
