"""The page in a cluster, with real identities: everybody sees with the rights of their own token, and no name more."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cli.ui.questions import ClusterQuestions
from cli.ui.run import served_to_all
from driver.kube.access import Access
from driver.kube.client import KubeClient
from driver.names import Names
from testclusters.controlplane import ControlPlane
from tests.contract import installed
from tests.contract.identity import Identity, Object, eventually
from tests.unit.cli.cluster import claim, pod
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.served import INTERRUPTIBLE, Browser, Reply

TENANT, READER, NOBODY, PAGE = "anna", "reader", "nobody", "lode-ui"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
GATE = [{"name": "lode.dev/allocation"}]


@dataclass(frozen=True)
class SharedPage:
    """The page, and the tokens of those who look at it."""

    plane: ControlPlane
    port: int
    tokens: dict[str, str]
    identities: dict[str, Identity]

    def as_user(self, name: str) -> Browser:
        return Browser(self.port, self.tokens.get(name, name))

    def fleet(self, name: str) -> Reply:
        return eventually("there is a document", lambda: self._fleet(name))  # type: ignore[no-any-return]

    def _fleet(self, name: str) -> Reply | None:
        found = self.as_user(name).ask("/fleet.json")
        return None if found.status == 503 else found


@pytest.fixture(scope="module")
def page() -> Iterator[SharedPage]:
    with ControlPlane(components=()) as plane:
        for file in ("namespace.yaml", "ui-rbac.yaml"):
            plane.kubectl("apply", "-f", f"manifests/ui/{file}")
        plane.kubectl("apply", "-f", "manifests/examples/administration/command-role.yaml")
        plane.add_node("n1")
        admin = Identity.admin(plane)
        _create_fleet(admin)
        tokens = {name: _account(admin, name, "lode-ui" if name == PAGE else "team-a") for name in _BOUND}
        identities = {name: Identity.with_token(plane, token) for name, token in tokens.items()}
        access = Access(plane.server, ca_file=str(plane.folder / "ca.crt"))

        @contextmanager
        def connect(token: str) -> Iterator[ClusterQuestions]:
            client = KubeClient(_with_token(access, token))
            try:
                yield ClusterQuestions(client, Names())
            finally:
                client.close()

        with connect(tokens[PAGE]) as own, served_to_all(own, connect, "127.0.0.1:0") as port:
            yield SharedPage(plane, port, tokens, identities)


_BOUND = {TENANT: ("lode-ui-user",), READER: ("lode-ui-user", "lode-explain"), NOBODY: (), PAGE: ()}
"""The ClusterRoles of each account. That of the page is bound by its manifests; the tenant also has a Role."""


def _with_token(access: Access, token: str) -> Access:
    return Access(access.server, ca_file=access.ca_file, token=lambda: token)


def _account(admin: Identity, name: str, namespace: str) -> str:
    """A service account with its rights; returns its token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if name != PAGE:
        admin.request("POST", path, {"metadata": {"name": name}}).must()
    for role in _BOUND[name]:
        _bind(admin, f"{ROLES}/clusterrolebindings", "ClusterRole", role, name)
    if name == TENANT:
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
        ]
        own = f"{ROLES}/namespaces/{namespace}"
        admin.request("POST", f"{own}/roles", {"metadata": {"name": "tenant"}, "rules": rules}).must()
        _bind(admin, f"{own}/rolebindings", "Role", "tenant", name)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(admin.request("POST", f"{path}/{name}/token", asked).must()["status"]["token"])


def _bind(admin: Identity, path: str, kind: str, role: str, name: str) -> None:
    binding = {
        "metadata": {"name": f"{role}-{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "team-a"}],
    }
    admin.request("POST", path, binding).must()


def _create_fleet(admin: Identity) -> None:
    """Two cards that two tenants hold, and a pod of each that waits."""
    devices = [
        {"name": f"gpu-{index}", "attributes": {"kind": {"string": "gpu"}, "type": {"string": "T4"}}}
        for index in (0, 1)
    ]
    pool = {"name": "n1/lode.dev", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "lode.dev", "nodeName": "n1", "pool": pool, "devices": devices}
    admin.request("POST", installed.SLICES, {"metadata": {"name": "n1-slice"}, "spec": spec}).must()
    for index, (namespace, name) in enumerate((("team-a", "open"), ("team-b", "secret"))):
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).must()
        _make_default(admin, namespace)
        holds = held(f"{name}-claim", f"n1/gpu-{index}", f"{name}-pod")
        _create_claim(admin, namespace, f"{name}-claim", holds["status"])
        _create_claim(admin, namespace, f"{name}-wanted", None)
        waits = pod(f"{name}-waits", f"{name}-wanted", schedulingGates=GATE)
        made = admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", waits).must()
        said = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": f"{name} reason"}
        status = {"status": {"conditions": [{**said, "lastTransitionTime": "2027-01-15T08:00:00Z"}]}}
        path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}/status"
        admin.request("PATCH", path, status).must()


def _make_default(admin: Identity, namespace: str) -> None:
    """No controller runs that makes the account that pods get."""
    admin.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}}).must()


def _create_claim(admin: Identity, namespace: str, name: str, status: Object | None) -> None:
    path = CLAIMS.format(namespace)
    admin.request("POST", path, claim(name)).must()
    if status:
        admin.request("PATCH", f"{path}/{name}/status", {"status": status}).must()


def states(found: Any) -> list[str]:
    return [found["states"][one] for one in found["cards"]["state"]]


def test_the_rights_of_the_page_suffice_and_it_has_no_others(page: SharedPage) -> None:
    found = page.fleet(READER).json
    assert (found["missing"], found["problems"], found["notes"]) == ([], [], [])
    own = page.identities[PAGE]
    for method, path in (
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces/team-a/pods/open-waits"),
        ("GET", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces/team-a/pods/open-waits"),
        ("POST", "/api/v1/namespaces/team-a/pods"),
        ("POST", "/api/v1/namespaces/lode-ui/serviceaccounts/lode-ui/token"),
    ):
        assert own.request(method, path, {} if method == "POST" else None).status == 403, path


def test_who_may_list_everything_sees_every_name(page: SharedPage) -> None:
    found = page.fleet(READER).json
    assert states(found) == ["whole", "whole"]
    assert set(found["claims"]["name"]) == {"open-claim", "secret-claim", "open-wanted", "secret-wanted"}
    assert set(found["messages"]) == {"open reason", "secret reason"}


def test_a_user_of_one_namespace_sees_no_name_of_another_and_that_its_card_is_held(page: SharedPage) -> None:
    reply = page.fleet(TENANT)
    found = reply.json
    assert reply.status == 200
    assert states(found) == ["whole", "whole"]
    assert set(found["claims"]["name"]) == {"open-claim", "open-wanted"}
    assert found["messages"] == ["open reason"]
    assert sorted(found["holdings"]["claim"]) == [-1, 0]
    for hidden in ("secret", "team-b"):
        assert hidden not in json.dumps(found)
    assert reply.headers["ETag"] != page.fleet(READER).headers["ETag"]


@pytest.mark.parametrize(("who", "status"), [(NOBODY, 403), ("made-up", 401), ("", 401)])
def test_who_has_no_right_sees_nothing(page: SharedPage, who: str, status: int) -> None:
    assert page.fleet(READER).status == 200
    for path, body in (("/fleet.json", None), ("/explain?what=pod/p", None), ("/simulate", b"")):
        reply = page.as_user(who).ask(path, body)
        assert (reply.status, list(reply.json)) == (status, ["error"])


def test_a_user_explains_what_their_own_rights_let_them(page: SharedPage) -> None:
    anna = page.as_user(TENANT)
    own = anna.ask("/explain?what=pod/open-waits&namespace=team-a")
    assert (own.status, own.json["message"]) == (200, "open reason")
    others = anna.ask("/explain?what=pod/secret-waits&namespace=team-b")
    assert others.status == 403
    assert "you may not get pods in namespace team-b" in others.json["error"]


def test_a_manifest_is_simulated_with_the_users_rights(page: SharedPage) -> None:
    manifest = yaml.safe_dump_all([claim("more"), pod("more", "more")]).encode()
    refused = page.as_user(TENANT).ask("/simulate?namespace=team-a", manifest)
    assert refused.status == 403
    assert "you may not list nodes in the whole cluster" in refused.json["error"]
    reply = page.as_user(READER).ask("/simulate?namespace=team-a", manifest)
    assert reply.status == 200
    assert [one["name"] for one in reply.json["pods"]] == ["more"]


def started(plane: ControlPlane, *options: str) -> subprocess.Popen[str]:
    """``lode ui`` as a process, with the rights of an administrator."""
    kubeconfig = str(plane.kubeconfig("admin", ("system:masters",)))
    command = [*INTERRUPTIBLE, sys.executable, "-m", "cli", "ui", "--kubeconfig", kubeconfig, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def first_line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline()


def ended(running: subprocess.Popen[str], number: signal.Signals) -> int:
    running.send_signal(number)
    try:
        _, errors = running.communicate(timeout=30)
    finally:
        running.kill()
    assert errors == ""
    return running.returncode


def test_the_command_serves_its_users_page_until_it_is_interrupted(page: SharedPage) -> None:
    with started(page.plane) as running:
        address = urlsplit(first_line(running).split()[-1])
        assert (address.hostname, address.path) == ("127.0.0.1", "/")
        own = SharedPage(page.plane, address.port or 0, {}, {})
        token = address.fragment.removeprefix("token=")
        assert set(own.fleet(token).json["claims"]["name"]) >= {"open-claim", "secret-claim"}
        assert own.fleet(page.tokens[READER]).status == 401
        _create_claim(Identity.admin(page.plane), "team-a", "later", held("later", "n1/gpu-1", "p")["status"])
        eventually("the change is followed", lambda: "later" in own.fleet(token).json["claims"]["name"])
        assert ended(running, signal.SIGINT) == 0


def test_the_command_in_a_pod_serves_everybody_until_it_is_terminated(page: SharedPage) -> None:
    with started(page.plane, "--listen", "127.0.0.1:0") as running:
        shared = SharedPage(page.plane, int(first_line(running).rpartition(":")[2]), page.tokens, page.identities)
        assert "secret-claim" in shared.fleet(READER).json["claims"]["name"]
        assert "secret-claim" not in shared.fleet(TENANT).json["claims"]["name"]
        assert shared.fleet(NOBODY).status == 403
        assert Browser(shared.port, "").ask("/readyz").body == b"ok\n"
        assert ended(running, signal.SIGTERM) == 0
