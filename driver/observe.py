"""Logs, metrics and health checks. Only home of ``structlog`` and ``prometheus_client``."""

import contextlib
import logging
import socket
import socketserver
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from driver.limits import MAX_LOG_VALUE, MAX_TRACEBACK, bounded

Logger = Any
"""A structlog bound logger: ``log.info("event", key=value)``; ``log.bind(...)`` adds context."""


def configure_logs(level: str, log_format: str) -> None:
    """Write structured logs to standard error: one JSON object a line, or coloured text."""
    renderer: Any = structlog.processors.JSONRenderer() if log_format == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            bounded_values,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def bounded_values(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut texts that are too long: messages contain texts of users."""
    for key, value in line.items():
        if isinstance(value, str) and len(value) > MAX_LOG_VALUE:
            line[key] = bounded(value, MAX_TRACEBACK if key == "exception" else MAX_LOG_VALUE)
    return line


def logger(component: str) -> Logger:
    """A logger whose lines carry ``component``."""
    return structlog.get_logger().bind(component=component)


_without_creation_times: Callable[[], None] = disable_created_metrics
SHORT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Buckets of calls and decisions."""
LONG: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
"""Buckets of what may wait for others."""
_without_creation_times()  # a second series for each counter and bucket, with the time of its first use


METRICS: Final = "/metrics"
"""The path of a program's own metrics."""


class Metrics:
    """The metrics of one program, in a separate registry. Names get the prefix ``lode_`` and contain the unit.

    Attributes:
        further: by path, functions that return series as text in the format of Prometheus: those of ``/metrics`` are
            too many for the registry, and those of other paths have the names of other systems.
    """

    def __init__(self) -> None:
        self.further: dict[str, Callable[[], bytes]] = {}
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._ready = self.gauge(
            "start_to_ready_seconds", "Time from the start of the process until it first was ready."
        )

    def mark_ready(self) -> float:
        """Record that the program is ready now; the seconds since its process started (0 except on Linux)."""
        started = self.registry.get_sample_value("process_start_time_seconds")
        seconds = time.time() - started if started else 0.0
        self._ready.set(seconds)
        return seconds

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        """A counter; ``_total`` is appended."""
        return Counter(f"lode_{name}", what, labels, registry=self.registry)

    def gauge(self, name: str, what: str, *labels: str) -> Gauge:
        """A gauge."""
        return Gauge(f"lode_{name}", what, labels, registry=self.registry)

    def histogram(self, name: str, what: str, *labels: str, buckets: Sequence[float] = SHORT) -> Histogram:
        """A histogram of seconds, by default from 1 ms to 60 s."""
        return Histogram(f"lode_{name}", what, labels, registry=self.registry, buckets=buckets)

    def add(self, path: str, write: Callable[[], bytes]) -> None:
        """Serve further series under a path, after those that are there."""
        earlier = self.further.get(path)
        self.further[path] = write if earlier is None else lambda: earlier() + write()

    def text(self, path: str) -> bytes | None:
        """All metrics of a path as text in the format of Prometheus; None if there is no such path."""
        further = self.further.get(path)
        if path == METRICS:
            return generate_latest(self.registry) + (further() if further else b"")
        return further() if further else None


Checks = Mapping[str, Callable[[], str]]
"""Path, such as ``/readyz``, to a function that returns "" on success, else the problem."""


Pages = Mapping[str, Callable[[], str]]
"""Path, such as ``/debug/usage``, to a function that returns a JSON document."""


MAX_CONNECTIONS = 32
"""The most open connections. The oldest is closed for a new one, so silent clients keep nobody out."""
IDLE_SECONDS = 5.0
"""Seconds that a connection may be silent before it is closed."""


LEAST_COMPRESSED = 1 << 16
"""Bytes from which on an answer is compressed for those who accept that."""


def compressed(body: bytes) -> bytes:
    """The body in the format of gzip, quickly rather than small. Other threads run meanwhile."""
    packer = zlib.compressobj(level=1, wbits=31)
    return packer.compress(body) + packer.flush()


class BackgroundServer:
    """Serves over HTTP in its own thread until closed.

    Args:
        address: as of ``BoundedServer``.
        thread: the thread's name.
    """

    def __init__(self, address: str, handler: type[BaseHTTPRequestHandler], thread: str):
        self._server = BoundedServer(address, handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name=thread, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port in use, which differs from the address if that has port 0."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ObserveServer(BackgroundServer):
    """Serves the checks, /metrics and further pages.

    Anybody may be able to connect, so connections are bounded in number and in idle time.
    """

    def __init__(self, address: str, metrics: Metrics, checks: Checks, pages: Pages | None = None):
        super().__init__(address, _handler(metrics, checks, pages or {}), "observe")


class BoundedServer(ThreadingHTTPServer):
    """Serves each connection in a thread of its own, at most ``MAX_CONNECTIONS`` at once.

    Args:
        address: ``host:port``; an IPv6 address in brackets. Without a host, or with ``[::]``, all addresses of the
            machine, of both families if it has both.
    """

    request_queue_size = MAX_CONNECTIONS
    """Connections that may wait until they are accepted. The client of one more waits for a second or longer."""

    def __init__(self, address: str, handler: type[BaseHTTPRequestHandler]):
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        everywhere = host in ("", "::")
        self._both_families = everywhere and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._both_families or ":" in host else socket.AF_INET
        self._connections: dict[socket.socket, None] = {}
        """Open connections, the oldest first."""
        self._lock = threading.Lock()
        super().__init__(("" if everywhere else host, int(port)), handler)

    def server_bind(self) -> None:
        """Listen on both address families if the address says so. The name of this machine is not looked up."""
        if self._both_families:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve the connection in a thread of its own; close the oldest one if there are too many."""
        with self._lock:
            self._connections[request] = None
            oldest = next(iter(self._connections)) if len(self._connections) > MAX_CONNECTIONS else None
            if oldest is not None:
                del self._connections[oldest]
        if oldest is not None:
            with contextlib.suppress(OSError):  # its thread may just have closed it
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error, unless only the connection broke."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(metrics: Metrics, checks: Checks, pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            if (text := metrics.text(self.path)) is not None:
                self._answer(200, text, CONTENT_TYPE_LATEST)
            elif check := checks.get(self.path):
                problem = check()
                self._answer(503 if problem else 200, f"{problem or 'ok'}\n".encode())
            elif page := pages.get(self.path):
                self._answer(200, page().encode(), "application/json")
            else:
                self._answer(404, b"not found\n")

        def _answer(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            if len(body) >= LEAST_COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", ""):
                body = compressed(body)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    return Handler
