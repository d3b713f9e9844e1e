"""One base for everything that stands between a program and the API: it implements the port once, for all wrappers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from driver.kube.api import Api, Object, Page, PatchType, Resource, WatchEvent, nothing

T = TypeVar("T")

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]
_WRITES: Final = frozenset(("create", "update", "patch", "delete"))


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of the port, as far as the hooks of a decorator depend on it."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str = ""
    """"" for list and watch. For create, the name or generateName of the object."""
    subresource: str = ""
    body: Any = None
    """The object of a create or update, the patch of a patch. It belongs to the caller: read, never change."""
    uid: str = ""
    """The precondition of a delete."""
    resource_version: str = ""
    """The precondition of a delete, or the version a watch starts from."""
    continue_token: str = ""

    @property
    def is_write(self) -> bool:
        """Whether the call changes something."""
        return self.verb in _WRITES

    def __str__(self) -> str:
        return f"{self.verb} {self.resource.plural}"


class ApiDecorator:
    """Implements ``driver.kube.api.Api`` by passing every call to another ``Api``, with hooks for subclasses.

    A subclass overrides ``before`` to refuse calls, ``around`` to do something before and after them, or a single
    method to change what it passes on. Without that, a decorator behaves as the API it decorates.
    """

    def __init__(self, api: Api):
        self._api = api

    def before(self, call: ApiCall) -> None:
        """Called before each call is passed on; what it raises reaches the caller instead of an answer."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer to ``call``; ``proceed`` passes the call on and returns the answer of the decorated API."""
        self.before(call)
        return proceed()

    def around_watch(self, call: ApiCall, proceed: Callable[[], Iterator[WatchEvent]]) -> Iterator[WatchEvent]:
        """The changes that a watch delivers; by default a watch goes through ``around`` as any other call."""
        return self.around(call, proceed)

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, meanwhile: Callable[[], object] = nothing
    ) -> Object:
        """As ``Api.get``."""
        call = ApiCall("get", resource, namespace, name)
        return self.around(call, lambda: self._api.get(resource, name, namespace, meanwhile=meanwhile))

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
        """As ``Api.list``."""
        return self.around(
            ApiCall("list", resource, namespace, continue_token=continue_token),
            lambda: self._api.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            ),
        )

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
        """As ``Api.watch``."""
        return self.around_watch(
            ApiCall("watch", resource, namespace, resource_version=resource_version),
            lambda: self._api.watch(
                resource,
                resource_version=resource_version,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                timeout_seconds=timeout_seconds,
            ),
        )

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """As ``Api.create``."""
        metadata = _metadata(obj)
        name = metadata.get("name") or metadata.get("generateName") or ""
        call = ApiCall("create", resource, namespace or metadata.get("namespace") or "", name, body=obj)
        return self.around(call, lambda: self._api.create(resource, obj, namespace))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """As ``Api.update``."""
        metadata = _metadata(obj)
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        call = ApiCall("update", resource, namespace, name, subresource, obj)
        return self.around(call, lambda: self._api.update(resource, obj, subresource))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
    ) -> Object:
        """As ``Api.patch``."""
        return self.around(
            ApiCall("patch", resource, namespace, name, subresource, patch),
            lambda: self._api.patch(
                resource,
                name,
                patch,
                namespace=namespace,
                subresource=subresource,
                patch_type=patch_type,
            ),
        )

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
        """As ``Api.delete``."""
        self.around(
            ApiCall("delete", resource, namespace, name, uid=uid, resource_version=resource_version),
            lambda: self._api.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
            ),
        )


def _metadata(obj: Object) -> Object:
    metadata: Object = obj.get("metadata") or {}
    return metadata
