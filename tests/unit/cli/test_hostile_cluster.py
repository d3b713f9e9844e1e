"""The commands judge what is stored in a cluster object by object: whatever one has in it, the others are answered."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli import live
from cli.__main__ import main as lode
from cli.doctor.cluster_checks import check_cluster
from cli.doctor.cluster_look import CONTROLLER, PLUGIN, ClusterLook
from cli.doctor.findings import text
from cli.shipped import device_classes
from controller.allocation import Fleet
from controller.state import State
from driver.kube.api import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    Api,
    NotFound,
    Object,
    Page,
    Resource,
)
from driver.kube.decorator import ApiDecorator
from driver.names import Names
from driver.settings import Settings
from memoryapi import MemoryApi
from tests.fuzz.hostile import encoded, mutated
from tests.fuzz.scene import CUSTOM, SCENE
from tests.fuzz.source import Source
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.hostile import HostileApi, HostileObjects
from tests.unit.cli.cluster import claim, node, pod, slices

SEEDS = (*range(8), 17)
"""Of the changes of each object; some of them once ended a command."""


class Installed(ApiDecorator):
    """The API for ``lode doctor``: programs and policies are read, and nothing of them exists; everybody has rights."""

    def get(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        if resource.group in ("apps", "admissionregistration.k8s.io"):
            raise NotFound(f"{name}: not found", status=404, reason="NotFound")
        return super().get(resource, name, namespace, **options)

    def list(self, resource: Resource, **options: Any) -> Page:
        return Page((), "1", "") if resource.plural == "daemonsets" else super().list(resource, **options)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        return {**obj, "status": {"allowed": True}}


class HostileCluster:
    """A node with a card, a pod that waits for it, and one hostile object."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.stored = MemoryApi(clock, custom=(*CUSTOM, STATEFUL_SETS))
        for obj in device_classes():
            self.stored.create(DEVICE_CLASSES, obj)
        self.stored.create(NODES, node("g"))
        for part in slices("g", "t4x2", ("whole",)):
            self.stored.create(RESOURCE_SLICES, part)
        self.stored.create(RESOURCE_CLAIMS, claim("good"), "default")
        self.stored.create(PODS, pod("good", "good"), "default")
        self.hostile = HostileObjects(self.stored, EventLog(clock))
        self.api: Api = HostileApi(self.stored, self.hostile)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> HostileCluster:
    found = HostileCluster()

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
        yield found.api, "default"

    monkeypatch.setattr(live, "cluster", connected)
    return found


def put(cluster: HostileCluster, resource: Resource, base: Object, seed: int) -> bool:
    """Add the object with some values changed; False if it cannot be stored."""
    obj = copy.deepcopy(base)
    obj = {"metadata": obj.pop("metadata"), **obj}
    source = Source(bytes((seed * 37 + number * 101) % 256 for number in range(80)))
    keep = {("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"), ("metadata",), ("spec",)}
    changed = mutated(obj, source, lambda path: path in keep or path[:2] == ("metadata", "resourceVersion"))

    def text_of(version: str) -> bytes:
        return encoded({**changed, "metadata": {**changed["metadata"], "resourceVersion": version}})

    if text_of("1") == b"{}":
        return False
    cluster.hostile.put(resource, base["metadata"]["name"], text_of)
    return True


def unreadable(cluster: HostileCluster) -> list[str]:
    """The objects that a controller cannot decode."""
    state = State(Fleet(), Names())
    for resource in state.resources:
        if resource in (kind for kind, _ in cluster.hostile.all()):
            for obj in cluster.api.list(resource).items:
                state.put(resource, obj)
    return [f"{found.fault.kind} {found.fault.key}" for found in state.unreadable.objects()]


@pytest.mark.parametrize("number", range(len(SCENE)), ids=[f"{kind.plural}-{at}" for at, (kind, _) in enumerate(SCENE)])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_hostile_object_hides_no_other_and_is_named(
    cluster: HostileCluster, capsys: pytest.CaptureFixture[str], number: int, seed: int
) -> None:
    resource, base = SCENE[number]
    if not put(cluster, resource, base, seed):
        return
    assert lode(["explain", "pod/good", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == "placed"
    lode(["simulate", "--live", "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert [one["result"] for one in answer["pods"] if one["name"] == "good"] == ["placed"]
    for subject in unreadable(cluster):
        assert any(subject in note for note in answer["notes"]), subject
    look = ClusterLook(
        Installed(cluster.api), Settings(), {CONTROLLER: "lode-system", PLUGIN: "lode-plugin"}, "v1.37.0", 0
    )
    assert text(check_cluster(look.facts()))
