"""A kind cluster for end-to-end tests: a control plane and three workers, each a container with a real kubelet.

`python -m testclusters kind up` (or `lifecycle.up`) makes it; tests attach to the one that is there:

    cluster = KindCluster.attach()
    cluster.load_image("lode-dra:dev")
    cluster.kubectl("apply", "-k", "manifests/kind")
    cluster.kill("lode-worker", "kubelet")
    cluster.restart_node("lode-worker2")

`attach` takes the cluster `$LODE_CLUSTER`, or `lode`. The API server may be reachable only inside a network namespace,
so tests go through `kubectl`, or run their programs as `network_command` says. The workers carry labels that say what
hardware they simulate (`WORKERS`); tests may change them. DNS inside the cluster is left out. A kubelet looks at each
pod every five seconds, so that a failed prepare is retried soon.
"""

import datetime
import json
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from testclusters import cache, daemon, images, oci, programs
from testclusters.commands import CommandFailed
from testclusters.daemon import Docker

NAME = "lode"
"""The cluster's name unless somebody says otherwise."""

PROFILE = "lode.dev/simulated-profile"
FABRIC = "lode.dev/ib-cluster"

WORKERS: tuple[Mapping[str, str], ...] = (
    {PROFILE: "h100x8", FABRIC: "ib-a"},
    {PROFILE: "a100x4", FABRIC: "ib-a"},
    {PROFILE: "ascend310px4", FABRIC: "ib-b"},
)
"""The labels of the workers: of `<name>-worker`, `<name>-worker2` and `<name>-worker3`."""


class NoCluster(Exception):
    """There is no running cluster of that name; the message says how to make one."""


class NotReady(Exception):
    """Something did not come up in time; the message says what was seen last."""


@dataclass(frozen=True)
class KindCluster:
    """A cluster that is up. All methods raise `CommandFailed` when a program they run fails."""

    name: str
    kubernetes: str
    """Its minor version, one of `programs.KUBERNETES`."""
    docker: Docker

    @classmethod
    def attach(cls, name: str | None = None) -> Self:
        """The running cluster `name` (else `$LODE_CLUSTER`, else `NAME`). Raises `NoCluster` if it does not answer."""
        name = name or os.environ.get("LODE_CLUSTER", NAME)
        docker = daemon.find()
        try:
            state = json.loads((folder(name) / "cluster.json").read_text())
        except FileNotFoundError:
            state = None
        if docker and state:
            cluster = cls(name, state["kubernetes"], docker)
            if cluster.answers():
                return cluster
        raise NoCluster(
            f"no kind cluster {name!r} answers; make one with: python -m testclusters kind up --name {name}"
        )

    @property
    def folder(self) -> Path:
        """Where the cluster's files are: its kubeconfig, and `bin` with programs that are bound to it."""
        return folder(self.name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; valid where `network_command` runs things."""
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
        """What a program needs in its environment to use the cluster: its PATH has kubectl and docker, bound to it."""
        bound = {
            "KUBECONFIG": str(self.kubeconfig),
            "LODE_CLUSTER": self.name,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        host = self.docker.environment.get("DOCKER_HOST")
        return bound | ({"DOCKER_HOST": host} if host else {})

    def network_command(self, *argv: str | Path) -> list[str]:
        """The command line that runs `argv` on this machine where the API server and published ports are reached."""
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
        """Send a signal to all processes called `process` (kubelet, containerd, kube-apiserver, ...) in a node.

        What the node's supervisors start again comes back by itself. Raises `CommandFailed` if there is none.
        """
        # The kernel keeps fifteen characters of a process's name.
        self.node_exec(node, "pkill", f"-{signal}", "-x", process[:15])

    def stop_node(self, node: str) -> None:
        """Cut a node's power: all its processes end at once, and /run and /tmp are lost."""
        self.docker.run("docker", "kill", node)

    def start_node(self, node: str, timeout: float = 120.0) -> None:
        """Start a stopped node; returns when its kubelet reports it ready, else raises `NotReady` after `timeout` s."""
        # A kubelet that starts reports at once; what was reported in this very second may be from before.
        began = math.floor(time.time()) + 1
        self.docker.run("docker", "start", node)
        self.wait_ready(node, since=began, timeout=timeout)

    def restart_node(self, node: str, timeout: float = 120.0) -> None:
        """Cut a node's power and give it back; returns as `start_node` does. The node may have got another address.

        All containers of a machine share its kernel, so /proc/sys/kernel/random/boot_id stays what it was.
        """
        self.stop_node(node)
        self.start_node(node, timeout)

    def wait_ready(self, *nodes: str, since: float = 0.0, timeout: float = 120.0) -> None:
        """Wait until `nodes` (none given: all) are reported ready, not before `since` (seconds of the epoch)."""
        deadline = time.monotonic() + timeout
        while waiting := self._not_ready(nodes or self.nodes, since):
            if time.monotonic() > deadline:
                raise NotReady(f"after {timeout:.0f} s: {waiting}")
            time.sleep(0.5)

    def load_image(self, reference: str) -> None:
        """Put an image on all nodes: one of `testclusters.images`, made if need be, or one that Docker has.

        Does nothing for an image of `testclusters.images` whose present content the nodes already have.
        """
        in_docker = not self.docker.private and reference == images.LODE and images.build(self.docker)
        if reference in images.NAMES.values() and not in_docker:
            self._load_archive(reference, images.archive(reference))
            return
        with cache.step(f"loading {reference}"):
            self.kind("load", "docker-image", reference)

    def _load_archive(self, reference: str, archive: Path) -> None:
        """Import an archive; of its blobs only those that the nodes have not got from an earlier one are sent."""
        record = self.folder / "loaded.json"
        loaded: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        if loaded.get(reference) == str(archive):
            return
        present = {blob for other in loaded.values() if Path(other).exists() for blob in oci.blobs(Path(other))}
        with cache.step(f"loading {reference}"), tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tar") as thin:
            oci.write_thin(archive, present, Path(thin.name))
            try:
                self.kind("load", "image-archive", thin.name)
            except CommandFailed:  # somebody removed an image
                self.kind("load", "image-archive", archive)
        record.write_text(json.dumps({**loaded, reference: str(archive)}))

    def kind(self, *arguments: str | Path, check: bool = True) -> None:
        """Run kind about this cluster."""
        self.docker.run(kind_program(), *arguments, "--name", self.name, check=check, timeout=600)

    def answers(self) -> bool:
        """Whether the API server is ready for requests."""
        try:
            return self.kubectl("get", "--raw", "/readyz", check=False, timeout=15).returncode == 0
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return False

    def _not_ready(self, nodes: tuple[str, ...], since: float) -> str:
        """What is missing until all `nodes` are ready; nothing if they are."""
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
    """The kind command: built, or the machine's own where there is no Go."""
    own = shutil.which("kind")
    return Path(own) if own and not shutil.which("go") else programs.KIND.build() / "kind"


def folder(name: str) -> Path:
    """Where the files of the cluster `name` are kept."""
    return cache.root() / "kind" / name
