"""Connections are used again as long as they are good, and no longer."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from driver.errors import OperatorFault
from driver.kube.access import Access
from driver.kube.api import Unavailable
from driver.kube.connections import Connections, HttpRequest

CONNECTIONS: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    """Answers with the number of its connection; ends that after the answer without a word if it is asked to."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        CONNECTIONS.append(self)

    def do_GET(self) -> None:
        if self.path == "/together":
            TOGETHER.wait(5)
        if self.path == "/late":
            GIVEN_UP.wait(5)
        number = str(CONNECTIONS.index(self)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(number)))
        self.end_headers()
        self.wfile.write(number)
        self.close_connection = self.path == "/last"

    def log_message(self, format: str, *args: Any) -> None:
        pass


TOGETHER = threading.Barrier(3)
GIVEN_UP = threading.Event()


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.has_closed = threading.Event()
        """It has closed a connection."""

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.has_closed.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go before its answer comes."""


@pytest.fixture
def server() -> Iterator[Server]:
    CONNECTIONS.clear()
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def connections(server: Server) -> Iterator[Connections]:
    made = Connections(Access(f"http://127.0.0.1:{server.server_port}"), idle=2)
    yield made
    made.close()


def ask(connections: Connections, path: str = "/") -> int:
    """The number of the connection that was used."""
    return int(connections.send(HttpRequest("GET", path, {}), 5.0).read())


def test_a_connection_is_used_again(connections: Connections) -> None:
    assert [ask(connections) for _ in range(3)] == [0, 0, 0]


def test_a_connection_that_the_server_has_closed_is_not_used_again(connections: Connections, server: Server) -> None:
    assert ask(connections, "/last") == 0
    assert server.has_closed.wait(5)
    assert ask(connections) == 1


def test_simultaneous_requests_have_own_connections_and_no_more_than_wanted_are_kept(
    connections: Connections,
) -> None:
    with ThreadPoolExecutor(3) as threads:
        used = set(threads.map(lambda _: ask(connections, "/together"), range(3)))
    assert used == {0, 1, 2}
    responses = [connections.send(HttpRequest("GET", "/", {}), 5.0) for _ in range(3)]
    assert len({int(response.read()) for response in responses} - used) == 1, "two were kept"


def test_an_answer_that_nobody_reads_takes_its_connection_along(connections: Connections) -> None:
    connections.send(HttpRequest("GET", "/", {}), 5.0).close()
    assert ask(connections) == 1


def test_something_is_done_while_the_server_works(connections: Connections) -> None:
    done: list[int] = []
    response = connections.send(HttpRequest("GET", "/", {}), 5.0, meanwhile=lambda: done.append(1))
    assert (response.read(), done) == (b"0", [1])


def test_what_is_raised_during_a_request_leaves_no_answer_for_the_next_one(
    connections: Connections,
) -> None:
    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        connections.send(HttpRequest("GET", "/", {}), 5.0, meanwhile=fail)
    assert ask(connections) == 1


def test_nothing_is_awaited_beyond_the_bound_for_all(connections: Connections) -> None:
    with pytest.raises(Unavailable, match="timed out"):
        connections.send(HttpRequest("GET", "/", {}), 5.0, 1e-9)  # it is over before there is a connection
    with pytest.raises(Unavailable, match="timed out"):
        connections.send(HttpRequest("GET", "/", {}), 5.0, 0.1, lambda: time.sleep(0.15))
    with pytest.raises(Unavailable, match="timed out"):
        connections.send(HttpRequest("GET", "/late", {}), 5.0, 0.1)
    GIVEN_UP.set()


@pytest.mark.parametrize("proxy", ["https://proxy.example:3128", "socks5://proxy.example", "proxy.example:3128"])
def test_a_proxy_that_is_not_reached_over_http_is_refused(proxy: str) -> None:
    with pytest.raises(OperatorFault, match=r"must be http://HOST:PORT"):
        Connections(Access("https://api.example", proxy=proxy), idle=1)
