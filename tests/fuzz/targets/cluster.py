"""The objects of a cluster: whatever one of them holds, the pods of others are let go, and no card is handed out twice.

One object at a time is hostile. It comes in a list or in a watch of the controller, as bytes, like those that an
API server sends.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, cast

from driver.kube.api import (
    DEVICE_TAINT_RULES,
    KUEUE_ADMISSION_CHECKS,
    NAMESPACES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Api,
    Page,
    Resource,
    WatchEvent,
)
from driver.kube.codec import decode_event, decode_page
from tests.fuzz.hostile import encoded, mutated
from tests.fuzz.scene import CUSTOM, SCENE, kept
from tests.fuzz.source import Source
from tests.fuzz.targets.target import Target
from tests.unit.controller.loop.world import ControllerWorld
from tests.unit.controller.workloads import admission_check, claim_template


class _Reading:
    """The API, which serves one more object of one kind, as these bytes: in lists, or once in a watch."""

    def __init__(self, api: Api, resource: Resource, raw: bytes, *, in_watch: bool):
        self._api = api
        self._resource = resource
        self._raw = raw
        self._in_watch = in_watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def list(self, resource: Resource, **options: Any) -> Page:
        page = self._api.list(resource, **options)
        if resource != self._resource or self._in_watch:
            return page
        before = encoded(list(page.items))[1:-1]
        items = b"[" + b",".join(part for part in (before, self._raw) if part) + b"]"
        text = b'{"metadata":{"resourceVersion":"%s"},"items":%s}' % (page.resource_version.encode(), items)
        return decode_page(text, {"apiVersion": resource.api_version, "kind": resource.kind})

    def watch(self, resource: Resource, **options: Any) -> Iterator[WatchEvent]:
        if resource == self._resource and self._in_watch:
            self._in_watch = False
            kind, obj = decode_event(b'{"type":"ADDED","object":%s}' % self._raw)
            yield WatchEvent(cast("Literal['ADDED']", kind), obj)
        yield from self._api.watch(resource, **options)


class HostileWorld(ControllerWorld):
    custom = CUSTOM

    def __init__(self, resource: Resource, raw: bytes, *, in_watch: bool):
        self._hostile = resource, raw, in_watch
        super().__init__(nodes=1, cards=2, kueue={"enabled": True})
        self.api.create(KUEUE_ADMISSION_CHECKS, admission_check())
        self.api.create(NAMESPACES, {"metadata": {"name": "other"}})
        template = claim_template("gpu")
        template["metadata"]["namespace"] = "other"
        self.api.create(RESOURCE_CLAIM_TEMPLATES, template)

    def reading(self) -> Any:
        resource, raw, in_watch = self._hostile
        return _Reading(self.api, resource, raw, in_watch=in_watch)


def _cluster(data: bytes) -> None:
    """The pod of another namespace is let go, with the card that nobody holds."""
    source = Source(data)
    resource, base = source.choice(SCENE)
    in_watch = bool(source.below(2))
    raw = encoded(mutated(base, source, kept))
    if raw == b"{}":
        return
    world = HostileWorld(resource, raw, in_watch=in_watch)
    world.settle()
    world.add_claim("mine")
    world.add_pod("mine", "mine")
    world.settle(seconds=30)
    if resource == DEVICE_TAINT_RULES and world.controller.unready.startswith(resource.kind):
        return  # the rule of an administrator that nobody can read: what it drains must not be handed out
    assert world.gates("mine") == [], f"the pod of somebody else waits: {world.condition('mine')}"
    if resource == RESOURCE_CLAIMS and "status" in base:
        assert world.devices("mine") == ["n1/gpu-1"], "a card that another claim holds is handed out"


TARGETS: Final = (
    Target("cluster", _cluster, tuple(bytes([number, watch]) for number in range(len(SCENE)) for watch in (0, 1))),
)
