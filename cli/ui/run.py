"""The work of ``lode ui``: follow the cluster, serve the page over HTTP, until it is interrupted."""

import argparse
import secrets
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, NoReturn

from cli import live
from cli.ui.access import Door, OneUserDoor, ReviewedDoor
from cli.ui.answers import MOST_BYTES, SAFE, PageAnswer, PageAnswers, PageRequest
from cli.ui.following import FleetWatch
from cli.ui.publishing import FleetDocuments
from cli.ui.questions import ClusterQuestions
from driver.clock import SystemClock
from driver.errors import OperatorFault
from driver.kube.access import from_environment
from driver.kube.client import KubeClient
from driver.names import Names
from driver.observe import BackgroundServer, configure_logs

_IDLE_SECONDS: Final = 5.0
"""Seconds that a connection may be silent before it is closed."""
_MOST_DIGITS: Final = 20
"""Of the length of a body: Python refuses to read some thousands."""
_BODY_SECONDS: Final = 30.0
"""Seconds in which the body of a request has to arrive."""


class PageServer(BackgroundServer):
    """Serves the page.

    Args:
        address: ``host:port``.
        answer: is called by several threads at once.
    """

    def __init__(self, address: str, answer: Callable[[PageRequest], PageAnswer]):
        super().__init__(address, type("Handler", (_Handler,), {"answer": staticmethod(answer)}), "page")


class _Handler(BaseHTTPRequestHandler):
    answer: Callable[[PageRequest], PageAnswer]
    timeout = _IDLE_SECONDS
    server_version = "lode"
    error_content_type = "application/json"
    error_message_format = '{"error": "the request is not understood"}'
    sys_version = ""

    def do_GET(self) -> None:
        self._send(self.answer(self._request(b"")))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "say how long the body is")
        elif len(length) > _MOST_DIGITS or int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a manifest has at most {MOST_BYTES} bytes")
        elif (body := self._body(int(length))) is None:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")
        else:
            self._send(self.answer(self._request(body)))

    def _request(self, body: bytes) -> PageRequest:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return PageRequest(self.command, self.path, headers, body)

    def _body(self, length: int) -> bytes | None:
        """The body; None if it is not complete in time, even if parts of it keep coming."""
        parts, left, until = [], length, time.monotonic() + _BODY_SECONDS
        while left > 0:
            part = self.rfile.read1(left)
            if not part or time.monotonic() > until:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        body = f'{{"error": "{message}"}}'.encode()
        self._send(PageAnswer(status, body, {**SAFE, "Content-Type": "application/json"}))

    def _send(self, found: PageAnswer) -> None:
        self.send_response(found.status)
        for name, value in found.headers.items():
            self.send_header(name, value)
        if found.status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        self.wfile.write(found.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their addresses name objects."""


PAGE: Final = Path(__file__).parent / "page"
"""The files of the page."""
_HOST: Final = "127.0.0.1"


def run(arguments: argparse.Namespace) -> int:
    """Serve until the user interrupts it; the exit status."""
    configure_logs("error", "console")
    try:
        with live.cluster(arguments.kubeconfig, arguments.context) as (api, namespace):
            questions = ClusterQuestions(api, Names(arguments.driver), arguments.namespace or namespace)
            if arguments.listen:
                _serve_everybody(questions, arguments)
            with served(questions, arguments.port) as address:
                print(f"The fleet is at {address}\nInterrupt (Ctrl-C) to stop.", flush=True)
                threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    return 0


@contextmanager
def served(questions: ClusterQuestions, port: int = 0) -> Iterator[str]:
    """Serve the page of a cluster on this machine alone; yields its address, with the token that it needs.

    Args:
        port: 0 for one that is free.

    Raises:
        OperatorFault: the port cannot be used.
    """
    token, hosts = secrets.token_urlsafe(32), set[str]()
    with _page(questions, OneUserDoor(token, questions), f"{_HOST}:{port}", hosts) as bound:
        hosts |= {f"{name}:{bound}" for name in (_HOST, "localhost")}
        yield f"http://{_HOST}:{bound}/#token={token}"


@contextmanager
def served_to_all(
    questions: ClusterQuestions, connect: Callable[[str], AbstractContextManager[ClusterQuestions]], address: str
) -> Iterator[int]:
    """Serve the page to users of the cluster, each with the rights of the token that they send; yields the port.

    Args:
        questions: with the rights of this program: it reads the fleet and asks who may see what of it.
        connect: connects to the cluster with a token.

    Raises:
        OperatorFault: the address cannot be used.
    """
    with _page(questions, ReviewedDoor(questions.api, connect, SystemClock()), address, None) as bound:
        yield bound


@contextmanager
def _page(questions: ClusterQuestions, door: Door, address: str, hosts: Collection[str] | None) -> Iterator[int]:
    clock = SystemClock()
    watch = FleetWatch(questions.api, questions.names, clock, questions.namespace)
    documents = FleetDocuments(watch, questions.names.driver, clock)
    try:
        server = PageServer(address, PageAnswers(documents, door, hosts, PAGE).answer)
    except (OSError, OverflowError, ValueError) as error:
        raise OperatorFault(f"address {address}: cannot be used: {error}; choose another one") from error
    watch.start()
    documents.start()
    try:
        yield server.port
    finally:
        server.close()
        documents.close()
        watch.close()


def _serve_everybody(questions: ClusterQuestions, arguments: argparse.Namespace) -> NoReturn:
    """Serve until the program is ended, as a pod does it."""
    access = from_environment(arguments.kubeconfig, context=arguments.context)

    @contextmanager
    def connect(token: str) -> Iterator[ClusterQuestions]:
        client = KubeClient(replace(access, cert_file="", key_file="", token=lambda: token))
        try:
            yield replace(questions, api=client)
        finally:
            client.close()

    with served_to_all(questions, connect, arguments.listen) as port:
        # The kernel ends the first program of a container only if it asks for that.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        print(f"Serving users with their own tokens at {arguments.listen.rpartition(':')[0]}:{port}", flush=True)
        while True:
            threading.Event().wait()
