"""Requests to a real kube-apiserver as any user: by certificate, by token, and by impersonation."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import urllib3

from testclusters.controlplane import ControlPlane

Object = dict[str, Any]

NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_UID = "authentication.kubernetes.io/node-uid"
CONTROLLER = "system:serviceaccount:lode-system:lode-controller"
PLUGIN = "system:serviceaccount:lode-plugin:lode-kubeletplugin"
RESOURCE_CLAIM_CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
SCHEDULER = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class Response:
    """The server's response."""

    status: int
    body: Object
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    def must(self) -> Object:
        """The body; fails the test if the request failed."""
        assert self.ok, f"{self.status}: {self.message}"
        return self.body


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of the API server."""

    server: str
    pool: urllib3.PoolManager
    headers: urllib3.HTTPHeaderDict = field(default_factory=urllib3.HTTPHeaderDict)

    @classmethod
    def admin(cls, control_plane: ControlPlane) -> Self:
        """The administrator, who can impersonate any user."""
        return cls.with_certificate(control_plane, "admin", "system:masters")

    @classmethod
    def with_certificate(cls, control_plane: ControlPlane, user: str, *groups: str) -> Self:
        """A user with a client certificate, as components of Kubernetes have."""
        base = str(control_plane.kubeconfig(user, groups).with_suffix(""))
        pool = urllib3.PoolManager(
            ca_certs=_authority(control_plane), cert_file=f"{base}.crt", key_file=f"{base}.key", retries=False
        )
        return cls(control_plane.server, pool)

    @classmethod
    def with_token(cls, control_plane: ControlPlane, token: str) -> Self:
        """A service account with a token, as pods have."""
        pool = urllib3.PoolManager(ca_certs=_authority(control_plane), retries=False)
        return cls(control_plane.server, pool, urllib3.HTTPHeaderDict({"Authorization": f"Bearer {token}"}))

    def as_user(self, user: str, *groups: str, node: str = "", node_uid: str = "") -> "Identity":
        """The same connection as another user.

        A service account gets the groups that it always has, and with ``node`` the extra field of a token that is bound
        to a pod on that node, and with ``node_uid`` the one with its uid.
        """
        headers = urllib3.HTTPHeaderDict({"Impersonate-User": user})
        if user.startswith("system:serviceaccount:"):
            groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
        for group in (*groups, "system:authenticated"):
            headers.add("Impersonate-Group", group)
        for key, value in ((NODE_NAME, node), (NODE_UID, node_uid)):
            if value:
                headers.add(f"Impersonate-Extra-{key.replace('/', '%2f')}", value)
        return Identity(self.server, self.pool, headers)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, patch: str = "merge") -> Response:
        """Send a request; ``patch`` is the type of a PATCH: merge or strategic-merge."""
        headers = self.headers.copy()
        headers["Content-Type"] = f"application/{patch}-patch+json" if method == "PATCH" else "application/json"
        text = None if body is None else json.dumps(body)
        response = self.pool.request(method, self.server + path, body=text, headers=headers, timeout=30)
        return Response(response.status, json.loads(response.data), tuple(response.headers.getlist("Warning")))

    def get(self, path: str) -> Object:
        return self.request("GET", path).must()


def _authority(control_plane: ControlPlane) -> str:
    return str(control_plane.folder / "ca.crt")


def eventually(condition: str, get: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Call ``get`` until it returns a true value, and return that value; fails the test after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := get()):
        assert time.monotonic() < deadline, f"{condition}: not within {seconds:.0f} s"
        time.sleep(0.05)
    return value
