"""What ``lode ui`` serves, over real sockets, from an API in memory."""

import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest
import yaml

from cli.shipped import device_classes
from cli.ui import run as serving
from cli.ui.answers import MOST_BYTES
from memoryapi import MemoryApi
from tests.unit.cli.cluster import claim, node, pod, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.served import JSON, Browser, filled, memory_api, page_of

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def api() -> MemoryApi:
    gate = [{"name": "lode.dev/allocation"}]
    waits = [stored(claim("big", count=2)), stored(pod("waits", "big", schedulingGates=gate))]
    holder = held("c", "a/gpu-0", "p")
    return memory_api(stored(node("a")), *device_classes(), *slices("a", "t4x2", ("whole",)), holder, *waits)


@pytest.fixture(scope="module")
def browser(api: MemoryApi) -> Iterator[Browser]:
    with page_of(api) as found:
        yield found


def fleet(browser: Browser) -> JSON:
    until = time.monotonic() + PATIENCE_SECONDS
    while (reply := browser.ask("/fleet.json")).status == 503:
        assert reply.headers["Retry-After"] == "1"
        assert reply.json["error"]
        assert time.monotonic() < until
        time.sleep(0.05)
    assert reply.status == 200
    return reply.json


def test_the_document_shows_the_cards_of_the_cluster(browser: Browser) -> None:
    found = fleet(browser)
    assert [found["states"][one] for one in found["cards"]["state"]] == ["whole", "free"]
    assert (found["missing"], found["problems"], found["notes"]) == ([], [], [])


def test_an_unchanged_document_is_not_sent_again(browser: Browser) -> None:
    fleet(browser)
    whole = browser.ask("/fleet.json", Accept_Encoding="gzip")
    assert gzip.decompress(whole.body) == browser.ask("/fleet.json").body
    again = browser.ask("/fleet.json", If_None_Match=f'W/"other", {whole.headers["ETag"]}')
    assert (again.status, again.body, again.headers["Age"]) == (304, b"", "0")


def test_a_change_is_followed(browser: Browser, api: MemoryApi) -> None:
    before = browser.ask("/fleet.json").headers.get("ETag", "")
    filled(api, held("new", "a/gpu-1", "q"))
    until = time.monotonic() + PATIENCE_SECONDS
    while "new" not in fleet(browser)["claims"]["name"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert browser.ask("/fleet.json").headers["ETag"] != before


def test_a_pod_is_explained_down_to_the_device(browser: Browser) -> None:
    reply = browser.ask("/explain?what=pod/waits&namespace=default")
    assert reply.status == 200
    assert (reply.json["kind"], reply.json["result"], reply.json["reason"]) == ("Pod", "waiting", "Unallocatable")
    assert reply.json["reasons"]["groups"]
    assert reply.json["text"].startswith("Pod default/waits waits")


def test_a_card_is_explained(browser: Browser) -> None:
    reply = browser.ask(f"/explain?what={quote('card/a/gpu-0', safe='')}")
    assert (reply.json["use"], reply.json["holders"][0]["claim"]) == ("whole", "c")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "say what to explain"),
        ("what=pod/nobody", "no Pod nobody in namespace default"),
        ("what=x/y/z", "names nothing"),
    ],
)
def test_what_cannot_be_explained_says_why(browser: Browser, query: str, said: str) -> None:
    reply = browser.ask(f"/explain?{query}")
    assert reply.status == 400
    assert said in reply.json["error"]


def test_a_manifest_is_simulated_beside_what_is_there(browser: Browser) -> None:
    manifest = yaml.safe_dump_all([claim("wanted", count=2), pod("new", "wanted")])
    reply = browser.ask("/simulate?namespace=default", manifest.encode())
    assert reply.status == 200
    (only,) = reply.json["pods"]
    assert (only["name"], only["result"], reply.json["waiting"]) == ("new", "waiting", 1)
    assert "Pod default/new waits" in reply.json["text"]


def test_the_faults_of_a_manifest_are_told_at_once(browser: Browser) -> None:
    bad = {**claim("c"), "spec": {"devices": {"requests": [{"name": "r"}, {"name": "R"}]}}}
    reply = browser.ask("/simulate", yaml.safe_dump(bad).encode())
    assert reply.status == 422
    assert len(reply.json["faults"]) > 1
    assert {one["file"] for one in reply.json["faults"]} == {"manifest"}


@pytest.mark.parametrize(("body", "status"), [(b"\xff", 400), (b"a: [", 422), (b"", 200), (b"- 1", 422)])
def test_what_is_no_manifest_gets_an_answer(browser: Browser, body: bytes, status: int) -> None:
    assert browser.ask("/simulate", body).status == status


# Who gets an answer


@pytest.mark.parametrize("path", ["/fleet.json", "/explain?what=pod/p"])
@pytest.mark.parametrize("authorization", [None, "Bearer ", "Bearer wrong", "Basic x", "Bearer é"])
def test_without_the_token_nothing_is_told(browser: Browser, path: str, authorization: str | None) -> None:
    reply = browser.ask(path, Authorization=authorization)
    assert (reply.status, list(reply.json)) == (401, ["error"])
    assert reply.headers["WWW-Authenticate"] == "Bearer"


def test_without_the_token_nothing_is_simulated(browser: Browser) -> None:
    assert browser.ask("/simulate", b"", Authorization=None).status == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", ""])
@pytest.mark.parametrize("path", ["/", "/fleet.json"])
def test_a_page_of_another_name_gets_nothing(browser: Browser, path: str, host: str) -> None:
    assert browser.ask(path, Host=host).status == 421


def test_every_answer_has_the_headers_that_keep_other_pages_out(browser: Browser) -> None:
    replies = [browser.ask("/"), browser.ask("/fleet.json"), browser.ask("/none"), browser.ask("/", Host="evil")]
    for reply in replies:
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in reply.headers


def test_the_page_needs_no_token(browser: Browser) -> None:
    reply = browser.ask("/", Authorization=None)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert browser.ask("/main.js", Authorization=None).headers["Content-Type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["/../run.py", "/page/index.html", "//etc/passwd", "/%2e%2e/run.py", "/nothing.js", "/run.py", "/.x.js"]
)
def test_no_other_file_is_served(browser: Browser, path: str) -> None:
    assert browser.ask(path).status == 404


def test_other_methods_are_refused(browser: Browser) -> None:
    assert browser.ask("/fleet.json", b"").status == 405
    assert browser.ask("/", b"").status == 405
    assert browser.ask("/simulate").status == 405


@pytest.mark.parametrize("line", [b"TRACE / HTTP/1.1", b"<script>alert(1)</script> / HTTP/1.1", b"\xff\x00", b"GET"])
def test_what_is_no_request_is_told_so_in_json(browser: Browser, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", browser.port), timeout=30) as connection:
        connection.sendall(line + b"\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b'{"error": "the request is not understood"}' in answer
    assert b"<" not in answer.partition(b"\r\n\r\n")[2]


def test_a_silent_client_is_not_waited_for(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.5)
    with socket.create_connection(("127.0.0.1", browser.port), timeout=30) as connection:
        connection.sendall(b"POST /simulate HTTP/1.1\r\nContent-Length: 5\r\n\r\na")
        assert browser.ask("/").status == 200
        with suppress(ConnectionError):
            assert list(iter(lambda: connection.recv(4096), b"")) == []


@pytest.mark.parametrize("length", [str(MOST_BYTES + 1), "9" * 5000])
def test_a_body_is_bounded(browser: Browser, length: str) -> None:
    reply = browser.ask("/simulate", b"", Content_Length=length)
    assert (reply.status, list(reply.json)) == (413, ["error"])
    assert browser.ask("/simulate", b"", Content_Length="-1").status == 411


def test_it_listens_on_this_machine_alone(browser: Browser) -> None:
    with socket.socket() as other:
        other.settimeout(5)
        name = socket.gethostbyname(socket.gethostname())
        assert name.startswith("127.") or other.connect_ex((name, browser.port))
