"""Making kind clusters and removing them."""

import json
import shlex
import shutil
from collections.abc import Mapping

from testclusters import cache, daemon, nodeimage, programs
from testclusters.commands import CommandFailed
from testclusters.daemon import Docker
from testclusters.kind import NAME, WORKERS, KindCluster, NoCluster, NotReady, folder, kind_program

_END = "python -m testclusters kind down"
_LOCK = "clusters"
"""Held while a cluster of any name is made or removed: they share a daemon, which ends with the last of them."""


class KeptCluster(Exception):
    """A cluster that somebody wants to keep is in the way; the message says how to remove it."""


def up(name: str = NAME, kubernetes: str = programs.KUBERNETES[0], *, keep: bool = False) -> KindCluster:
    """The cluster `name` with all nodes ready, created unless it runs with that version and the present node image.

    `keep` asks that it stays until somebody wants it gone: then `down(..., unless_kept=True)` leaves it alone, and so
    does `up` without `keep`, which takes it as it is, or raises `KeptCluster` if its version is another.
    What an earlier run left half made is removed first. Raises `programs.ProgramMissing`, `NotReady`, or
    `commands.CommandFailed` with what kind said.
    """
    with cache.locked(_LOCK):
        kept = None if keep else _kept(name)
        if kept:
            if kept.kubernetes != kubernetes:
                raise KeptCluster(
                    f"a cluster {name} of {kept.kubernetes} is kept; remove it first: {_END} --name {name}"
                )
            return kept
        docker = daemon.provide()
        image = nodeimage.provide(docker, kubernetes)
        cluster = KindCluster(name, kubernetes, docker)
        state = {"kubernetes": kubernetes, "image": image}
        record = cluster.folder / "cluster.json"
        if not (record.exists() and json.loads(record.read_text()) == state and cluster.answers()):
            _create(cluster, image)
            record.write_text(json.dumps(state))
        if keep:
            (cluster.folder / "keep").touch()
    return cluster


def _kept(name: str) -> KindCluster | None:
    try:
        cluster = KindCluster.attach(name)
    except NoCluster:
        return None
    return cluster if (cluster.folder / "keep").exists() else None


def _create(cluster: KindCluster, image: str) -> None:
    _delete(cluster.name, cluster.docker)
    (cluster.folder / "bin").mkdir(parents=True)
    own = image.startswith(nodeimage.OWN)
    _write_programs(cluster, own)
    configuration = cluster.folder / "config.json"
    configuration.write_text(json.dumps(_configuration(own), indent=1))
    try:
        with cache.step(f"creating the kind cluster {cluster.name} (Kubernetes {cluster.kubernetes})"):
            how = ("--config", configuration, "--image", image, "--kubeconfig", cluster.kubeconfig, "--retain")
            cluster.kind("create", "cluster", *how)
            cluster.wait_ready()
    except BaseException as error:
        if isinstance(error, CommandFailed | NotReady):
            _save_logs(cluster)
        _delete(cluster.name, cluster.docker)
        raise


def _save_logs(cluster: KindCluster) -> None:
    logs = cache.root() / "kind-logs" / cluster.name
    shutil.rmtree(logs, ignore_errors=True)
    cluster.kind("export", "logs", logs, check=False)  # it complains about what our images do without
    cache.say(f"    it failed; what its nodes logged: {logs}")


def _write_programs(cluster: KindCluster, own: bool) -> None:
    """kubectl and docker, bound to this cluster: plain commands that need nothing in their environment."""
    kubectl = str(programs.kubernetes(cluster.kubernetes).build() / "kubectl") if own else shutil.which("kubectl")
    if not kubectl:
        raise programs.ProgramMissing("kubectl is needed on PATH")
    docker = shutil.which("docker", path=cluster.docker.environment.get("PATH"))
    bound = ("DOCKER_HOST", "LD_LIBRARY_PATH") if cluster.docker.private else ()
    of_docker = {name: cluster.docker.environment[name] for name in bound}
    # Discovery is cached by address, and another cluster may have had this one's.
    of_kubectl = {"KUBECONFIG": str(cluster.kubeconfig), "KUBECACHEDIR": str(cluster.folder / "kubectl")}
    for name, program, environment in (("kubectl", kubectl, of_kubectl), ("docker", str(docker), of_docker)):
        exports = [f"export {shlex.quote(f'{key}={value}')}" for key, value in environment.items()]
        command = shlex.join(cluster.network_command(program))
        path = cluster.folder / "bin" / name
        path.write_text("\n".join(["#!/bin/sh", *exports, f'exec {command} "$@"', ""]))
        path.chmod(0o755)


def _configuration(own: bool) -> Mapping[str, object]:
    """kind's own configuration; an image of ours brings its pod network along."""

    def arguments(**flags: str) -> Mapping[str, object]:
        return {"extraArgs": [{"name": name.replace("_", "-"), "value": value} for name, value in flags.items()]}

    patches: list[Mapping[str, object]] = [
        {
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "syncFrequency": "5s",
            # A program that tests kill again and again would otherwise be left down for minutes.
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
        "networking": {"disableDefaultCNI": own},
        "nodes": [{"role": "control-plane"}, *({"role": "worker", "labels": dict(labels)} for labels in WORKERS)],
        "kubeadmConfigPatches": [json.dumps(patch) for patch in patches],
    }


def down(name: str = NAME, *, unless_kept: bool = False) -> None:
    """Remove the cluster `name`, in whatever state it is, and then the private daemon if no cluster is left in it."""
    with cache.locked(_LOCK):
        if unless_kept and (folder(name) / "keep").exists():
            cache.say(f"the kind cluster {name} is kept; end it with: {_END} --name {name}")
            return
        docker = daemon.revive()
        if docker:
            with cache.step(f"removing the kind cluster {name}"):
                _delete(name, docker)
        shutil.rmtree(folder(name), ignore_errors=True)
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
            folder(name) / "kubeconfig",
            timeout=120,
        )
    shutil.rmtree(folder(name), ignore_errors=True)


def _clusters(docker: Docker) -> list[str]:
    return docker.run(kind_program(), "get", "clusters").stdout.split()
