"""A kind cluster for end-to-end tests: a control plane and three workers, each a container with a real kubelet.

`python -m testclusters kind up` creates the cluster; tests attach to the cluster that runs:

    cluster = KindCluster.attach()
    cluster.load_image("lode-dra:dev")
    cluster.kubectl("apply", "-k", "manifests/kind")
    cluster.kill("lode-worker", "kubelet")
    cluster.restart_node("lode-worker2")

`attach` uses the cluster `$LODE_CLUSTER`, by default `lode`. The API server may be reachable only inside a network
namespace, so tests use `kubectl`, or run their programs with `network_command`. Labels of the workers select the
hardware that they simulate (`WORKERS`); tests may change them. The cluster has no DNS. A kubelet syncs each pod every
five seconds, so that a failed prepare is retried soon.
"""

import datetime
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from testclusters import cache, daemon, images, oci, programs, progress
from testclusters.commands import CommandFailed
from testclusters.daemon import Docker

DEFAULT_NAME = "lode"
"""The name of the cluster where none is given."""

PROFILE_LABEL = "lode.dev/simulated-profile"
FABRIC_LABEL = "lode.dev/ib-cluster"

WORKERS: tuple[Mapping[str, str], ...] = (
    {PROFILE_LABEL: "h100x8", FABRIC_LABEL: "ib-a"},
    {PROFILE_LABEL: "a100x4", FABRIC_LABEL: "ib-a"},
    {PROFILE_LABEL: "ascend310px4", FABRIC_LABEL: "ib-b"},
)
"""The labels of the workers `<name>-worker`, `<name>-worker2` and `<name>-worker3`."""


class NoCluster(Exception):
    """There is no running cluster of that name; the message says how to create one."""


class NotReady(Exception):
    """A node did not become ready in time; the message says what was seen last."""


@dataclass(frozen=True)
class KindCluster:
    """A cluster that is up. All methods raise `CommandFailed` when a program they run fails."""

    name: str
    kubernetes: str
    """Its minor version, one of `KUBERNETES_VERSIONS`."""
    docker: Docker

    @classmethod
    def attach(cls, name: str | None = None) -> Self:
        """The running cluster `name`, by default `$LODE_CLUSTER`, else `DEFAULT_NAME`.

        Raises `NoCluster` if its API server does not answer.
        """
        name = name or os.environ.get("LODE_CLUSTER", DEFAULT_NAME)
        docker = daemon.find()
        try:
            state = json.loads((cluster_folder(name) / "cluster.json").read_text())
        except FileNotFoundError:
            state = None
        if docker and state:
            cluster = cls(name, state["kubernetes"], docker)
            if cluster.answers():
                return cluster
        raise NoCluster(
            f"no kind cluster {name!r} answers; create one with: python -m testclusters kind up --name {name}"
        )

    @property
    def folder(self) -> Path:
        """The folder with the cluster's files: its kubeconfig, and `bin` with programs that use this cluster."""
        return cluster_folder(self.name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it is valid in the network that `network_command` enters."""
        return self.folder / "kubeconfig"

    @property
    def control_plane(self) -> str:
        """The name of the node that runs the control plane."""
        return f"{self.name}-control-plane"

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers, in the order of `WORKERS`."""
        return tuple(f"{self.name}-worker{number or ''}" for number in (0, 2, 3))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""
        return (self.control_plane, *self.workers)

    def environment(self) -> dict[str, str]:
        """The environment variables of a program that uses the cluster; PATH has the cluster's kubectl, docker and
        lode, and the commands beside this Python: `kubectl lode` is one of them."""
        variables = {
            "KUBECONFIG": str(self.kubeconfig),
            "LODE_CLUSTER": self.name,
            "PATH": f"{self.folder / 'bin'}:{Path(sys.prefix, 'bin')}:{os.environ['PATH']}",
        }
        host = self.docker.environment.get("DOCKER_HOST")
        return variables | ({"DOCKER_HOST": host} if host else {})

    def network_command(self, *argv: str | Path) -> list[str]:
        """The command line that runs `argv` on this machine in the network of the API server and published ports."""
        return self.docker.command(*argv)

    def kubectl(
        self, *arguments: str | Path, input: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; `timeout` in seconds."""
        return self.docker.run(self.folder / "bin/kubectl", *arguments, input=input, check=check, timeout=timeout)

    def node_exec(
        self, node: str, *argv: str, input: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as root inside a node."""
        interactive = [] if input is None else ["--interactive"]
        command = ["docker", "exec", *interactive, node, *argv]
        return self.docker.run(*command, input=input, check=check, timeout=timeout)

    def kill(self, node: str, process: str, signal: str = "KILL") -> None:
        """Send a signal to all processes named `process` (kubelet, containerd, kube-apiserver, ...) in a node.

        The node's supervisors restart the processes that they supervise. Raises `CommandFailed` if there is no such
        process.
        """
        # The kernel keeps fifteen characters of a process's name.
        self.node_exec(node, "pkill", f"-{signal}", "-x", process[:15])

    def stop_node(self, node: str) -> None:
        """Power a node off: all its processes end at once, and /run and /tmp are lost."""
        self.docker.run("docker", "kill", node)

    def start_node(self, node: str, timeout: float = 120.0) -> None:
        """Start a stopped node and wait until its kubelet reports it ready; raises `NotReady` after `timeout` s."""
        # A kubelet reports at once when it starts; a report of the current second may be from before the start.
        began = math.floor(time.time()) + 1
        self.docker.run("docker", "start", node)
        self.wait_ready(node, since=began, timeout=timeout)

    def restart_node(self, node: str, timeout: float = 120.0) -> None:
        """Power a node off and on, and wait as `start_node` does. The node's address may change.

        All containers of a machine share its kernel, so /proc/sys/kernel/random/boot_id does not change.
        """
        self.stop_node(node)
        self.start_node(node, timeout)

    def wait_ready(self, *nodes: str, since: float = 0.0, timeout: float = 120.0) -> None:
        """Wait until `nodes`, by default all, are reported ready; reports before `since` (epoch seconds) do not count.

        Raises `NotReady` after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while waiting := self._not_ready(nodes or self.nodes, since):
            if time.monotonic() > deadline:
                raise NotReady(f"nodes not ready after {timeout:.0f} s: {waiting}")
            time.sleep(0.5)

    def load_image(self, reference: str) -> None:
        """Load an image onto all nodes: one of `testclusters.images`, built if necessary, or one that Docker has.

        An image of `testclusters.images` is not loaded again while its content is unchanged.
        """
        in_docker = not self.docker.private and reference == images.LODE and images.build_from_dockerfile(self.docker)
        if reference in images.REFERENCES.values() and not in_docker:
            self.load_archive(reference, images.archive(reference))
            return
        with progress.progress_step(f"loading {reference}"):
            self.kind("load", "docker-image", reference)

    def load_archive(self, reference: str, archive: Path) -> None:
        """Load the image of an archive onto all nodes; what they have from an earlier archive is not sent again."""
        record = self.folder / "loaded.json"
        loaded: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        if loaded.get(reference) == str(archive):
            return
        present = {blob for other in loaded.values() if Path(other).exists() for blob in oci.blob_names(Path(other))}
        with (
            progress.progress_step(f"loading {reference}"),
            tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tar") as thin,
        ):
            oci.write_archive_without(archive, present, Path(thin.name))
            try:
                self.kind("load", "image-archive", thin.name)
            except CommandFailed:  # an image was removed from a node
                self.kind("load", "image-archive", archive)
        record.write_text(json.dumps({**loaded, reference: str(archive)}))

    def kind(self, *arguments: str | Path, check: bool = True) -> None:
        """Run kind with arguments and this cluster's name."""
        self.docker.run(kind_program(), *arguments, "--name", self.name, check=check, timeout=600)

    def answers(self) -> bool:
        """Whether the API server answers and is ready."""
        try:
            return self.kubectl("get", "--raw", "/readyz", check=False, timeout=15).returncode == 0
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return False

    def _not_ready(self, nodes: tuple[str, ...], since: float) -> str:
        """Which of `nodes` are not ready, as text; empty if all are ready."""
        listed = self.kubectl("get", "nodes", "--output=json", check=False)
        if listed.returncode:
            return listed.stderr.strip()
        ready = set()
        for node in json.loads(listed.stdout)["items"]:
            for condition in node["status"].get("conditions", ()):
                seen = datetime.datetime.fromisoformat(condition["lastHeartbeatTime"]).timestamp()
                if condition["type"] == "Ready" and condition["status"] == "True" and seen >= since:
                    ready.add(node["metadata"]["name"])
        return ", ".join(f"{node} is not ready" for node in nodes if node not in ready)


def kind_program() -> Path:
    """The kind command: built with Go, or the machine's if Go is not installed."""
    installed = shutil.which("kind")
    return Path(installed) if installed and not shutil.which("go") else programs.KIND.build() / "kind"


def cluster_folder(name: str) -> Path:
    """The folder with the files of the cluster `name`."""
    return cache.root() / "kind" / name
