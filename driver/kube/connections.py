"""Connections to an API server that are kept for the next request. Only home of ``ssl``.

The standard library's client is enough for one server, and takes half the time of larger libraries for a request.
"""

import math
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from typing import Any
from urllib.parse import SplitResult, urlsplit

from driver.errors import OperatorFault
from driver.kube.access import Access
from driver.kube.api import Unavailable, nothing

CONNECT_SECONDS = 5.0
_CHUNK_BYTES = 1 << 16
_KEEP_ALIVE_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds without data before the first probe (macOS: TCP_KEEPALIVE), seconds between probes, and their number."""


def keep_alive(platform: Any = socket) -> list[tuple[int, int, int]]:
    """The socket options that find broken connections, as far as the platform's module ``socket`` has them."""
    known = [(getattr(platform, name, None), value) for name, value in _KEEP_ALIVE_OPTIONS.items()]
    options = [(platform.IPPROTO_TCP, option, value) for option, value in known if option is not None]
    return [(platform.SOL_SOCKET, platform.SO_KEEPALIVE, 1), *options]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; ``target`` is the path and query below the address of the server."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Connections:
    """Connections to one server. Thread-safe.

    Args:
        idle: the maximum number of connections that are kept; more are opened and closed as needed.

    Raises:
        OperatorFault: the proxy is not reached over HTTP.
    """

    def __init__(self, access: Access, idle: int):
        self._access = access
        self._server = urlsplit(access.server)
        self._proxy = urlsplit(access.proxy) if access.proxy else None
        if self._proxy and (self._proxy.scheme != "http" or not self._proxy.hostname):
            raise OperatorFault(f"proxy {access.proxy}: must be http://HOST:PORT; correct proxy-url of the kubeconfig")
        # A proxy is told the whole address, unless it only passes on what is encrypted.
        self._base = access.server if self._proxy and self._server.scheme == "http" else self._server.path
        self._most = idle
        self._idle: deque[HTTPConnection] = deque()

    def send(
        self, request: HttpRequest, seconds: float, in_all: float = 0, meanwhile: Callable[[], object] = nothing
    ) -> "Response":
        """Send a request and wait for the head of the answer.

        Args:
            seconds: how long the server may send nothing.
            in_all: how long it may take until the answer begins; 0 sets no bound.
            meanwhile: called while the server works; what it raises is raised in the place of the answer.

        Raises:
            Unavailable: there is no answer. Whether the server has carried out the request is not known.
        """
        deadline = time.monotonic() + in_all if in_all else math.inf
        connection = self._taken() or self._made()
        try:
            if connection.sock is None:
                connection.timeout = _left(CONNECT_SECONDS, deadline)
                connection.connect()
            connection.sock.settimeout(_left(seconds, deadline))
            connection.request(request.method, self._base + request.target, request.body, request.headers)
        except (HTTPException, OSError) as error:
            connection.close()
            raise Unavailable(f"{error}") from error
        try:
            meanwhile()
            try:
                connection.sock.settimeout(_left(seconds, deadline))
                return Response(connection, connection.getresponse(), self)
            except (HTTPException, OSError) as error:
                raise Unavailable(f"{error}") from error
        except BaseException:
            connection.close()
            raise

    def keep(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer has been read for the next request."""
        if connection.sock is not None:
            self._idle.append(connection)
            self._close_all_but(self._most)

    def close(self) -> None:
        """Close the connections that wait for a request."""
        self._close_all_but(0)

    def _close_all_but(self, most: int) -> None:
        """Close connections until no more wait; those that have waited longest first."""
        with suppress(IndexError):  # other threads take connections meanwhile
            while len(self._idle) > most:
                self._idle.popleft().close()

    def _taken(self) -> HTTPConnection | None:
        """The connection that was used last, unless the server has closed it."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _is_readable(connection.sock):
                return connection
            connection.close()

    def _made(self) -> HTTPConnection:
        """A connection that is not open yet."""
        address = self._proxy or self._server
        if self._server.scheme == "http":
            return _Connection(_host(address), address.port or 80)
        connection = _TlsConnection(self._access, _host(self._server), address)
        if self._proxy:
            connection.set_tunnel(_host(self._server), self._server.port or 443)
        return connection


class Response:
    """An answer whose body is read once.

    Attributes:
        status: the HTTP status code.
    """

    def __init__(self, connection: HTTPConnection, response: HTTPResponse, connections: Connections):
        self._connection = connection
        self._response = response
        self._connections = connections
        self.status = response.status
        self.headers: HTTPMessage = response.headers

    def read(self) -> bytes:
        """Read the whole body.

        Raises:
            Unavailable: the connection broke before its end.
        """
        try:
            data = self._response.read()
        except (HTTPException, OSError) as error:
            self.close()
            raise Unavailable(f"connection lost: {error!r}") from error
        except BaseException:
            self.close()
            raise
        self._connections.keep(self._connection)
        return data

    def chunks(self) -> Iterator[bytes]:
        """The parts of the body as they come; ends with the body, or when the server sends nothing for too long.

        The caller closes the response.

        Raises:
            Unavailable: the connection broke before the end of the body.
        """
        try:
            while chunk := self._response.read1(_CHUNK_BYTES):
                yield chunk
        except TimeoutError:
            return
        except (HTTPException, OSError) as error:
            raise Unavailable(f"connection lost: {error!r}") from error

    def close(self) -> None:
        """Close the connection without reading the rest of the body."""
        self._response.close()
        self._connection.close()


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        for option in keep_alive():
            self.sock.setsockopt(*option)


class _TlsConnection(_Connection):
    """A connection with the certificates of an ``Access``. Each connection reads them, because they can be replaced."""

    def __init__(self, access: Access, host: str, address: SplitResult):
        super().__init__(_host(address), address.port or 443)
        self._access = access
        self._server_name = access.server_name or host

    def connect(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self._access.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self._access.ca_file:
            context.load_verify_locations(self._access.ca_file)
        else:
            context.load_default_certs()
        if self._access.cert_file:
            context.load_cert_chain(self._access.cert_file, self._access.key_file or None)
        super().connect()
        self.sock = context.wrap_socket(self.sock, server_hostname=self._server_name)


def _left(seconds: float, deadline: float) -> float:
    """The seconds to wait at most, and not beyond the deadline."""
    left = min(seconds, deadline - time.monotonic())
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _host(address: SplitResult) -> str:
    return address.hostname or ""


def _is_readable(sock: socket.socket) -> bool:
    """True if data has come. Between two requests, that is the end of the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
