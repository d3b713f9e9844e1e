"""Measures one contender on a control plane of its own: pods are created at once, and a client watches them bound."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks import controlplane
from benchmarks.apiserver import Spent, spending
from benchmarks.controlplane import NAMESPACE, WRITERS, Cluster, concurrently, list_all, wait_until
from benchmarks.processes import cpu_seconds
from benchmarks.throughput.workloads import TEMPLATE, Holder, Workload
from benchmarks.versions import Version
from benchmarks.watching import watching
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, WatchEvent
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json, claim_from
from simulation.invariants import Catalogue, Holding

FIRST_SECONDS = 120.0
"""The most time that is given to the first pod, which is not measured."""
CONTROLLER = "controller"
CONTROL_PLANE = ("kube-scheduler", "kube-apiserver", "kube-controller-manager", "etcd")
"""The programs of the control plane whose processor time is measured."""
BENCHMARK = "benchmark"
"""This program, which creates the pods and watches them."""
RAISED = {"kube-scheduler": ["--kube-api-qps=5000", "--kube-api-burst=5000"]}
"""Client limits that bound nothing. The controller has none, and testclusters raises kube-controller-manager's."""


@dataclass(frozen=True)
class Contender:
    """Who allocates: a version's controller, or kube-scheduler alone with that version's manifests.

    Objects with the name ``without`` are left out of the controller's manifests.
    """

    name: str
    version: Version
    with_controller: bool
    without: str = ""


@dataclass(frozen=True)
class Conditions:
    """What holds for a measurement besides its workload.

    ``delay`` is added to each call of the controller and of kube-scheduler, in seconds. ``seconds`` bounds the
    measurement: a contender that has not bound every pod by then is measured by those that it has.
    """

    delay: float = 0.0
    seconds: float = 60.0
    profile: bool = False


@dataclass(frozen=True)
class Throughput:
    """The results of a contender.

    ``pods`` is the number that was bound of the ``wanted`` ones, within ``seconds``. ``latencies`` are the sorted
    seconds from the creation of a bound pod to the event that shows it bound; ``cpu`` is the processor time that each
    program used meanwhile, in seconds; ``spent`` what the API server did in this time; ``described`` the part of the
    allocated claims whose ``status.devices`` has an entry for each of their devices.
    """

    wanted: int
    pods: int
    seconds: float
    latencies: list[float]
    cpu: Mapping[str, float]
    faults: list[str]
    described: float = 0.0
    spent: Spent = field(default_factory=Spent)

    @property
    def rate(self) -> float:
        """Pods bound per second."""
        return self.pods / self.seconds

    def milliseconds(self, *programs: str) -> float:
        """Processor time of these programs together for each pod that was bound."""
        return sum(self.cpu.get(program, 0.0) for program in programs) / self.pods * 1000

    def percentile(self, percent: int) -> float:
        """Seconds within which this part of the bound pods was bound."""
        return self.latencies[min(len(self.latencies) - 1, len(self.latencies) * percent // 100)]

    @property
    def bound_by(self) -> str:
        """What limits the rate: the cores, if they are busy; a program that fills one core; or nothing of these."""
        cores, busiest = os.cpu_count() or 1, max(self.cpu, key=self.cpu.__getitem__)
        if sum(self.cpu.values()) >= 0.85 * cores * self.seconds:
            return f"{cores} cores, most {busiest}"
        if self.cpu[busiest] >= 0.85 * self.seconds:
            return f"one core of {busiest}"
        return "waiting (calls, client limits)"


def measure(contender: Contender, workload: Workload, conditions: Conditions) -> Throughput:
    """Build the cluster with what is in use at the start, bind the pods and compare the allocations."""
    flags = None if workload.default_limits else RAISED
    cards = workload.cards()
    with controlplane.cluster(cards, conditions.delay, offer=workload.offer, flags=flags) as cluster:
        _hold(cluster.api, list(workload.holders()))
        concurrently(lambda raw: cluster.api.create(RESOURCE_CLAIM_TEMPLATES, raw, NAMESPACE), workload.templates())
        if not contender.with_controller:
            cluster.install(contender.version, "scheduler-allocated")
            return _bind(cluster, workload, conditions, lambda: None, {})
        cluster.install(contender.version, "controller-allocated", contender.without)
        cluster.await_gate(_pod("gated"))
        # The controller places no pod while it misses a policy, unless it is told not to look for them.
        chosen = {"verifyPolicies": False} if contender.without else None
        version, profile = contender.version, conditions.profile
        with controlplane.controller(cluster.plane, version, profile=profile, chosen=chosen) as controller:
            programs = {CONTROLLER: controller.process.pid}
            return _bind(cluster, workload, conditions, controller.check_alive, programs)


def _hold(api: Api, holders: list[Holder]) -> None:
    """Create the pods that run at the start, with their claims allocated."""

    def hold(holder: Holder) -> None:
        claim = api.create(RESOURCE_CLAIMS, holder.claim())
        uid = api.create(PODS, holder.pod())["metadata"]["uid"]
        api.update(RESOURCE_CLAIMS, {**claim, "status": holder.status(uid)}, "status")

    concurrently(hold, holders)


def _bind(
    cluster: Cluster,
    workload: Workload,
    conditions: Conditions,
    check_alive: Callable[[], None],
    programs: Mapping[str, int],
) -> Throughput:
    """Create the pods as fast as the API server accepts them, and wait until all are bound or the time is over.

    ``programs`` are the process ids of the programs besides those of the control plane and this one.
    """
    api, count = cluster.api, workload.pods
    planes = {name: cluster.plane.pid(name) for name in CONTROL_PLANE}
    programs = {**programs, **planes, BENCHMARK: os.getpid()}
    bound: dict[str, float] = {}

    def seen(event: WatchEvent, now: float) -> None:
        name = event.object["metadata"]["name"]
        if event.object["spec"].get("nodeName") and name.startswith("pod-"):
            bound.setdefault(name, now)

    with watching(api, PODS, NAMESPACE, seen):
        api.create(PODS, _pod("pod-first"), NAMESPACE)
        with suppress(TimeoutError):  # the others are not faster
            wait_until("", lambda: "pod-first" in bound, check_alive, FIRST_SECONDS)
        templates = {f"pod-{number}": workload.template(number) for number in range(count)}
        created: dict[str, float] = {}
        before = {name: cpu_seconds(pid) for name, pid in programs.items()}

        def create(name: str) -> None:
            created[name] = time.perf_counter()
            api.create(PODS, _pod(name, templates[name]), NAMESPACE)

        began = time.perf_counter()
        with spending(cluster.plane) as spent:
            with ThreadPoolExecutor(WRITERS) as writers:
                list(writers.map(create, templates))
            with suppress(TimeoutError):  # the rate of those that are bound is the result
                left = conditions.seconds - (time.perf_counter() - began)
                wait_until("", lambda: len(bound) == count + 1, check_alive, left)
            ended = time.perf_counter()
            used = {name: cpu_seconds(pid) - before[name] for name, pid in programs.items()}
            seen_there = spent()
        times = {name: bound[name] for name in templates if name in bound}
    # A kube-scheduler that has not bound all pods goes on, and would leave no processor time to list the slices.
    cluster.plane.kill_component("kube-scheduler")
    latencies = sorted(at - created[name] for name, at in times.items())
    seconds = (max(times.values()) if len(times) == count else ended) - began
    return Throughput(
        count, len(times), seconds, latencies, used, faults=faults(api), described=described(api), spent=seen_there
    )


def faults(api: Api) -> list[str]:
    """Conflicts between the allocations in the API."""
    catalogue = Catalogue(Names(DEFAULT_DRIVER))
    for raw in list_all(api, RESOURCE_SLICES):
        catalogue.learn(raw)
    claims = [claim_from(raw) for raw in list_all(api, RESOURCE_CLAIMS)]
    results = [(claim.key, result) for claim in claims if claim.allocation for result in claim.allocation.results]
    return list(catalogue.conflicts(Holding(key, result) for key, result in results))


def described(api: Api) -> float:
    """The part of the allocated claims that say of each device which card it is."""
    statuses = [raw.get("status") or {} for raw in list_all(api, RESOURCE_CLAIMS)]
    allocated = [status for status in statuses if status.get("allocation")]
    whole = [
        status
        for status in allocated
        if len(status.get("devices") or ()) == len(status["allocation"]["devices"]["results"])
    ]
    return len(whole) / max(1, len(allocated))


def _pod(name: str, template: str = TEMPLATE) -> Json:
    return controlplane.pod(name, spec={}, claim={"resourceClaimTemplateName": template})
