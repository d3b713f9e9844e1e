"""``driver.kube.api.Api`` over HTTP, to a kube-apiserver. Transport only: JSON in, JSON out, errors by kind.

Nothing is retried or cached here: only the caller knows what a repeated call would mean.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from driver.kube.access import Access, from_environment
from driver.kube.api import (
    NODES,
    AlreadyExists,
    Api,
    ApiCall,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Object,
    OverBudget,
    PatchType,
    Resource,
    Unavailable,
    WatchEvent,
    nothing,
)
from driver.kube.codec import decode_event, decode_object, decode_page, encode_object
from driver.kube.connections import Connections, HttpRequest, Response

T = TypeVar("T")

READ_SECONDS = 30.0
"""Seconds that the server may send nothing before its answer is complete."""
WATCH_IDLE_SECONDS = 90.0
"""A watch without data for so long ends. Bookmarks come about every minute once anything of the kind has changed, and
reopening an idle watch is cheap. This detects connections that broke without a reset."""

_CONTENT_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_HEADERS = {"Accept": "application/json", "User-Agent": "lode"}
_STRICT = {"fieldValidation": "Strict"}
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Part of the answer, with code 500 and no reason, to the eviction of a pod that several budgets select."""

_TOO_LARGE = ("request is too large", "trying to send message larger than max")
"""Parts of the answers, with code 500, to a write that the store refuses because of its size (etcd, and its client)."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for ``path``; its body is JSON of this content type."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class KubeClient(Api):
    """One API server. Thread-safe; connections are pooled.

    Args:
        connections: the maximum number of idle connections; more are opened and closed as needed.
        call_seconds: how long a call may take, at the client and, if it changes something, in the API server as well;
            0 leaves it to the server, and to the time-outs of connections. Watches last longer.
    """

    def __init__(self, access: Access, *, connections: int = 16, call_seconds: float = 0):
        self._access = access
        self.call_seconds = call_seconds
        self._server_timeout = {"timeout": f"{call_seconds:g}s"} if call_seconds else {}
        self._connections = Connections(access, connections)

    @classmethod
    def from_environment(cls, kubeconfig: str = "", *, connections: int = 16, call_seconds: float = 0) -> "KubeClient":
        """The client for ``kubeconfig``, else ``$KUBECONFIG``, else the pod's service account, else ``~/.kube/config``.

        Raises:
            OperatorFault: no valid credentials; the message says what is missing.
        """
        return cls(from_environment(kubeconfig), connections=connections, call_seconds=call_seconds)

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def server_version(self) -> str:
        """The version of the API server, such as ``v1.37.1``; "" if it does not say."""
        return str(self._call(_Request("GET", "/version")).get("gitVersion", ""))

    def kubelet_configuration(self, node: str) -> Object:
        """What the kubelet of a node says of its configuration, asked through the API server (``/configz``).

        Raises:
            Forbidden: the user may not ask kubelets (``nodes/proxy``, or ``nodes/configz``).
            ApiError: it does not answer.
        """
        return self._call(_Request("GET", f"{NODES.path(name=quote(node, safe=''))}/proxy/configz"))

    def call(self, call: ApiCall) -> Any:
        """See ``Api``.

        Raises:
            ApiError: the server returned an error, or no valid response.
        """
        resource, path = call.resource, call.resource.path(call.namespace)
        match call.verb:
            case "list":
                added = {"apiVersion": resource.api_version, "kind": resource.kind}
                return self._ask(partial(decode_page, added=added), _Request("GET", path, _list_query(call)))
            case "watch":
                return self._watch(call, path)
        path = _path(call)
        match call.verb:
            case "get":
                request = _Request("GET", path)
                return self._answer(decode_object, request, self._send(request, meanwhile=call.meanwhile))
            case "create":
                return self._call(_Request("POST", path, _STRICT, _with_type(resource, call.body)))
            case "update":
                return self._call(_Request("PUT", path, _STRICT, _with_type(resource, call.body)))
            case "patch":
                return self._call(_Request("PATCH", path, _STRICT, call.body, _CONTENT_TYPES[call.patch_type]))
            case "delete":
                return self._call(_Request("DELETE", path, {}, _delete_options(call)))
            case "evict":
                query = _query(dryRun="All" if call.dry_run else "")
                return self._call(_Request("POST", f"{path}/eviction", query, _eviction(call)))

    def _watch(self, call: ApiCall, path: str) -> Iterator[WatchEvent]:
        """The changes as they come; ends when the server ends it or sends nothing for long.

        Raises:
            Gone: that version is too old; list again.
            ApiError: any other error, before the first or between two changes.
        """
        response = self._send(_Request("GET", path, _watch_query(call)), seconds=WATCH_IDLE_SECONDS, in_all=0)
        if response.status >= 400:
            raise _error(response, _body(response, str(call)))
        return _events(call.resource, response)

    def _call(self, request: _Request) -> Object:
        return self._ask(decode_object, request)

    def _ask(self, decoded: Callable[[bytes], T], request: _Request) -> T:
        return self._answer(decoded, request, self._send(request))

    def _answer(self, decoded: Callable[[bytes], T], request: _Request, response: Response) -> T:
        data = _body(response, str(request))
        if response.status >= 400:
            raise _error(response, data)
        try:
            return decoded(data)
        except ValueError as error:
            raise Unavailable(f"{request}: the response cannot be decoded: {error}", status=response.status) from error

    def _send(
        self,
        request: _Request,
        *,
        seconds: float = READ_SECONDS,
        in_all: float | None = None,
        meanwhile: Callable[[], object] = nothing,
    ) -> Response:
        method, query = request.method, request.query
        if method != "GET":
            query = {**query, **self._server_timeout}
        target = quote(request.path) + (f"?{urlencode(query)}" if query else "")
        headers = dict(_HEADERS)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if token := self._access.token():
            headers["Authorization"] = f"Bearer {token}"
        content = None if request.body is None else encode_object(request.body)
        bound = self.call_seconds if in_all is None else in_all
        with _named(str(request)):
            return self._connections.send(HttpRequest(method, target, headers, content), seconds, bound, meanwhile)


def error_from(code: int, status: Mapping[str, Any], retry_after: float = 0.0) -> ApiError:
    """The error for HTTP code ``code`` and a ``Status`` object (meta/v1), by what the caller must do next."""
    reason = str(status.get("reason") or "")
    kinds: dict[int, type[ApiError]] = {
        400: Invalid,
        401: Forbidden,
        403: Forbidden,
        404: NotFound,
        405: Invalid,
        409: AlreadyExists if reason == "AlreadyExists" else Conflict,
        410: Gone,
        413: Invalid,
        415: Invalid,
        422: Invalid,
        429: Unavailable,
    }
    kind = kinds.get(code, Unavailable if code >= 500 else ApiError)
    message = str(status.get("message") or f"HTTP status {code}")
    if (budgets := _budgets(status)) or _SEVERAL_BUDGETS in message:
        kind, message = OverBudget, f"{message} {budgets}".strip()
    elif code == 500 and any(text in message for text in _TOO_LARGE):
        kind = Invalid
    return kind(message, status=code, reason=reason, retry_after=retry_after)


def _budgets(status: Mapping[str, Any]) -> str:
    """What a refused eviction says about the budget; "" for every other answer."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    known = [one for one in causes if isinstance(one, dict)] if isinstance(causes, list) else []
    return " ".join(str(one.get("message") or "") for one in known if one.get("reason") == "DisruptionBudget")


@contextmanager
def _named(request: str) -> Iterator[None]:
    """Add the request to errors of the connection."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{request}: {error}") from error


def _body(response: Response, request: str) -> bytes:
    with _named(request):
        return response.read()


def _error(response: Response, body: bytes) -> ApiError:
    try:
        status: Object | None = decode_object(body)
    except ValueError:
        status = None
    if status is None:
        status = {"message": body.decode(errors="replace").strip()}
    wait = response.headers.get("Retry-After", "")
    return error_from(response.status, status, float(wait) if wait.isdigit() else 0.0)


def _events(resource: Resource, response: Response) -> Iterator[WatchEvent]:
    """The changes of an open watch; ends when the server ends it or sends nothing for long."""
    try:
        yield from map(_event, _lines(_chunks(resource, response)))
    except ValueError as error:
        # From the version before it, every watch would come to the same line again.
        raise Gone(f"watch {resource.plural}: an event cannot be decoded: {error}") from error
    finally:
        response.close()


def _chunks(resource: Resource, response: Response) -> Iterator[bytes]:
    with _named(f"watch {resource.plural}"):
        yield from response.chunks()


def _event(line: bytes) -> WatchEvent:
    kind, obj = decode_event(line)
    match kind:
        case "ERROR":
            raise error_from(obj.get("code") or 500, obj)
        case "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK":
            return WatchEvent(kind, obj)
    raise ValueError(f"unknown type of event: {kind}")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Complete lines as they come; an incomplete last line is dropped."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)


def _path(call: ApiCall) -> str:
    """The URL path of the object that the call is about; of a create, that of the collection."""
    name = "" if call.verb == "create" else call.name
    if call.resource.namespaced and not call.namespace:
        message = f"{call.resource.kind} {name!r}: metadata.namespace: is not set"
        raise Invalid(message, status=400, reason="BadRequest")
    return call.resource.path(call.namespace, name, call.subresource)


def _list_query(call: ApiCall) -> dict[str, str]:
    return _query(
        labelSelector=call.label_selector,
        fieldSelector=call.field_selector,
        limit=str(call.limit),
        **{"continue": call.continue_token},
    )


def _watch_query(call: ApiCall) -> dict[str, str]:
    return _query(
        watch="true",
        allowWatchBookmarks="true",
        resourceVersion=call.resource_version,
        labelSelector=call.label_selector,
        fieldSelector=call.field_selector,
        timeoutSeconds=str(call.timeout_seconds),
    )


def _delete_options(call: ApiCall) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := _query(uid=call.uid, resourceVersion=call.resource_version):
        options["preconditions"] = preconditions
    if call.grace_period_seconds is not None:
        options["gracePeriodSeconds"] = call.grace_period_seconds
    return options


def _eviction(call: ApiCall) -> Object:
    metadata = {"name": call.name, "namespace": call.namespace}
    kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
    return {**kind, "metadata": metadata, "deleteOptions": _delete_options(call)}


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _with_type(resource: Resource, obj: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
