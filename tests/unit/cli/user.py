"""A cluster as a user with some rights sees it."""

from typing import Any

from driver.kube.api import (
    PODS,
    RESOURCE_CLAIMS,
    Forbidden,
    Object,
    Page,
    Resource,
)
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import allocated, claim, pod


class User:
    """The API as somebody sees it who may not do everything; ``denied`` are verb, kind, and namespace or ""."""

    def __init__(self, api: MemoryApi, clock: VirtualClock):
        self.api = api
        self.denied: set[tuple[str, Resource, str]] = set()
        self.error: Exception | None = None
        self.clock = clock
        self.asked: list[tuple[str, str]] = []

    def get(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        self._check("get", resource, namespace)
        return self.api.get(resource, name, namespace, **options)

    def list(self, resource: Resource, *, namespace: str = "", **options: Any) -> Page:
        self._check("list", resource, namespace)
        return self.api.list(resource, namespace=namespace, **options)

    def _check(self, verb: str, resource: Resource, namespace: str) -> None:
        self.asked.append((verb, resource.plural))
        if self.error:
            raise self.error
        if (verb, resource, namespace) in self.denied:
            raise Forbidden(f"{resource.plural} is forbidden", status=403)


def add(user: User, obj: Object, **status: Any) -> Object:
    resource = {"Pod": PODS, "ResourceClaim": RESOURCE_CLAIMS}[obj["kind"]]
    made = user.api.create(resource, obj, "default")
    return user.api.update(resource, {**made, "status": {**made["status"], **status}}, "status") if status else made


def hold(user: User, name: str, place: str, *holders: Object, **more: Any) -> Object:
    """A claim that holds ``node/device`` for pods."""
    status = allocated(claim(name), place, *(holder["metadata"]["name"] for holder in holders))["status"]
    for entry, holder in zip(status["reservedFor"], holders, strict=True):
        entry["uid"] = holder["metadata"]["uid"]
    return add(user, claim(name), **status, **more)


# Rights


def pending(user: User, **spec: Any) -> None:
    add(user, claim("c"))
    add(user, pod("p", "c", schedulingGates=[{"name": "lode.dev/allocation"}], **spec))


def said(reason: str, message: str, status: str = "False") -> Object:
    since = "2027-01-15T07:00:00Z"
    condition = {"type": "lode.dev/Allocated", "status": status, "reason": reason, "message": message}
    return {**condition, "lastTransitionTime": since}
