"""The port to Prometheus over HTTP: what it sends, what it reads, and what it makes of servers that fail."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from cli.top.prometheus import PrometheusServer
from driver.errors import OperatorFault

VECTOR = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"UUID": "GPU-1"}, "value": [1.5, "0.25"]}]},
}


@contextmanager
def server(body: object, status: int = 200) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A server that answers so; the URL, and what it was asked: path, query and the header Authorization."""
    asked: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.path, parse_qs(text)["query"][0], self.headers.get("Authorization") or ""))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Nothing is logged."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", asked
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def test_a_query_is_sent_and_its_vector_read() -> None:
    with server(VECTOR) as (url, asked):
        (sample,) = PrometheusServer(f"{url}/prefix/", token="t").query('up{a="b"}')
    assert (sample.labels, sample.value) == ({"UUID": "GPU-1"}, 0.25)
    assert asked == [("/prefix/api/v1/query", 'up{a="b"}', "Bearer t")]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"status": "error", "error": "bad query"}, 400, "answered 400: bad query"),
        (b"<html>", 503, "answered 503"),
        (b"<html>", 200, "is no Prometheus"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, 200, "is no Prometheus"),
        ({"status": "success", "data": {"resultType": "vector", "result": [{"metric": 7}]}}, 200, "is no Prometheus"),
        ([1], 200, "is no Prometheus"),
    ],
)
def test_an_answer_that_is_none_is_told(body: object, status: int, says: str) -> None:
    with server(body, status) as (url, _), pytest.raises(OperatorFault, match=says):
        PrometheusServer(url).query("up")


def test_a_server_that_does_not_answer_is_told_with_the_remedy() -> None:
    with pytest.raises(OperatorFault, match=r"does not answer: .*; see that --prometheus is right"):
        PrometheusServer("http://127.0.0.1:1").query("up")


@pytest.mark.parametrize("url", ["", "localhost:9090", "file:///etc/passwd", "http://"])
def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(OperatorFault, match="write a URL such as http://localhost:9090"):
        PrometheusServer(url)
