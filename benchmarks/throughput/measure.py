"""Measures one contender on a control plane of its own: pods are created at once, and a client watches them bound."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks import controlplane, fleet
from benchmarks.controlplane import NAMESPACE, WRITERS, Cluster, list_all, wait_until
from benchmarks.processes import cpu_seconds
from benchmarks.versions import Version
from benchmarks.watching import watching
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, WatchEvent
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json, claim_from
from simulation.invariants import Catalogue, Holding

TEMPLATE = "one"
TIMEOUT = 600.0
"""Seconds for all pods."""
CONTROLLER = "controller"
CONTROL_PLANE = ("kube-scheduler", "kube-apiserver")
"""The programs of the control plane whose processor time is measured."""


@dataclass(frozen=True)
class Contender:
    """Who allocates: a version's controller, or kube-scheduler alone with that version's manifests."""

    name: str
    version: Version
    with_controller: bool


@dataclass(frozen=True)
class Throughput:
    """The results of a contender.

    ``latencies`` are the sorted seconds from the creation of a pod to the event that shows it bound; ``cpu`` is the
    processor time that each program used meanwhile, in seconds.
    """

    pods: int
    seconds: float
    latencies: list[float]
    cpu: Mapping[str, float]
    faults: list[str]

    @property
    def rate(self) -> float:
        """Pods per second over all pods."""
        return self.pods / self.seconds


def measure(contender: Contender, nodes: int, pods: int, delay: float, *, profile: bool) -> Throughput:
    """Build the cluster, bind the pods and compare the allocations; ``delay`` is added to each call, in seconds."""
    with controlplane.cluster(fleet.models(nodes), delay) as cluster:
        cluster.api.create(RESOURCE_CLAIM_TEMPLATES, _template(), NAMESPACE)
        if not contender.with_controller:
            cluster.install(contender.version, "scheduler-allocated")
            return _bind(cluster, pods, lambda: None, {})
        cluster.install(contender.version, "controller-allocated")
        cluster.await_gate(_pod("gated"))
        with controlplane.controller(cluster.plane, contender.version, profile=profile) as controller:
            return _bind(cluster, pods, controller.check_alive, {CONTROLLER: controller.process.pid})


def _bind(cluster: Cluster, count: int, check_alive: Callable[[], None], programs: Mapping[str, int]) -> Throughput:
    """Create the pods as fast as the API server accepts them, and wait until all are bound.

    ``programs`` are the process ids of the programs besides those of the control plane.
    """
    api = cluster.api
    programs = {**programs, **{name: cluster.plane.pid(name) for name in CONTROL_PLANE}}
    bound: dict[str, float] = {}

    def seen(event: WatchEvent, now: float) -> None:
        if event.object["spec"].get("nodeName"):
            bound.setdefault(event.object["metadata"]["name"], now)

    with watching(api, PODS, NAMESPACE, seen):
        api.create(PODS, _pod("first"), NAMESPACE)
        wait_until("the first pod is bound", lambda: "first" in bound, check_alive)
        names = [f"pod-{number}" for number in range(count)]
        created: dict[str, float] = {}
        before = {name: cpu_seconds(pid) for name, pid in programs.items()}

        def create(name: str) -> None:
            created[name] = time.perf_counter()
            api.create(PODS, _pod(name), NAMESPACE)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(create, names))
        wait_until(f"{count} pods are bound", lambda: len(bound) > count, check_alive, TIMEOUT)
        used = {name: cpu_seconds(pid) - before[name] for name, pid in programs.items()}
    latencies = sorted(bound[name] - created[name] for name in names)
    seconds = max(bound.values()) - min(created.values())
    return Throughput(count, seconds, latencies, used, faults(api))


def faults(api: Api) -> list[str]:
    """Conflicts between the allocations in the API."""
    catalogue = Catalogue(Names(DEFAULT_DRIVER))
    for raw in list_all(api, RESOURCE_SLICES):
        catalogue.learn(raw)
    claims = [claim_from(raw) for raw in list_all(api, RESOURCE_CLAIMS)]
    results = [(claim.key, result) for claim in claims if claim.allocation for result in claim.allocation.results]
    return list(catalogue.conflicts(Holding(key, result) for key, result in results))


def _pod(name: str) -> Json:
    return controlplane.pod(name, spec={}, claim={"resourceClaimTemplateName": TEMPLATE})


def _template() -> Json:
    requests = [fleet.card_request("H100", gibibytes=40)]
    return {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": requests}}}}
