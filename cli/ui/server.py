"""Serves the page over HTTP, each connection in a thread of its own, bounded in number, size and time."""

import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from cli.ui.answers import MOST_BYTES, SAFE, PageAnswer, PageRequest
from driver.observe import BackgroundServer

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
