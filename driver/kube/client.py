"""``driver.kube.api.Api`` over HTTP, to a kube-apiserver. Transport only: JSON in, JSON out, errors by kind.

Nothing is retried or cached here: only the caller knows what a repeated call would mean.
"""

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

from driver.kube.access import Access, from_environment
from driver.kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Object,
    Page,
    PatchType,
    Resource,
    Unavailable,
    WatchEvent,
)
from driver.kube.codec import decode_object, decode_page, encode_object

T = TypeVar("T")

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
WATCH_IDLE_SECONDS = 90.0
"""A watch without data for so long ends. Bookmarks come about every minute once anything of the kind has changed, and
reopening an idle watch is cheap. This detects connections that broke without a reset."""

_CONTENT_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_HEADERS = {"Accept": "application/json", "User-Agent": "lode"}
_STRICT = {"fieldValidation": "Strict"}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_KEEP_ALIVE_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds without data before the first probe (macOS: TCP_KEEPALIVE), seconds between probes, and their number."""


def keep_alive(platform: Any = socket) -> list[tuple[int, int, int]]:
    """The socket options that find broken connections, as far as the platform's module ``socket`` has them."""
    known = [(getattr(platform, name, None), value) for name, value in _KEEP_ALIVE_OPTIONS.items()]
    options = [(platform.IPPROTO_TCP, option, value) for option, value in known if option is not None]
    return [(platform.SOL_SOCKET, platform.SO_KEEPALIVE, 1), *options]


def _ignore(_: str) -> None:
    return None


class KubeClient:
    """One API server. Thread-safe; connections are pooled.

    Args:
        on_warning: called with each warning in a response, for example that a field is deprecated.
        connections: the maximum number of idle connections; more are opened and closed as needed.
        call_seconds: how long a call may take, at the client and, if it changes something, in the API server as well;
            0 leaves it to the server, and to the time-outs of connections. Watches last longer.
    """

    def __init__(
        self,
        access: Access,
        *,
        on_warning: Callable[[str], None] = _ignore,
        connections: int = 16,
        call_seconds: float = 0,
    ):
        self._access = access
        self._on_warning = on_warning
        self.call_seconds = call_seconds
        self._server_timeout = {"timeout": f"{call_seconds:g}s"} if call_seconds else {}
        timeout = urllib3.Timeout(total=call_seconds or None, connect=CONNECT_SECONDS, read=READ_SECONDS)
        settings: dict[str, Any] = {
            "maxsize": connections,
            "retries": False,
            "timeout": timeout,
            "socket_options": [*HTTPConnection.default_socket_options, *keep_alive()],
        }
        if access.server.startswith("https:"):
            settings |= {
                "cert_reqs": "CERT_REQUIRED" if access.verify else "CERT_NONE",
                "ca_certs": access.ca_file or None,
                "cert_file": access.cert_file or None,
                "key_file": access.key_file or None,
                "server_hostname": access.server_name or None,
            }
        self._pool: urllib3.PoolManager | urllib3.HTTPConnectionPool
        if access.proxy:
            proxy = urllib3.ProxyManager(access.proxy, **settings)
            self._pool, self._base, self._close = proxy, access.server, proxy.clear
        else:  # the pool of this server: a pool for any server looks at its address in each request
            pool = urllib3.connection_from_url(access.server, **settings)
            self._pool, self._base, self._close = pool, urlsplit(access.server).path, pool.close

    @classmethod
    def from_environment(
        cls,
        kubeconfig: str = "",
        *,
        on_warning: Callable[[str], None] = _ignore,
        connections: int = 16,
        call_seconds: float = 0,
    ) -> "KubeClient":
        """The client for ``kubeconfig``, else ``$KUBECONFIG``, else the pod's service account, else ``~/.kube/config``.

        Raises:
            OperatorFault: no valid credentials; the message says what is missing.
        """
        access = from_environment(kubeconfig)
        return cls(access, on_warning=on_warning, connections=connections, call_seconds=call_seconds)

    def close(self) -> None:
        """Close the idle connections."""
        self._close()

    def server_version(self) -> str:
        """The version of the API server, such as ``v1.37.1``; "" if it does not say."""
        return str(self._call("GET", "/version").get("gitVersion", ""))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object, complete, with ``apiVersion`` and ``kind``."""
        return self._call("GET", _path(resource, namespace, name))

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page:
        """One page of the most recent state; "" as namespace means all."""
        query = _query(
            labelSelector=label_selector, fieldSelector=field_selector, limit=str(limit), **{"continue": continue_token}
        )
        added = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._ask(partial(decode_page, added=added), "GET", resource.path(namespace), query)

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Changes after ``resource_version``, as they come; ends when the server ends it or sends nothing for long.

        The watch is open when the call returns.

        Raises:
            Gone: that version is too old; list again.
            ApiError: any other error, before the first or between two changes.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds),
        )
        response = self._send("GET", resource.path(namespace), query, stream=True)
        if response.status >= 400:
            try:
                raise _error(response.status, response.read(), response.headers)
            except (HTTPError, OSError) as error:
                raise Unavailable(f"watch {resource.plural}: connection lost: {error}") from error
            finally:
                response.close()
        return _events(resource, response)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """The stored object. An unknown field is Invalid."""
        namespace = namespace or (obj.get("metadata") or {}).get("namespace", "")
        return self._call("POST", _path(resource, namespace), _query(**_STRICT), _with_type(resource, obj))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """PUT; ``metadata.resourceVersion`` in ``obj`` makes it conditional (Conflict)."""
        metadata = obj["metadata"]
        path = _path(resource, metadata.get("namespace", ""), metadata["name"], subresource)
        return self._call("PUT", path, _query(**_STRICT), _with_type(resource, obj))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """PATCH; ``apply`` is server-side apply and needs ``field_manager``."""
        query = _query(**_STRICT, fieldManager=field_manager, force="true" if force else "")
        path = _path(resource, namespace, name, subresource)
        return self._call("PATCH", path, query, patch, _CONTENT_TYPES[patch_type])

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """DELETE, optionally only of exactly this object (Conflict otherwise)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions := _query(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        self._call("DELETE", _path(resource, namespace, name), {}, options)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        return self._ask(decode_object, method, path, query, body, content_type)

    def _ask(
        self,
        decoded: Callable[[bytes], T],
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> T:
        response = self._send(method, path, query or {}, body, content_type)
        for text in response.headers.getlist("Warning"):
            for warning in _WARNING.finditer(text):
                self._on_warning(warning[1])
        if response.status >= 400:
            raise _error(response.status, response.data, response.headers)
        try:
            return decoded(response.data)
        except ValueError as error:
            raise Unavailable(
                f"{method} {path}: the response cannot be decoded: {error}", status=response.status
            ) from error

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        if method != "GET":
            query = {**query, **self._server_timeout}
        url = self._base + quote(path) + (f"?{urlencode(query)}" if query else "")
        headers = dict(_HEADERS)
        if body is not None:
            headers["Content-Type"] = content_type
        if token := self._access.token():
            headers["Authorization"] = f"Bearer {token}"
        more: dict[str, Any] = {"preload_content": False} if stream else {}
        if stream:
            more["timeout"] = urllib3.Timeout(connect=CONNECT_SECONDS, read=WATCH_IDLE_SECONDS)
        try:
            content = None if body is None else encode_object(body)
            return self._pool.urlopen(method, url, body=content, headers=headers, redirect=False, **more)
        except (HTTPError, OSError) as error:
            raise Unavailable(f"{method} {path}: {error}") from error


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
    return kind(message, status=code, reason=reason, retry_after=retry_after)


def _error(code: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    try:
        status: Object | None = decode_object(body)
    except ValueError:
        status = None
    if status is None:
        status = {"message": body.decode(errors="replace").strip()}
    wait = headers.get("Retry-After", "")
    return error_from(code, status, float(wait) if wait.isdigit() else 0.0)


def _events(resource: Resource, response: urllib3.BaseHTTPResponse) -> Iterator[WatchEvent]:
    """The changes of an open watch."""
    try:
        yield from map(_event, _lines(response))
    except ReadTimeoutError:
        return
    except (HTTPError, OSError, ValueError) as error:
        raise Unavailable(f"watch {resource.plural}: connection lost: {error}") from error
    finally:
        response.close()


def _event(line: bytes) -> WatchEvent:
    event = decode_object(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise error_from(status.get("code") or 500, status)
    return WatchEvent(event["type"], event["object"])


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Complete lines as they come; an incomplete last line is dropped."""
    rest = b""
    for chunk in response.stream(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)


def _path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    if resource.namespaced and not namespace:
        raise Invalid(f"{resource.kind} {name!r}: metadata.namespace: is not set", status=400, reason="BadRequest")
    return resource.path(namespace, name, subresource)


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _with_type(resource: Resource, obj: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
