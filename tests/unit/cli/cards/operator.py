"""Somebody who runs the commands for cards on a small cluster, whose other programs act while a command waits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from cli import live
from cli.__main__ import main as lode
from cli.cards import draining
from cli.shipped import device_classes
from driver.kube.api import (
    DAEMON_SETS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    Forbidden,
    NotFound,
    Object,
    Resource,
)
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import allocated, claim, node, pod, slices

CONTROLLED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


class _Reached(Api):
    """The API as the operator reaches it; ``denied`` are a verb and a kind, ``absent`` kinds that are not served."""

    def __init__(self, api: MemoryApi):
        self._api = api
        self.denied: set[tuple[str, Resource]] = set()
        self.absent: set[Resource] = set()
        self.evictions: list[ApiCall] = []
        self.broken: Exception | None = None

    def call(self, call: ApiCall) -> Any:
        if call.verb == "evict":
            self.evictions.append(call)
            if self.broken:
                raise self.broken
        if (call.verb, call.resource) in self.denied:
            raise Forbidden(f"{call.verb} of {call.resource.plural} is forbidden", status=403)
        if call.resource in self.absent:
            raise NotFound("the server could not find the requested resource", status=404)
        return self._api.call(call)


class _Waiting(VirtualClock):
    """The clock of a command: while it waits, something else happens."""

    meanwhile: Callable[[], None]

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.meanwhile()


class Operator:
    """Runs commands. ``n`` has two T4 that are offered whole and shared, ``m`` four A100 with MIG.

    Attributes:
        meanwhile: what else happens, called each time a command waits.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.clock = _Waiting()
        self.clock.meanwhile = lambda: self.meanwhile()
        self.stored = MemoryApi(self.clock, custom=[DAEMON_SETS])
        self.api = _Reached(self.stored)
        self.meanwhile: Callable[[], None] = self.pods_end
        self._capsys = capsys
        for obj in device_classes():
            self.stored.create(DEVICE_CLASSES, obj)
        for name, profile in (("n", "t4x2"), ("m", "a100x4")):
            self.stored.create(NODES, node(name))
            for part in slices(name, profile):
                self.stored.create(RESOURCE_SLICES, part)

        @contextmanager
        def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
            yield self.api, "default"

        monkeypatch.setattr(live, "cluster", connected)
        monkeypatch.setattr(draining, "SystemClock", lambda: self.clock)

    def call(self, *argv: str) -> tuple[int, str, str]:
        """Exit status, output and errors of a command."""
        status = lode(argv)
        shown = self._capsys.readouterr()
        return status, shown.out, shown.err

    @property
    def evicted(self) -> list[str]:
        """The names of the pods whose eviction was asked for, each time."""
        return [call.name for call in self.api.evictions]

    @property
    def rules(self) -> list[str]:
        """The names of all DeviceTaintRules."""
        return [rule["metadata"]["name"] for rule in self.stored.list(DEVICE_TAINT_RULES).items]

    @property
    def pods(self) -> list[str]:
        """The names of all pods that are not being deleted."""
        found = self.stored.list(PODS).items
        return [one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp")]

    def hold(self, name: str, place: str, owners: Sequence[Object] = CONTROLLED, **spec: Any) -> Object:
        """A running pod whose claim, of the same name, holds ``node/device``."""
        labels = spec.pop("labels", {})
        result, gang = spec.pop("result", {}), spec.pop("gang", {})
        made = pod(name, name, nodeName=place.partition("/")[0], **spec)
        made["metadata"] |= {"ownerReferences": list(owners), "labels": labels}
        running = self.stored.create(PODS, made, "default")
        conditions = [{"type": "Ready", "status": "True"}]
        self.stored.update(PODS, {**running, "status": {"phase": "Running", "conditions": conditions}}, "status")
        self.allocate(name, place, running["metadata"]["uid"], gang, **result)
        return running

    def allocate(self, name: str, place: str, pod_uid: str = "", gang: Object | None = None, **result: Any) -> None:
        """A claim that holds ``node/device``, for the pod of its name if there is one."""
        status = allocated(claim(name), place, *([name] if pod_uid else ()), **result)["status"]
        for entry in status["reservedFor"]:
            entry["uid"] = pod_uid
        wanted = claim(name)
        if gang:
            parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": gang}
            wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
        stored = self.stored.create(RESOURCE_CLAIMS, wanted, "default")
        self.stored.update(RESOURCE_CLAIMS, {**stored, "status": status}, "status")

    def budget(self, allowed: int, **labels: str) -> None:
        """A PodDisruptionBudget, or its new state."""
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
        try:
            stored = self.stored.get(POD_DISRUPTION_BUDGETS, "b", "default")
        except NotFound:
            stored = self.stored.create(POD_DISRUPTION_BUDGETS, budget, "default")
        self.stored.update(POD_DISRUPTION_BUDGETS, {**stored, "status": status}, "status")

    def pods_end(self) -> None:
        """Deleted pods end, and claims that no pod uses any more are freed."""
        for found in self.stored.list(PODS).items:
            if found["metadata"].get("deletionTimestamp"):
                self.stored.delete(PODS, found["metadata"]["name"], "default", grace_period_seconds=0)
        there = {found["metadata"]["uid"] for found in self.stored.list(PODS).items}
        for found in self.stored.list(RESOURCE_CLAIMS).items:
            users = found["status"].get("reservedFor") or []
            if users and not {user["uid"] for user in users} & there:
                with suppress(NotFound):
                    freed = {
                        name: value
                        for name, value in found["status"].items()
                        if name not in ("allocation", "reservedFor")
                    }
                    self.stored.update(RESOURCE_CLAIMS, {**found, "status": freed}, "status")
