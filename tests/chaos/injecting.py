"""Does faults to a cluster. What a fault needs may be missing at that moment; then it is said why it was not done."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from testclusters import programs
from testclusters.commands import CommandFailed
from testclusters.images import PREVIOUS
from tests.chaos.fixtures import CURRENT, DEVICE_PLUGIN, OTHER_DRIVERS, Fixtures
from tests.chaos.schedule import Fault, Kind
from tests.chaos.world import FILLER
from tests.e2e.client import Client, eventually
from tests.e2e.controller import LABEL as CONTROLLERS
from tests.e2e.controller import SYSTEM
from tests.e2e.flavors import wait_until_installed
from tests.e2e.nodes import PLUGIN, PLUGIN_NAMESPACE

LEASE_SECONDS: Final = 10
"""Of the controllers: so long the API servers stay stopped before etcd is restored."""
_PLUGINS: Final = "app.kubernetes.io/component=kubeletplugin"
_SNAPSHOTS: Final = "/var/lib/chaos"
_KEPT: Final = 8
"""Snapshots that are kept."""
_TAKE: Final = f"""
set -e
process=$(pgrep -x etcd)
mkdir -p {_SNAPSHOTS}/new
trap 'kill -CONT $process' EXIT
kill -STOP $process
rm -rf {_SNAPSHOTS}/new/member
cp -a --sparse=always /var/lib/etcd/member {_SNAPSHOTS}/new/
kill -CONT $process
mv {_SNAPSHOTS}/new {_SNAPSHOTS}/$1
ls -d {_SNAPSHOTS}/[0-9]* | sort -n -t/ -k5 | head -n -{_KEPT} | xargs -r rm -rf
"""
"""A copy of etcd's disk as it is at one moment, which is what a snapshot of a machine's disk has."""
_RESTORE: Final = f"""
set -e
mkdir -p /kind/held
mv /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/manifests/etcd.yaml /kind/held/
quiet=0
for _ in $(seq 90); do
  if pgrep -x kube-apiserver >/dev/null || pgrep -x etcd >/dev/null; then quiet=0; else quiet=$((quiet + 1)); fi
  [ $quiet -lt 4 ] || break
  pkill -KILL -x kube-apiserver || true
  pkill -KILL -x etcd || true
  sleep 1
done
sleep {LEASE_SECONDS}
rm -rf /var/lib/etcd/member
$2 "$1/member" /var/lib/etcd/member
mv /kind/held/etcd.yaml /kind/held/kube-apiserver.yaml /etc/kubernetes/manifests/
"""
RAISED_BY: Final = 1_000_000_000
"""What Kubernetes' pages advise: more than etcd counts in a week with 1,000 writes a second."""
_AS_IT_IS: Final = "cp -a"
_RAISE: Final = "/kind/raise-revision"
_RAISE_SCRIPT: Final = f"""#!/bin/sh
set -e
said() {{ sed -n "s/^ *- --$1=//p" /kind/held/etcd.yaml; }}
rm -rf /var/lib/etcd/raised
/kind/etcdutl snapshot restore "$1/snap/db" --skip-hash-check --data-dir /var/lib/etcd/raised \
  --name "$(said name)" --initial-cluster "$(said initial-cluster)" \
  --initial-advertise-peer-urls "$(said initial-advertise-peer-urls)" \
  --bump-revision {RAISED_BY} --mark-compacted
mv /var/lib/etcd/raised/member "$2"
"""
"""Does as `cp -a` does to the folder of a member, but every version of an object is a later one, and watches end."""
_FILL: Final = f"""
mountpoint -q {PLUGIN} || {{ echo "no small disk is mounted" >&2; exit 1; }}
dd if=/dev/zero of={FILLER} bs=1k 2>/dev/null
sleep $1
rm -f {FILLER}
"""
_KILL: Final = ("ctr", "-n", "k8s.io", "task", "kill", "-s", "KILL")


class NotDone(Exception):
    """A fault could not be done; the message says why."""


@contextmanager
def _not_done() -> Iterator[None]:
    """A command that fails means that the fault was not done."""
    try:
        yield
    except CommandFailed as error:
        raise NotDone(str(error)) from error


@dataclass
class Snapshots:
    """Copies of etcd's disk on the control plane, the newest last."""

    client: Client
    taken: list[float] = field(default_factory=list)
    """When, in seconds of the monotonic clock."""
    _number: int = 0
    _numbers: list[int] = field(default_factory=list)

    def set_up(self) -> None:
        """Put on the control plane what raises the revision of a snapshot."""
        cluster, node = self.client.cluster, self.client.cluster.control_plane
        program = programs.ETCDUTL.build() / "etcdutl"
        cluster.docker.run("docker", "cp", str(program), f"{node}:/kind/etcdutl", timeout=120)
        put = f"cat >{_RAISE} && chmod 755 {_RAISE}"
        cluster.node_exec(node, "sh", "-c", put, input=_RAISE_SCRIPT)

    def take(self) -> None:
        """Take another one; etcd stands still meanwhile.

        Raises:
            CommandFailed: etcd does not run.
        """
        cluster = self.client.cluster
        cluster.node_exec(cluster.control_plane, "sh", "-c", _TAKE, "sh", str(self._number))
        self.taken, self._numbers = [*self.taken, time.monotonic()][-_KEPT:], [*self._numbers, self._number][-_KEPT:]
        self._number += 1

    def forget(self) -> None:
        """None that was taken before now is restored."""
        self.taken, self._numbers = [], []

    def restore(self, age: float, *, raised: bool) -> None:
        """Restore the youngest that is at least as old, else the oldest; then the API server answers.

        With ``raised``, the revision of etcd is higher than any before.

        Raises:
            NotDone: there is none.
        """
        if not self.taken:
            raise NotDone("there is no snapshot yet")
        old = [number for at, number in zip(self.taken, self._numbers, strict=True) if time.monotonic() - at >= age]
        cluster, chosen = self.client.cluster, (old or self._numbers[:1])[-1]
        arguments = f"{_SNAPSHOTS}/{chosen}", _RAISE if raised else _AS_IT_IS
        cluster.node_exec(cluster.control_plane, "sh", "-c", _RESTORE, "sh", *arguments, timeout=240)
        eventually("the API server answers", cluster.answers, 120)
        self.forget()


@dataclass(frozen=True)
class Injector:
    """Does faults, one at a time."""

    client: Client
    fixtures: Fixtures
    snapshots: Snapshots

    def do(self, fault: Fault) -> None:
        """Do a fault to its end; what it has broken may still be coming back.

        Raises:
            NotDone: it could not be done.
            AssertionError, CommandFailed, NotReady: what has to be there after it did not come back.
        """
        match fault.kind:
            case Kind.SEVERAL:
                self._kill_several(fault)
            case Kind.NODE:
                self.client.cluster.restart_node(self._worker(fault.worker))
            case Kind.DISK:
                command = ("sh", "-c", _FILL, "sh", f"{fault.seconds:.0f}")
                with _not_done():
                    self.client.cluster.node_exec(self._worker(fault.worker), *command, timeout=120)
            case Kind.DOWNGRADE:
                self._change(PREVIOUS)
            case Kind.UPGRADE:
                self._change(CURRENT)
            case Kind.RESTORE:
                self.snapshots.restore(fault.seconds, raised=False)
                self._restart_clients()
            case Kind.RAISE:
                self.snapshots.restore(fault.seconds, raised=True)
            case kind:
                with _not_done():
                    self._kills[kind](self._worker(fault.worker))

    def _kill_several(self, fault: Fault) -> None:
        """One of them at least; others may be down already."""
        failures = []
        for kind, worker in fault.kills:
            try:
                with _not_done():
                    self._kills[kind](self._worker(worker))
            except NotDone as failure:
                failures.append(str(failure))
        if len(failures) == len(fault.kills):
            raise NotDone("; ".join(failures))

    def _worker(self, number: int) -> str:
        return self.client.cluster.workers[number]

    def _change(self, version: str) -> None:
        self.snapshots.forget()
        self.fixtures.install(version)
        self.snapshots.forget()

    @property
    def _kills(self) -> Mapping[Kind, Callable[[str], None]]:
        """By kind, what kills the program, on a worker if it is on each."""
        cluster = self.client.cluster
        plane = cluster.control_plane
        return {
            Kind.CONTROLLER: lambda _: self._kill_containers(CONTROLLERS),
            Kind.PLUGIN: lambda node: self._kill_containers(_PLUGINS, node),
            Kind.DEVICE_PLUGIN: lambda _: self._kill_containers(DEVICE_PLUGIN),
            Kind.OTHER_DRIVER: lambda node: self._kill_containers(OTHER_DRIVERS, node),
            Kind.KUBELET: lambda node: cluster.kill(node, "kubelet"),
            Kind.CONTAINERD: lambda node: cluster.kill(node, "containerd"),
            Kind.API_SERVER: lambda _: cluster.kill(plane, "kube-apiserver"),
            Kind.ETCD: lambda _: cluster.kill(plane, "etcd"),
            Kind.SCHEDULER: lambda _: cluster.kill(plane, "kube-scheduler"),
            Kind.CONTROLLER_MANAGER: lambda _: cluster.kill(plane, "kube-controller-manager"),
        }

    def _kill_containers(self, label: str, node: str = "") -> None:
        """SIGKILL the programs of the containers of these pods, of one node or of all."""
        killed = 0
        for it in self.client.list("pods", labels=label, fields=f"spec.nodeName={node}" if node else ""):
            for status in it["status"].get("containerStatuses", []):
                if identity := status.get("containerID", "").removeprefix("containerd://"):
                    done = self.client.cluster.node_exec(it["spec"]["nodeName"], *_KILL, identity, check=False)
                    killed += done.returncode == 0
        if not killed:
            raise NotDone(f"no container of the pods {label} runs")

    def _restart_clients(self) -> None:
        """Versions of objects have gone back, so clients of the API are restarted (docs/failures.md).

        Lode's need it in the previous version alone.
        """
        cluster = self.client.cluster
        for program in ("kube-controller-manager", "kube-scheduler"):
            cluster.node_exec(cluster.control_plane, "pkill", "-KILL", "-x", program[:15], check=False)
        for node in cluster.nodes:
            cluster.node_exec(node, "systemctl", "restart", "kubelet")
        self._retried("-n", "kube-system", "rollout", "restart", "daemonset")
        if self._version() == PREVIOUS:
            self._retried("-n", SYSTEM, "rollout", "restart", "deployment")
            self._retried("-n", PLUGIN_NAMESPACE, "rollout", "restart", "daemonset")
        wait_until_installed(self.client)

    def _version(self) -> str:
        """The version of Lode that is installed, `CURRENT` or `PREVIOUS`."""
        controller = self.client.get("deployments", "lode-controller", SYSTEM)
        return str(controller["spec"]["template"]["spec"]["containers"][0]["image"])

    def _retried(self, *arguments: str) -> None:
        def done() -> bool:
            self.client.kubectl(*arguments)
            return True

        eventually(f"kubectl {' '.join(arguments)}", done, 60)
