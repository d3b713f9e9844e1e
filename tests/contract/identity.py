"""Requests to a real kube-apiserver under any identity, by impersonation."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import urllib3

from testclusters import ControlPlane

Object = dict[str, Any]

NODE_NAME = "authentication.kubernetes.io/node-name"
CONTROLLER = "system:serviceaccount:lode-system:lode-controller"
PLUGIN = "system:serviceaccount:lode-system:lode-kubeletplugin"
RESOURCE_CLAIM_CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
SCHEDULER = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    body: Object

    @property
    def ok(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    def must(self) -> Object:
        """The body; fails the test unless the request succeeded."""
        assert self.ok, f"{self.status}: {self.message}"
        return self.body


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who talks to the API server."""

    server: str
    pool: urllib3.PoolManager
    headers: urllib3.HTTPHeaderDict = field(default_factory=urllib3.HTTPHeaderDict)

    @classmethod
    def admin(cls, control_plane: ControlPlane) -> Self:
        """The administrator, who may impersonate everybody."""
        base = str(control_plane.kubeconfig().with_suffix(""))
        ca = str(control_plane.folder / "ca.crt")
        pool = urllib3.PoolManager(ca_certs=ca, cert_file=f"{base}.crt", key_file=f"{base}.key", retries=False)
        return cls(control_plane.server, pool)

    def as_user(self, user: str, *groups: str, node: str = "") -> "Identity":
        """The same connection as somebody else; a service account gets the groups it always has, and with ``node``
        what a token says that is bound to a pod of that node.
        """
        headers = urllib3.HTTPHeaderDict({"Impersonate-User": user})
        if user.startswith("system:serviceaccount:"):
            groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
        for group in (*groups, "system:authenticated"):
            headers.add("Impersonate-Group", group)
        if node:
            headers.add(f"Impersonate-Extra-{NODE_NAME.replace('/', '%2f')}", node)
        return Identity(self.server, self.pool, headers)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, patch: str = "merge") -> Answer:
        """One request; ``patch`` is the kind of a PATCH: merge or strategic-merge."""
        headers = self.headers.copy()
        headers["Content-Type"] = f"application/{patch}-patch+json" if method == "PATCH" else "application/json"
        text = None if body is None else json.dumps(body)
        answer = self.pool.request(method, self.server + path, body=text, headers=headers, timeout=30)
        return Answer(answer.status, json.loads(answer.data))

    def get(self, path: str) -> Object:
        return self.request("GET", path).must()


def eventually(what: str, holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What ``holds`` returns as soon as it is true; fails the test when it never is."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)
    return found
