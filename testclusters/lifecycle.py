"""Creating and removing kind clusters."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from testclusters import cache, daemon, nodeimage, programs, progress
from testclusters.commands import CommandFailed
from testclusters.daemon import Docker
from testclusters.gomodules import ProgramMissing
from testclusters.kind import DEFAULT_NAME, WORKERS, KindCluster, NoCluster, NotReady, cluster_folder, kind_program
from testclusters.programs import NEWEST

_DOWN_COMMAND = "python -m testclusters kind down"
_POD_GROUP_GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
_LOCK = "clusters"
"""Held while any cluster is created or removed: clusters share a daemon, which ends with the last of them."""


_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_INSTANCES_OF_A_CLUSTER = 128
"""What Linux allows a user by default, and what a cluster needs: each kubelet, containerd and systemd has some."""


class NoRoom(Exception):
    """The machine's limits leave no room for so many clusters; the message says how to raise them."""


class KeptCluster(Exception):
    """A kept cluster has the requested name but another version; the message says how to remove it."""


def up(
    name: str = DEFAULT_NAME,
    kubernetes: str = NEWEST,
    *,
    keep: bool = False,
    pod_groups: bool = False,
) -> KindCluster:
    """The cluster `name` with all nodes ready; created unless it runs with that version and the current node image.

    With `pod_groups`, its API serves the PodGroups of Kubernetes, which are off by default.

    With `keep`, the cluster is marked as kept: `down(..., unless_kept=True)` does not remove it, and `up` without
    `keep` returns it as it is, or raises `KeptCluster` if its version differs. A half-created cluster of an earlier
    run is removed first. Raises `ProgramMissing`, `NotReady`, or `CommandFailed` with the output of kind.
    """
    with cache.locked(_LOCK):
        kept = None if keep else _kept(name)
        if kept:
            if kept.kubernetes != kubernetes:
                raise KeptCluster(
                    f"a kept cluster {name} runs Kubernetes {kept.kubernetes}; "
                    f"remove it first: {_DOWN_COMMAND} --name {name}"
                )
            return kept
        docker = daemon.provide()
        image = nodeimage.provide(docker, kubernetes)
        cluster = KindCluster(name, kubernetes, docker)
        state = {"kubernetes": kubernetes, "image": image, **({"podGroups": True} if pod_groups else {})}
        record = cluster.folder / "cluster.json"
        if not (record.exists() and json.loads(record.read_text()) == state and cluster.answers()):
            _create(cluster, image, pod_groups=pod_groups)
            record.write_text(json.dumps(state))
        if keep:
            (cluster.folder / "keep").touch()
    return cluster


def check_room(clusters: int, limit: Path = _INSTANCES) -> None:
    """Raise `NoRoom` if the kubelets of so many clusters could not watch their files."""
    needed, allowed = clusters * _INSTANCES_OF_A_CLUSTER, int(limit.read_text())
    if allowed < needed:
        raise NoRoom(f"{clusters} clusters need {needed} inotify instances; allow them: echo {needed} > {limit}")


def _kept(name: str) -> KindCluster | None:
    try:
        cluster = KindCluster.attach(name)
    except NoCluster:
        return None
    return cluster if (cluster.folder / "keep").exists() else None


def _create(cluster: KindCluster, image: str, *, pod_groups: bool) -> None:
    _delete(cluster.name, cluster.docker)
    (cluster.folder / "bin").mkdir(parents=True)
    built_here = image.startswith(nodeimage.BUILT_IMAGE)
    write_programs(cluster, built_here)
    configuration = cluster.folder / "config.json"
    configuration.write_text(json.dumps(kind_configuration(built_here, pod_groups=pod_groups), indent=1))
    try:
        with progress.progress_step(f"creating the kind cluster {cluster.name} (Kubernetes {cluster.kubernetes})"):
            flags = ("--config", configuration, "--image", image, "--kubeconfig", cluster.kubeconfig, "--retain")
            cluster.kind("create", "cluster", *flags)
            cluster.wait_ready()
    except BaseException as error:
        if isinstance(error, CommandFailed | NotReady):
            _save_logs(cluster)
        _delete(cluster.name, cluster.docker)
        raise


def _save_logs(cluster: KindCluster) -> None:
    logs = cache.root() / "kind-logs" / cluster.name
    shutil.rmtree(logs, ignore_errors=True)
    cluster.kind("export", "logs", logs, check=False)  # kind reports errors for files that our images do not have
    progress.print_status(f"    creating the cluster failed; logs of its nodes: {logs}")


def write_programs(cluster: KindCluster, built_here: bool) -> None:
    """Write the commands kubectl, docker and lode of this cluster, which need no environment variables."""
    kubectl = (
        str(programs.kubernetes(cluster.kubernetes).build() / "kubectl") if built_here else shutil.which("kubectl")
    )
    if not kubectl:
        raise ProgramMissing("kubectl is not on PATH; install kubectl")
    docker = shutil.which("docker", path=cluster.docker.environment.get("PATH"))
    variables = ("DOCKER_HOST", "LD_LIBRARY_PATH") if cluster.docker.private else ()
    docker_environment = {name: cluster.docker.environment[name] for name in variables}
    # kubectl caches discovery by address, and an earlier cluster may have had the same address.
    kubectl_environment = {"KUBECONFIG": str(cluster.kubeconfig), "KUBECACHEDIR": str(cluster.folder / "kubectl")}
    for name, program, environment in (
        ("kubectl", kubectl, kubectl_environment),
        ("docker", str(docker), docker_environment),
        ("lode", str(Path(sys.prefix, "bin/lode")), {"KUBECONFIG": str(cluster.kubeconfig)}),
    ):
        exports = [f"export {shlex.quote(f'{key}={value}')}" for key, value in environment.items()]
        command = shlex.join(cluster.network_command(program))
        path = cluster.folder / "bin" / name
        path.write_text("\n".join(["#!/bin/sh", *exports, f'exec {command} "$@"', ""]))
        path.chmod(0o755)


def kind_configuration(built_here: bool, *, pod_groups: bool = False) -> Mapping[str, object]:
    """The configuration of kind; node images built here contain their pod network."""

    def arguments(**flags: str) -> Mapping[str, object]:
        return {"extraArgs": [{"name": name.replace("_", "-"), "value": value} for name, value in flags.items()]}

    patches: list[Mapping[str, object]] = [
        {
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "syncFrequency": "5s",
            # Otherwise the kubelet would wait minutes before it restarts a program that tests kill repeatedly.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        },
        {"kind": "InitConfiguration", "skipPhases": ["preflight", "addon/coredns"]},
        {
            "kind": "ClusterConfiguration",
            "etcd": {"local": arguments(unsafe_no_fsync="true")},
            "controllerManager": arguments(leader_elect="false", kube_api_qps="200", kube_api_burst="400"),
            "scheduler": arguments(leader_elect="false"),
        },
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": built_here},
        "featureGates": dict.fromkeys(_POD_GROUP_GATES if pod_groups else (), True),
        # The versions that serve PodGroups differ between minor versions.
        "runtimeConfig": dict.fromkeys(("api/alpha", "api/beta") if pod_groups else (), "true"),
        "nodes": [{"role": "control-plane"}, *({"role": "worker", "labels": dict(labels)} for labels in WORKERS)],
        "kubeadmConfigPatches": [json.dumps(patch) for patch in patches],
    }


def down(name: str = DEFAULT_NAME, *, unless_kept: bool = False) -> None:
    """Remove the cluster `name` in any state, and then stop the private daemon if it has no other cluster.

    With `unless_kept`, a kept cluster is not removed.
    """
    with cache.locked(_LOCK):
        if unless_kept and (cluster_folder(name) / "keep").exists():
            progress.print_status(f"the kind cluster {name} is kept; remove it with: {_DOWN_COMMAND} --name {name}")
            return
        docker = daemon.find_or_restart()
        if docker:
            with progress.progress_step(f"removing the kind cluster {name}"):
                _delete(name, docker)
        shutil.rmtree(cluster_folder(name), ignore_errors=True)
        if docker is None or (docker.private and not _clusters(docker)):
            daemon.stop()


def _delete(name: str, docker: Docker) -> None:
    if name in _clusters(docker):
        docker.run(
            kind_program(),
            "delete",
            "cluster",
            "--name",
            name,
            "--kubeconfig",
            cluster_folder(name) / "kubeconfig",
            timeout=120,
        )
    shutil.rmtree(cluster_folder(name), ignore_errors=True)


def _clusters(docker: Docker) -> list[str]:
    return docker.run(kind_program(), "get", "clusters").stdout.split()
