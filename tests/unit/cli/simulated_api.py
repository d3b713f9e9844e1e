"""The cluster after what ``lode simulate`` says has happened, for commands that read a live one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli import live
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Page, Resource
from driver.names import Names


class SimulatedApi:
    """An API that serves these objects, once the controller has done what the simulation says."""

    def __init__(self, *objects: Object):
        given = check([Document(Origin("f", number), obj) for number, obj in enumerate(objects)], "default").objects
        made = snapshot_of(given, Names())
        simulate_all(made)
        self._tables: dict[Resource, list[Object]] = {
            PODS: [*made.pods.values()],
            RESOURCE_CLAIMS: [*made.claims.values()],
        }
        for one in given:
            if one.resource in (NODES, RESOURCE_SLICES, DEVICE_CLASSES):
                self._tables.setdefault(one.resource, []).append(one.object)

    def get(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        return next(obj for obj in self._tables.get(resource, []) if obj["metadata"]["name"] == name)

    def list(self, resource: Resource, **options: Any) -> Page:
        return Page(self._tables.get(resource, []), "1")


def serve(monkeypatch: pytest.MonkeyPatch, objects: Iterable[Object]) -> None:
    """Have commands find these objects in the cluster of their kubeconfig."""
    api = SimulatedApi(*objects)

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Any, str]]:
        yield api, "default"

    monkeypatch.setattr(live, "cluster", connected)
