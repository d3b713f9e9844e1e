"""The client and the API server know each other by their certificates."""

import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from driver.kube.access import Access
from driver.kube.api import PODS, Unavailable
from driver.kube.client import KubeClient
from testclusters import Authority


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

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


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
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
