import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from driver.kube.access import Access
from driver.kube.api import (
    LEASES,
    PODS,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OverBudget,
    Unavailable,
)
from driver.kube.client import KubeClient, error_from
from driver.kube.connections import keep_alive

Answer = tuple[int, dict[str, str], bytes]


class Platform:
    """The module ``socket`` of macOS, which has TCP_KEEPALIVE in the place of TCP_KEEPIDLE."""

    SOL_SOCKET, SO_KEEPALIVE, IPPROTO_TCP = 0xFFFF, 0x8, 6
    TCP_KEEPALIVE, TCP_KEEPINTVL, TCP_KEEPCNT = 0x10, 0x101, 0x102


def test_broken_connections_are_found_on_every_platform() -> None:
    assert keep_alive(Platform) == [(0xFFFF, 0x8, 1), (6, 0x10, 30), (6, 0x101, 10), (6, 0x102, 3)]
    assert len(keep_alive()) == 4


STORED = b'{"metadata":{"name":"l","uid":"u","resourceVersion":"7"}}'


class Server:
    """A loopback server that records requests and gives the answers it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.answer: Callable[[], Answer] = lambda: (200, {}, STORED)
        self.cut_short = False
        self.stalled = threading.Event()
        """While it is not set, answers hang before their end."""
        self.stalled.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.requests.append(
                    (self.command, self.path, dict(self.headers), json.loads(body) if body else None)
                )
                status, headers, content = server.answer()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if content:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
                server.stalled.wait(5)
                if not server.cut_short:
                    self.wfile.write(b"0\r\n\r\n")
                self.close_connection = server.cut_short

            def log_message(self, format: str, *args: Any) -> None:
                pass

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def says(self, status: int, body: Any, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answer = lambda: (status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()
    thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[KubeClient]:
    made = KubeClient(Access(server.url, token=lambda: "secret"))
    yield made
    made.close()


def test_every_write_is_strict_and_says_who_we_are(server: Server, client: KubeClient) -> None:
    api: Api = client
    obj = {"metadata": {"name": "l", "namespace": "n"}}
    api.create(LEASES, obj)
    api.update(LEASES, obj, "status")
    api.patch(LEASES, "l", {"a": 1}, namespace="n", patch_type="json")
    api.delete(LEASES, "l", "n", uid="u", resource_version="7", grace_period_seconds=0)
    leases = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
    assert [(method, path) for method, path, _, _ in server.requests] == [
        ("POST", f"{leases}?fieldValidation=Strict"),
        ("PUT", f"{leases}/l/status?fieldValidation=Strict"),
        ("PATCH", f"{leases}/l?fieldValidation=Strict"),
        ("DELETE", f"{leases}/l"),
    ]
    for _, _, headers, _ in server.requests:
        assert (headers["Authorization"], headers["User-Agent"]) == ("Bearer secret", "lode")
        assert headers["Accept"] == "application/json"
    assert server.requests[0][3] == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **obj}
    assert server.requests[2][2]["Content-Type"] == "application/json-patch+json"
    options = server.requests[3][3]
    assert options["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert options["gracePeriodSeconds"] == 0


def test_an_eviction_names_the_very_pod(server: Server, client: KubeClient) -> None:
    client.evict("p", "n", uid="u", resource_version="7", grace_period_seconds=3)
    method, path, _, body = server.requests[0]
    assert (method, path) == ("POST", "/api/v1/namespaces/n/pods/p/eviction")
    assert (body["apiVersion"], body["kind"], body["metadata"]) == (
        "policy/v1",
        "Eviction",
        {"name": "p", "namespace": "n"},
    )
    assert body["deleteOptions"]["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert body["deleteOptions"]["gracePeriodSeconds"] == 3
    client.evict("p", "n", dry_run=True)
    # Webhooks have to know it, too, and they see only the parameter of the request.
    assert server.requests[1][1] == "/api/v1/namespaces/n/pods/p/eviction?dryRun=All"


NO_BUDGET = {"reason": "DisruptionBudget", "message": "b needs 2"}


@pytest.mark.parametrize(
    ("code", "status", "kind", "said"),
    [
        (429, {"message": "no.", "details": {"causes": [NO_BUDGET]}}, OverBudget, "no. b needs 2"),
        (429, {"message": "no.", "details": {"causes": None}}, Unavailable, "no."),
        (429, {"message": "no.", "details": {"causes": [{"reason": "Other"}, 7]}}, Unavailable, "no."),
        (429, {"message": "no.", "details": [NO_BUDGET]}, Unavailable, "no."),
        (500, {"message": "more than one PodDisruptionBudget"}, OverBudget, "more than one PodDisruptionBudget"),
    ],
)
def test_a_budget_that_forbids_an_eviction_is_no_busy_server(
    server: Server, client: KubeClient, code: int, status: dict[str, Any], kind: type[ApiError], said: str
) -> None:
    server.says(code, {"kind": "Status", "code": code, **status})
    with pytest.raises(ApiError) as error:
        client.evict("p", "n")
    assert (type(error.value), str(error.value)) == (kind, said)


@pytest.mark.parametrize(
    ("patch_type", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
    ],
)
def test_a_patch_says_of_what_kind_it_is(
    server: Server, client: KubeClient, patch_type: Any, content_type: str
) -> None:
    client.patch(LEASES, "l", {}, namespace="n", patch_type=patch_type)
    assert server.requests[0][2]["Content-Type"] == content_type


def test_the_items_of_a_list_say_their_kind(server: Server, client: KubeClient) -> None:
    server.says(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [{"metadata": {"name": "p"}}]})
    page = client.list(PODS, field_selector="spec.nodeName=n 1", limit=1, continue_token="a=b")
    assert list(page.items) == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]
    assert (page.resource_version, page.continue_token) == ("5", "more")
    assert server.requests[0][1] == "/api/v1/pods?fieldSelector=spec.nodeName%3Dn+1&limit=1&continue=a%3Db"
    server.says(200, {"metadata": {"resourceVersion": "5"}, "items": None})
    assert list(client.list(PODS).items) == []


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", Invalid),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", Invalid),
        (415, "UnsupportedMediaType", Invalid),
        (418, "", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_an_error_is_told_by_what_the_caller_must_do_next(
    server: Server, client: KubeClient, code: int, reason: str, kind: type[ApiError]
) -> None:
    server.says(code, {"kind": "Status", "reason": reason, "message": "said so", "code": code})
    with pytest.raises(ApiError) as error:
        client.get(PODS, "p", "n")
    assert type(error.value) is kind
    assert (error.value.status, error.value.reason, str(error.value)) == (code, reason, "said so")


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097155 vs. 2097152)",
    ],
)
def test_what_is_too_large_for_the_store_is_refused_and_not_unknown(
    server: Server, client: KubeClient, message: str
) -> None:
    server.says(500, {"kind": "Status", "message": message, "code": 500})
    with pytest.raises(Invalid, match=r"too large|larger than"):
        client.patch(LEASES, "l", {}, namespace="n")


def test_a_busy_server_says_how_long_to_wait(server: Server, client: KubeClient) -> None:
    server.says(429, {"reason": "TooManyRequests"}, Retry_After="3")
    with pytest.raises(Unavailable) as error:
        client.get(PODS, "p", "n")
    assert error.value.retry_after == 3.0
    assert len(server.requests) == 1


def test_an_answer_that_is_no_status_is_still_told(server: Server, client: KubeClient) -> None:
    server.says(502, b"<html>bad gateway</html>")
    with pytest.raises(Unavailable, match="bad gateway"):
        client.get(PODS, "p", "n")
    server.says(200, b"{")
    with pytest.raises(Unavailable, match="cannot be decoded"):
        client.get(PODS, "p", "n")


def test_a_connection_that_breaks_leaves_it_open_whether_the_write_took_place(
    server: Server, client: KubeClient
) -> None:
    server.cut_short = True
    with pytest.raises(Unavailable) as error:
        client.create(PODS, {"metadata": {"name": "p"}}, "n")
    assert error.value.status == 0
    assert len(server.requests) == 1
    nobody = KubeClient(Access("http://127.0.0.1:1"))
    with pytest.raises(Unavailable):
        nobody.get(PODS, "p", "n")


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


POD = {"kind": "Pod", "metadata": {"name": "p", "resourceVersion": "6"}}


def test_a_watch_asks_for_bookmarks_and_ends_with_its_stream(server: Server, client: KubeClient) -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "9"}}
    server.says(200, lines({"type": "ADDED", "object": POD}, {"type": "BOOKMARK", "object": bookmark}))
    seen = list(client.watch(PODS, resource_version="5", timeout_seconds=7))
    assert [(event.type, event.object) for event in seen] == [("ADDED", POD), ("BOOKMARK", bookmark)]
    asked = server.requests[0][1]
    assert asked == "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=7"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [(410, "Expired", Gone), (500, "InternalError", Unavailable), (429, "TooManyRequests", Unavailable)],
)
def test_an_error_inside_a_watch_comes_after_what_went_before(
    server: Server, client: KubeClient, code: int, reason: str, kind: type[ApiError]
) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "too old"}
    server.says(200, lines({"type": "MODIFIED", "object": POD}, {"type": "ERROR", "object": status}))
    watch = client.watch(PODS, resource_version="5")
    assert next(watch).type == "MODIFIED"
    with pytest.raises(kind, match="too old"):
        next(watch)


def test_a_watch_can_be_refused_at_once(server: Server, client: KubeClient) -> None:
    server.says(410, {"reason": "Expired", "message": "too old"})
    with pytest.raises(Gone):
        next(client.watch(PODS, resource_version="5"))


def test_a_watch_that_breaks_off_shows_whole_changes_only(server: Server, client: KubeClient) -> None:
    server.cut_short = True
    server.says(200, lines({"type": "ADDED", "object": POD}) + b'{"type": "ADD')
    watch = client.watch(PODS, resource_version="5")
    assert next(watch).type == "ADDED"
    with pytest.raises(Unavailable, match="watch pods: connection lost"):
        next(watch)


def test_a_watch_does_not_go_on_before_an_event_that_nobody_can_read(server: Server, client: KubeClient) -> None:
    server.says(200, lines({"type": "ADDED", "object": POD}) + b'{"type":"ADDED","object":{"metadata":{}}]}\n')
    watch = client.watch(PODS, resource_version="5")
    assert next(watch).type == "ADDED"
    with pytest.raises(Gone, match="watch pods: an event cannot be decoded"):
        next(watch)


def test_a_watch_that_is_silent_for_too_long_ends(
    monkeypatch: pytest.MonkeyPatch, server: Server, client: KubeClient
) -> None:
    monkeypatch.setattr("driver.kube.client.WATCH_IDLE_SECONDS", 0.3)
    server.stalled.clear()
    server.says(200, lines({"type": "ADDED", "object": POD}))
    assert [event.type for event in client.watch(PODS, resource_version="5")] == ["ADDED"]
    server.stalled.set()


def test_an_object_without_its_namespace_is_not_sent(server: Server, client: KubeClient) -> None:
    with pytest.raises(Invalid, match=r"metadata\.namespace"):
        client.create(PODS, {"metadata": {"name": "p"}})
    with pytest.raises(Invalid):
        client.get(PODS, "p")
    assert server.requests == []


def test_an_error_without_words_says_its_code() -> None:
    assert str(error_from(503, {})) == "HTTP status 503"


def test_a_client_with_a_bound_gives_up(server: Server) -> None:
    client = KubeClient(Access(server.url), call_seconds=0.2)
    server.stalled.clear()
    with pytest.raises(Unavailable):
        client.patch(LEASES, "l", {}, namespace="n")
    with pytest.raises(Unavailable):
        client.get(LEASES, "l", "n")
    server.stalled.set()
    client.close()


def test_the_server_gives_up_a_write_after_the_bound_of_the_client(server: Server) -> None:
    client = KubeClient(Access(server.url), call_seconds=30)
    client.patch(LEASES, "l", {}, namespace="n")
    client.get(LEASES, "l", "n")
    client.close()
    writing, reading = (path for _, path, _, _ in server.requests)
    assert writing.endswith("?fieldValidation=Strict&timeout=30s")
    assert "timeout" not in reading


@pytest.mark.parametrize(
    ("access", "path", "host"),
    [
        (lambda url: Access(f"{url}/clusters/a"), "/clusters/a/api/v1/namespaces/n/pods/p", None),
        (
            lambda url: Access("http://api.example:8080/clusters/a", proxy=url),
            "http://api.example:8080/clusters/a/api/v1/namespaces/n/pods/p",
            "api.example:8080",
        ),
    ],
    ids=["a server below a path", "a server behind a proxy"],
)
def test_a_server_need_not_be_at_the_root_of_a_host_nor_be_reached_directly(
    server: Server, access: Callable[[str], Access], path: str, host: str | None
) -> None:
    client = KubeClient(access(server.url))
    client.get(PODS, "p", "n")
    client.close()
    (_, asked, headers, _) = server.requests[0]
    assert asked == path
    assert headers["Host"] == (host or server.url.removeprefix("http://"))
