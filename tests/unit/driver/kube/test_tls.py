"""The client and the API server know each other by their certificates."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar

import pytest

from driver.kube.access import Access
from driver.kube.api import PODS, Unavailable
from driver.kube.client import KubeClient
from driver.kube.codec import encode_object
from testclusters.pki import Authority

STORED = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "7"}}


class Proxy(StreamRequestHandler):
    """Passes on what is encrypted, to whatever address it is told; the name there may be another."""

    asked: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.asked.append(self.rfile.readline().decode().split(" ")[1])
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", int(self.asked[-1].rpartition(":")[2]))) as other:
            back = threading.Thread(target=_copy, args=(other, self.connection))
            back.start()
            _copy(self.connection, other)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(1 << 16):
        target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        content = encode_object(STORED)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    """A server that asks for a certificate and is itself certified under a name that is not its address."""
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "server", addresses=["api.internal"]))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = (str(path) for path in authority.issue("client", "lode"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"https://127.0.0.1:{server.server_port}"
        yield Access(url, str(authority.certificate), certificate, key, server_name="api.internal")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("change", "answered"),
    [
        ({}, True),
        ({"ca_file": ""}, False),
        ({"server_name": ""}, False),
        ({"cert_file": "", "key_file": ""}, False),
        ({"ca_file": "", "server_name": "", "verify": False}, True),
    ],
    ids=["all", "authority unknown", "another name", "no certificate", "not verified"],
)
def test_a_server_is_spoken_to_if_each_side_trusts_the_other(
    access: Access, change: dict[str, Any], answered: bool
) -> None:
    client = KubeClient(replace(access, **change))
    try:
        if answered:
            client.get(PODS, "p", "n")
        else:
            with pytest.raises(Unavailable):
                client.get(PODS, "p", "n")
    finally:
        client.close()


def test_a_server_behind_a_proxy_is_spoken_to_as_without_one(access: Access) -> None:
    address = access.server.removeprefix("https://127.0.0.1:")
    with ThreadingTCPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        through = replace(access, server=f"https://api.internal:{address}", server_name="")
        client = KubeClient(replace(through, proxy=f"http://127.0.0.1:{proxy.server_address[1]}"))
        assert client.get(PODS, "p", "n") == STORED
        client.close()
        proxy.shutdown()
        thread.join()
    assert Proxy.asked == [f"api.internal:{address}"]
