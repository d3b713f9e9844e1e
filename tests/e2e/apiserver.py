"""The API server of a cluster, asked through one `kubectl proxy`: a kubectl for each question takes 0.1 s of CPU."""

import http.client
import json
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from testclusters.commands import CommandFailed, start_process
from testclusters.kind import KindCluster

RESOURCES = {
    **dict.fromkeys(
        ("events", "namespaces", "nodes", "persistentvolumeclaims", "pods", "resourcequotas"),
        "api/v1",
    ),
    **dict.fromkeys(("daemonsets", "deployments", "replicasets", "statefulsets"), "apis/apps/v1"),
    "jobs": "apis/batch/v1",
    "leases": "apis/coordination.k8s.io/v1",
    **dict.fromkeys(
        ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"), "apis/resource.k8s.io/v1"
    ),
    **dict.fromkeys(
        ("mutatingadmissionpolicies", "validatingadmissionpolicies"), "apis/admissionregistration.k8s.io/v1"
    ),
}
"""The kinds that tests read, with the path of their group and version."""


class ApiServer:
    """Reads objects as the administrator.

    Args:
        path: of the socket of `kubectl proxy`.
    """

    def __init__(self, path: Path):
        self._path = path

    def list(self, kind: str, namespace: str = "", **query: str) -> list[dict[str, Any]]:
        """All objects of a kind in a namespace, or in all if it is ""; raises `CommandFailed`."""
        found = self._get(_path(kind, namespace), query)
        identity = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [{**identity, **item} for item in found["items"]]

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """One object; raises `CommandFailed` if it does not exist or the API server gives no answer."""
        return self._get(f"{_path(kind, namespace)}/{name}", {})

    def _get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        target = f"/{path}?{urlencode({key: value for key, value in query.items() if value})}"
        connection = _UnixConnection(self._path)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(1, ["GET", target], "", repr(error)) from error
        finally:
            connection.close()
        if status != http.HTTPStatus.OK:
            raise CommandFailed(status, ["GET", target], "", text)
        return dict(json.loads(text))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path):
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _path(kind: str, namespace: str) -> str:
    return f"{RESOURCES[kind]}/{f'namespaces/{namespace}/' if namespace else ''}{kind}"


@contextmanager
def api_server(cluster: KindCluster) -> Iterator[ApiServer]:
    """The API server of a cluster, during the block."""
    with tempfile.TemporaryDirectory(prefix="lode-") as folder:
        path, log = Path(folder, "api.sock"), Path(folder, "proxy.log")
        process = start_process([cluster.folder / "bin/kubectl", "proxy", f"--unix-socket={path}"], log)
        try:
            deadline = time.monotonic() + 30
            while not path.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield ApiServer(path)
        finally:
            process.terminate()
            process.wait(10)
