"""A control plane without nodes: etcd and the Kubernetes programs as plain processes, ready in a few seconds.

    with ControlPlane() as plane:
        plane.kubectl("apply", "-k", "manifests/base")
        client = connect(plane.kubeconfig("system:node:n1", ["system:nodes"]))

Claims, slices, policies, controllers and kube-scheduler behave as in any cluster, but nothing runs a pod. `add_node`
creates a node that pods are scheduled to; it stays ready, because the controllers that watch kubelets are off. With a
`delay`, programs can be put at a distance from the API server: each of their calls takes that much longer. With the
environment variable `LODE_DELAY`, in seconds, all but kubectl and the components are at that distance: whatever a
component does between two calls of a test has then happened before the second. All files are in one temporary folder,
which is removed when the `with` block ends. If the process dies instead, the kernel ends the programs, and the next
control plane removes the folder. The programs also end when the thread that called `start` ends (in pytest, the main
thread), so that thread must live as long as the control plane is needed.
"""

import hashlib
import http.client
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testclusters import pki, programs
from testclusters.commands import run, start_process
from testclusters.folders import OwnFolder

_PREFIX = "lode-control-plane-"
_LOOPBACK = "127.0.0.1"
_SERVICE = "10.96.0.1"
_ADVERTISED = "192.0.2.1"  # kube-apiserver refuses a loopback address; this one is reserved (RFC 5737)
_FORWARDER = "forwarder"


def default_delay() -> float | None:
    """The seconds in `$LODE_DELAY`; None if it is not set. Raises `ValueError` if it is not a number."""
    given = os.environ.get("LODE_DELAY")
    return float(given) if given else None


class ControlPlaneFailed(Exception):
    """A program of the control plane ended, or was not ready in time; the message contains the end of its log."""


class ControlPlane:
    """Runs etcd, kube-apiserver and the other components named in `components`; a context manager.

    `flags` adds command-line flags by program, such as `{"kube-apiserver": ["--feature-gates=DRADeviceTaints=false"]}`;
    they override the flags set here. `kubernetes` is one of `KUBERNETES_VERSIONS`, by default `$LODE_KUBERNETES`, else
    the newest that has a release. `timeout` is in seconds for each program.

    With `delay`, in seconds, a forwarder before the API server delays what clients send (`testclusters.forwarder`). The
    components in `delayed` use it, and programs with a kubeconfig of `kubeconfig(..., delayed=True)`. Without `delay`,
    `$LODE_DELAY` counts; then `server` and every kubeconfig use the forwarder unless they say otherwise. `kubectl` does
    not: its start takes as long, and what it installs are a hundred requests.

    Entering raises `ControlPlaneFailed`, or `ProgramMissing` if programs are not on the machine and cannot be built.
    """

    def __init__(
        self,
        *,
        kubernetes: str | None = None,
        components: Sequence[str] = ("kube-controller-manager", "kube-scheduler"),
        flags: Mapping[str, Sequence[str]] | None = None,
        delay: float | None = None,
        delayed: Sequence[str] = (),
        timeout: float = 90.0,
    ) -> None:
        self._kubernetes = kubernetes or programs.default_kubernetes_version()
        self._components = tuple(components)
        self._flags = flags or {}
        self._far = delay is None and default_delay() is not None
        self._delay = default_delay() if delay is None else delay
        self._delayed = tuple(delayed)
        self._timeout = timeout
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all programs and wait until requests succeed.

        With kube-controller-manager, also wait until pods can be created in the namespace `default`.
        """
        self._programs = programs.control_plane_programs(self._kubernetes)
        self._own_folder = OwnFolder.make(_PREFIX)
        self.folder = self._own_folder.path
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._authority = pki.Authority(self.folder)
        self._service_accounts = pki.service_account_key(self.folder)
        self._port = {name: _free_port() for name in ("etcd", "etcd-peers", "kube-apiserver", _FORWARDER)}
        self.server = self._address(delayed=self._far)
        names = [_LOOPBACK, _SERVICE, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        self._serving = self._authority.issue("kube-apiserver", "kube-apiserver", addresses=names)
        self.kubeconfig()
        self.start_component("etcd")
        self.start_component("kube-apiserver")
        if self._delay is not None:
            self._start_forwarder(self._delay)
        for name in self._components:
            self.start_component(name)
        if "kube-controller-manager" in self._components:
            self._await(
                "kube-controller-manager",
                lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default") == 200,
            )

    def stop(self) -> None:
        """End all programs at once and remove the folder with all data. Calling it again does nothing."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self._own_folder.remove()

    def start_component(self, name: str) -> None:
        """Start one program, for example after `kill_component`.

        Waits until etcd or kube-apiserver answers, and returns at once for the other programs.
        """
        flags = [*self._defaults(name), *self._flags.get(name, ())]
        self._running[name] = start_process(
            [self._programs[name], *flags], self.folder / f"{name}.log", {**os.environ, **programs.ENVIRONMENT}
        )
        if name == "etcd":
            self._await(name, lambda: _listens(self._port["etcd"]))
        if name == "kube-apiserver":
            self._await(name, lambda: self._get("/readyz") == 200)

    def _start_forwarder(self, delay: float) -> None:
        ports = (self._port[_FORWARDER], self._port["kube-apiserver"])
        # -P: no module of this folder hides one of the standard library.
        program = str(Path(__file__).with_name("forwarder.py"))
        command = [sys.executable, "-P", program, *map(str, ports), str(delay)]
        self._running[_FORWARDER] = start_process(command, self.folder / f"{_FORWARDER}.log")
        self._await(_FORWARDER, lambda: _listens(self._port[_FORWARDER]))

    def kill_component(self, name: str) -> None:
        """Kill one program, as a crash would, and wait until it has ended. Its data stays."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def upgrade(self, kubernetes: str) -> None:
        """Replace the programs by those of another minor version on the same data, one by one as kubeadm does.

        kubectl stays as it is. Raises as `start` does; what does not run then is not started.
        """
        replaced = ("etcd", "kube-apiserver", *self._components)
        self._programs = {**programs.control_plane_programs(kubernetes), "kubectl": self._programs["kubectl"]}
        for name in replaced:
            self.kill_component(name)
            self.start_component(name)

    def add_node(
        self, name: str, labels: Mapping[str, str] | None = None, cpu: str = "64", memory: str = "512Gi"
    ) -> None:
        """Create a Node object that is ready and has capacity for 110 pods, without a kubelet."""
        capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
            },
        }
        self.kubectl("create", "-f", "-", input=json.dumps(node))

    def pid(self, name: str) -> int:
        """The process id of a running program, such as `kube-apiserver`; raises `KeyError` if it does not run."""
        return self._running[name].pid

    def log(self, name: str) -> str:
        """The output of a program, such as `kube-scheduler`, so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kubeconfig(
        self, user: str = "admin", groups: Sequence[str] = ("system:masters",), *, delayed: bool | None = None
    ) -> Path:
        """A kubeconfig file with a client certificate for `user` in `groups`; repeated calls return the same file.

        With `delayed`, its server is the forwarder; raises `ValueError` if the control plane has no `delay`. By default
        it is that of `server`.

        A service account is `system:serviceaccount:<namespace>:<name>` in the groups `system:serviceaccounts` and
        `system:serviceaccounts:<namespace>`; a kubelet is `system:node:<name>` in `system:nodes`.
        """
        if delayed and self._delay is None:
            raise ValueError("a control plane without a delay has no delayed kubeconfig; give it a delay")
        delayed = self._far if delayed is None else delayed
        identity = hashlib.sha256("\0".join([user, *groups]).encode()).hexdigest()[:8]
        file = f"{re.sub('[^a-zA-Z0-9.-]', '_', user)}-{identity}{'-delayed' if delayed else ''}"
        path = self.folder / f"{file}.kubeconfig"
        if not path.exists():
            server = self._address(delayed=delayed)
            issued = self._authority.issue(file, user, groups)
            path.write_text(pki.kubeconfig(server, self._authority.certificate, *issued))
        return path

    def _address(self, *, delayed: bool) -> str:
        return f"https://{_LOOPBACK}:{self._port[_FORWARDER if delayed else 'kube-apiserver']}"

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,
        check: bool = True,
        timeout: float = 60.0,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl with `kubeconfig`, by default the administrator's, without a delay.

        Raises `CommandFailed` if its status is not 0 and `check` is true, and `subprocess.TimeoutExpired` after
        `timeout` seconds.
        """
        identity = f"--kubeconfig={kubeconfig or self.kubeconfig(delayed=False)}"
        argv = [self._programs["kubectl"], identity, f"--cache-dir={self.folder}/kubectl", *arguments]
        return run(argv, input=input, check=check, timeout=timeout, environment={**os.environ, **programs.ENVIRONMENT})

    def _defaults(self, name: str) -> list[str]:
        match name:
            case "etcd":
                return self._etcd()
            case "kube-apiserver":
                return self._apiserver()
            case "kube-controller-manager":
                flags = [
                    "--use-service-account-credentials=true",
                    f"--service-account-private-key-file={self._service_accounts}",
                    f"--root-ca-file={self._authority.certificate}",
                    "--controllers=*,-node-lifecycle-controller",
                    "--kube-api-qps=1000",  # with the default of 20 its start takes five seconds
                    "--kube-api-burst=1000",
                ]
            case "kube-scheduler":
                flags = []
            case _:
                raise ValueError(f"not a component of a control plane: {name!r}")
        kubeconfig = self.kubeconfig(f"system:{name}", (), delayed=name in self._delayed)
        return [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--cert-dir={self.folder}/{name}",
            *flags,
        ]

    def _etcd(self) -> list[str]:
        client, peers = (f"http://{_LOOPBACK}:{self._port[name]}" for name in ("etcd", "etcd-peers"))
        return [
            f"--data-dir={self.folder}/etcd",
            "--unsafe-no-fsync",  # nothing has to survive the machine
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _apiserver(self) -> list[str]:
        certificate, key = self._serving
        flags = [
            f"--etcd-servers=http://{_LOOPBACK}:{self._port['etcd']}",
            f"--bind-address={_LOOPBACK}",
            f"--secure-port={self._port['kube-apiserver']}",
            f"--advertise-address={_ADVERTISED}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={self._authority.certificate}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--service-account-key-file={self._service_accounts}",
            f"--service-account-signing-key-file={self._service_accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={_SERVICE}/16",
            "--allow-privileged=true",
            f"--cert-dir={self.folder}/kube-apiserver",
        ]
        disabled = ["TaintNodesByCondition"]  # no controller would remove that taint again
        if "kube-controller-manager" not in self._components:
            disabled.append("ServiceAccount")  # no controller creates the service accounts that pods would need
        return [*flags, f"--disable-admission-plugins={','.join(disabled)}"]

    def get(self, path: str, timeout: float = 60.0) -> bytes:
        """What the API server answers to a GET as the administrator, such as of `/metrics`, within `timeout` seconds.

        Raises `ControlPlaneFailed` if it does not answer, or with a status other than 200.
        """
        status, body = self._asked(path, timeout)
        if status != 200:
            raise ControlPlaneFailed(f"kube-apiserver answers GET {path} with {status or 'nothing'}: {body[:500]!r}")
        return body

    def _get(self, path: str) -> int:
        """The HTTP status of a GET as the administrator; 0 if the API server does not answer."""
        return self._asked(path, 5)[0]

    def _asked(self, path: str, timeout: float) -> tuple[int, bytes]:
        """The HTTP status and the body of a GET as the administrator; 0 if the API server does not answer."""
        admin = self.kubeconfig().with_suffix("")
        context = ssl.create_default_context(cafile=str(self._authority.certificate))
        context.load_cert_chain(f"{admin}.crt", f"{admin}.key")
        connection = http.client.HTTPSConnection(
            _LOOPBACK, self._port["kube-apiserver"], timeout=timeout, context=context
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._timeout
        while not ready():
            ended = self._running[name].poll()
            if ended is not None or time.monotonic() > deadline:
                outcome = f"not ready after {self._timeout:.0f} s" if ended is None else f"ended with status {ended}"
                raise ControlPlaneFailed(f"{name} {outcome}:\n" + "\n".join(self.log(name).splitlines()[-20:]))
            time.sleep(0.05)


def _free_port() -> int:
    """A port that nothing listens on, below the range that the kernel uses for outgoing connections."""
    while True:
        port = random.randrange(15000, 32000)
        if not _listens(port):
            return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((_LOOPBACK, port)) == 0
