"""Kubernetes is upgraded in place on a kind cluster whose node image was built here, as kubeadm does it on machines.

The programs are replaced one by one while pods run: those of the control plane are static pods, whose manifests name
another image then, and a kubelet starts again with another binary. Any order of nodes and versions is possible, also
one that Kubernetes does not support, such as a kubelet that is newer than its API server.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from testclusters import cache, nodeimage, programs, progress
from testclusters.commands import CommandFailed, run
from testclusters.kind import KindCluster, NotReady

_PARTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_MANIFESTS: Final = "/etc/kubernetes/manifests"
_BINARY: Final = "/usr/local/bin/kubernetes"
_PATIENCE_SECONDS: Final = 180.0


def upgrade_control_plane(cluster: KindCluster, kubernetes: str) -> None:
    """Replace the programs of the control plane by those of a minor version; returns when all of them run.

    Raises `NotReady` if they do not within three minutes each.
    """
    program, node = programs.kubernetes(kubernetes), cluster.control_plane
    kube = program.build()
    with (
        progress.progress_step(f"upgrading the control plane of {cluster.name} to {program.version}"),
        tempfile.TemporaryDirectory(dir=cache.root(), prefix=".upgrade-") as folder,
    ):
        nodeimage.control_plane_images(Path(folder), kube, program.version)
        cluster.docker.run("docker", "cp", f"{folder}/control-plane.tar", f"{node}:/kind/upgrade.tar", timeout=300)
        cluster.node_exec(node, "ctr", "--namespace=k8s.io", "images", "import", "/kind/upgrade.tar", timeout=300)
        cluster.node_exec(node, "rm", "/kind/upgrade.tar")
        listed = run([kube / "kubeadm", "config", "images", "list", f"--kubernetes-version={program.version}"])
        wanted = {name.rpartition(":")[0].rpartition("/")[2]: name for name in listed.stdout.split()}
        for part in _PARTS:
            _replace_image(cluster, part, wanted[part])


def upgrade_kubelet(cluster: KindCluster, node: str, kubernetes: str) -> None:
    """Replace the kubelet of a node by that of a minor version; its containers go on.

    Raises `NotReady` if it does not report itself within three minutes.
    """
    program = programs.kubernetes(kubernetes)
    kube = program.build()
    with progress.progress_step(f"upgrading the kubelet of {node} to {program.version}"):
        cluster.docker.run("docker", "cp", str(kube / "kubernetes"), f"{node}:{_BINARY}.new", timeout=300)
        cluster.node_exec(node, "mv", "--force", f"{_BINARY}.new", _BINARY)  # a running program keeps the old file
        cluster.node_exec(node, "systemctl", "restart", "kubelet")
        path = "-o=jsonpath={.status.nodeInfo.kubeletVersion}"
        _await(f"{node} has no kubelet {program.version}", cluster, program.version, "get", "node", node, path)
    cluster.wait_ready(node)


def _replace_image(cluster: KindCluster, part: str, image: str) -> None:
    """Change the image in a manifest, whole or not at all, and wait until the kubelet has started it."""
    node, manifest = cluster.control_plane, f"{_MANIFESTS}/{part}.yaml"
    changed = (
        f"sed 's#image: .*/{part}:.*#image: {image}#' {manifest} >/kind/{part}.yaml && mv /kind/{part}.yaml {manifest}"
    )
    cluster.node_exec(node, "sh", "-c", changed)
    pod = ["get", "pod", f"{part}-{node}", "--namespace=kube-system"]
    path = "-o=jsonpath={.spec.containers[0].image} {.status.containerStatuses[0].ready}"
    _await(f"{part} does not run as {image}", cluster, f"{image} true", *pod, path)


def _await(otherwise: str, cluster: KindCluster, wanted: str, *arguments: str) -> None:
    """Wait until kubectl prints that text."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (seen := _printed(cluster, *arguments)) != wanted:
        if time.monotonic() > deadline:
            raise NotReady(f"{otherwise} after {_PATIENCE_SECONDS:.0f} s: {seen}")
        time.sleep(0.5)


def _printed(cluster: KindCluster, *arguments: str) -> str:
    try:
        return cluster.kubectl(*arguments, timeout=10).stdout.strip()
    except (CommandFailed, subprocess.TimeoutExpired) as error:  # etcd or the API server is being replaced
        return str(error)
