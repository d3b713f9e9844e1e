"""The answers to requests, without sockets: which path needs what, and what it gets."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qs

from cli.decisions.allowance import AsksTooMuch
from cli.live import NoRights
from cli.objects.documents import BadInput
from cli.simulate import faults_json
from cli.ui.access import Door, NotAdmitted, NoTurn, Visitor, WaitingLine
from cli.ui.document import Show
from cli.ui.publishing import PackedDocument
from cli.ui.questions import ClusterQuestions
from driver.errors import LodeError
from driver.wire import Json

MOST_BYTES: Final = 1 << 20
"""Of the body of a request."""
_MOST_PARAMETERS: Final = 10
_MOST_ASKING: Final = 16
"""Users whose questions are answered or wait: each keeps a connection, of which there are twice as many."""
_LONGEST_WAIT: Final = 60.0
"""Seconds that a question waits for those of others."""
_STATIC: Final = re.compile(r"/([a-z0-9][a-z0-9-]*\.(css|html|ico|js|png|svg))", re.ASCII)
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
_JSON: Final = "application/json"
SAFE: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer: the page runs nothing but its own files, and no other page may read or frame it."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request.

    Attributes:
        headers: by name in lower case.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What a request gets."""

    status: HTTPStatus
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class ServedDocuments(Protocol):
    """The newest document of a fleet."""

    @property
    def trouble(self) -> str:
        """Why there is no document; "" if there is one."""

    def newest(self, sees: Show) -> PackedDocument | None:
        """The document for somebody who sees the names in these namespaces; None if there is none yet."""

    def age(self) -> float:
        """Seconds since all of the fleet was known to be true."""


class RefusedRequest(Exception):
    """A request that gets no answer; the message says what to do."""

    def __init__(self, status: HTTPStatus, message: str, more: Json | None = None):
        self.status = status
        self.more = more or {}
        super().__init__(message)


class PageAnswers:
    """Answers requests of anybody who can connect. Thread-safe.

    Args:
        door: lets in who sends a token, for anything but files of the page.
        hosts: what may stand in the header ``Host``: a page of another name that points here gets nothing. None where
            it may be anything: nobody has a token for another name.
        folder: the files of the page.
    """

    def __init__(self, documents: ServedDocuments, door: Door, hosts: Collection[str] | None, folder: Path):
        self._documents = documents
        self._door = door
        self._hosts = hosts
        self._folder = folder
        self._line = WaitingLine(1, _MOST_ASKING, _LONGEST_WAIT)

    def answer(self, request: PageRequest) -> PageAnswer:
        """Return the answer to a request, whatever that is."""
        try:
            found = self._answer(request)
        except RefusedRequest as error:
            found = _json(error.status, {"error": str(error), **error.more})
        except NotAdmitted as error:
            found = _json(error.status, {"error": str(error)})
            if error.status == HTTPStatus.UNAUTHORIZED:
                found = PageAnswer(found.status, found.body, {**found.headers, "WWW-Authenticate": "Bearer"})
        return PageAnswer(found.status, found.body, {**SAFE, **found.headers})

    def _answer(self, request: PageRequest) -> PageAnswer:
        host = request.headers.get("host", "")
        if self._hosts is not None and host.lower() not in self._hosts:
            raise RefusedRequest(
                HTTPStatus.MISDIRECTED_REQUEST, f"this is not {host[:100]!r}; use the address that lode ui printed"
            )
        path, _, query = request.target.partition("?")
        given = _parameters(query)
        self._only("POST" if path == "/simulate" else "GET", request)
        match path:
            case "/fleet.json":
                return self._fleet(request, self._visitor(request))
            case "/explain":
                return self._explain(given, self._visitor(request))
            case "/simulate":
                return self._simulate(given, request.body, self._visitor(request))
            case "/healthz":
                return PageAnswer(HTTPStatus.OK, b"ok\n", {"Content-Type": "text/plain"})
            case "/readyz":
                trouble = self._documents.trouble
                status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
                return PageAnswer(status, b"not yet\n" if trouble else b"ok\n", {"Content-Type": "text/plain"})
        return self._static("/index.html" if path == "/" else path)

    def _only(self, method: str, request: PageRequest) -> None:
        if request.method != method:
            raise RefusedRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}")

    def _visitor(self, request: PageRequest) -> Visitor:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self._door.admit(token.strip() if scheme.lower() == "bearer" else "")

    def _fleet(self, request: PageRequest, visitor: Visitor) -> PageAnswer:
        document = self._documents.newest(visitor.sees)
        if document is None:
            refused = _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": self._documents.trouble})
            return PageAnswer(refused.status, refused.body, {**refused.headers, "Retry-After": "1"})
        tag = f'"{document.tag}"'
        headers = {"ETag": tag, "Age": str(int(self._documents.age())), "Vary": "Accept-Encoding"}
        if tag in [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]:
            return PageAnswer(HTTPStatus.NOT_MODIFIED, b"", headers)
        headers["Content-Type"] = _JSON
        if "gzip" in request.headers.get("accept-encoding", ""):
            return PageAnswer(HTTPStatus.OK, document.packed, {**headers, "Content-Encoding": "gzip"})
        return PageAnswer(HTTPStatus.OK, document.text, headers)

    def _explain(self, given: Mapping[str, str], visitor: Visitor) -> PageAnswer:
        what = given.get("what", "")
        if not what:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, "say what to explain: /explain?what=pod/NAME&namespace=NAME")
        return self._asked(visitor, lambda cluster: cluster.explain(what, given.get("namespace", "")))

    def _simulate(self, given: Mapping[str, str], body: bytes, visitor: Visitor) -> PageAnswer:
        try:
            manifest = body.decode()
        except UnicodeDecodeError as error:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"the manifest is not UTF-8 (byte {error.start})") from error
        return self._asked(visitor, lambda cluster: cluster.simulate(manifest, given.get("namespace", "")))

    def _asked(self, visitor: Visitor, ask: Callable[[ClusterQuestions], Json]) -> PageAnswer:
        """The answer of the cluster. One question at a time, in turns: each reads the whole cluster."""
        try:
            with self._line.turn(visitor.who), visitor.asking() as cluster:
                return _json(HTTPStatus.OK, ask(cluster))
        except NoTurn as error:
            raise RefusedRequest(HTTPStatus.TOO_MANY_REQUESTS, str(error)) from error
        except AsksTooMuch as error:
            raise RefusedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
        except BadInput as error:
            raise RefusedRequest(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), faults_json(error)) from error
        except NoRights as error:
            raise RefusedRequest(HTTPStatus.FORBIDDEN, str(error)) from error
        except LodeError as error:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, str(error)) from error

    def _static(self, path: str) -> PageAnswer:
        found = _STATIC.fullmatch(path)
        try:
            if found is not None:
                body = (self._folder / found[1]).read_bytes()
                return PageAnswer(HTTPStatus.OK, body, {"Content-Type": _TYPES[found[2]]})
        except OSError:
            pass
        raise RefusedRequest(HTTPStatus.NOT_FOUND, "there is no such page")


def _parameters(query: str) -> Mapping[str, str]:
    try:
        return {name: values[0] for name, values in parse_qs(query, max_num_fields=_MOST_PARAMETERS).items()}
    except ValueError as error:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"an address has at most {_MOST_PARAMETERS} parameters") from error


def _json(status: HTTPStatus, found: Json) -> PageAnswer:
    return PageAnswer(status, json.dumps(found).encode(), {"Content-Type": _JSON})
