"""Runs the pods on a real control plane, and watches them and the templates."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from benchmarks import controlplane, fleet
from benchmarks.adoption.scenario import NAMES, NAMESPACES, Arrival, Scenario
from benchmarks.controlplane import WRITERS, RunningController, list_all, wait_until
from benchmarks.throughput.measure import RAISED
from benchmarks.versions import CURRENT
from benchmarks.watching import watching
from driver.adoption import is_on_demand
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, Api, NotFound, WatchEvent
from driver.kube.objects import object_key
from driver.wire import Json

MARGIN_SECONDS = 30.0
"""After a template is due to go."""
_PATIENCE_SECONDS = 120.0
FIRST = Arrival(0, NAMESPACES[0], "first", NAMES[0])
"""A pod that is not measured."""


@dataclass
class Seen:
    """What a client saw, in seconds of ``perf_counter``; pods and templates by ``namespace/name``."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: deque[tuple[float, str]] = field(default_factory=deque)
    """The pods that were bound and are to be deleted, with the time of that."""
    templates: dict[str, float] = field(default_factory=dict)
    """When each template was made that exists."""
    made: int = 0
    removed: int = 0
    most: int = 0
    """The most templates that there were at once."""
    users: dict[str, set[str]] = field(default_factory=dict)
    unused_since: dict[str, float] = field(default_factory=dict)
    longest_unused: float = 0.0

    def pod(self, event: WatchEvent, now: float) -> None:
        """Take in a change of a pod."""
        key = object_key(event.object)
        if event.object["spec"].get("nodeName") and key not in self.bound:
            self.bound[key] = now
            self.running.append((now, key))
        name = event.object["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
        template = f"{event.object['metadata']['namespace']}/{name}"
        users = self.users.setdefault(template, set())
        if event.type != "DELETED":
            users.add(key)
            self.unused_since.pop(template, None)
        else:
            users.discard(key)
            if not users:
                self.unused_since[template] = now

    def template(self, event: WatchEvent, now: float) -> None:
        """Take in a change of a template."""
        key = object_key(event.object)
        if event.type == "ADDED":
            self.templates[key] = now
            self.made += 1
        elif event.type == "DELETED":
            self.templates.pop(key, None)
            self.removed += 1
            unused = now - self.unused_since.get(key, now)
            self.longest_unused = max(self.longest_unused, unused)
        self.most = max(self.most, len(self.templates))


@dataclass(frozen=True)
class Outcome:
    """What came of it. Times in seconds; ``latencies`` are those from creation to binding, sorted."""

    wanted: int
    latencies: list[float]
    seconds: float
    """From the first pod to the last that was bound."""
    made: int
    removed: int
    most: int
    longest_unused: float
    left: int
    """Templates that are there when each is due to be gone."""

    def percentile(self, percent: int) -> float:
        """Seconds within which this part of the bound pods was bound."""
        return self.latencies[min(len(self.latencies) - 1, len(self.latencies) * percent // 100)]

    @property
    def per_minute(self) -> float:
        """Pods bound per minute."""
        return 60 * len(self.latencies) / self.seconds


def measure(scenario: Scenario) -> Outcome:
    """Build the cluster, have the pods come and go, and wait until no template may be left."""
    cards = fleet.models(scenario.nodes)
    with controlplane.cluster(cards, 0.0, flags=RAISED) as cluster:
        cluster.install(CURRENT, "controller-allocated")
        for namespace in NAMESPACES:
            controlplane.add_namespace(cluster.api, namespace)
        cluster.await_gate(_pod(FIRST))
        settings = {"templates": {"unusedSeconds": scenario.unused_seconds}}
        with controlplane.controller(cluster.plane, CURRENT, chosen=settings) as controller:
            return _run(cluster.api, scenario, controller)


def _run(api: Api, scenario: Scenario, controller: RunningController) -> Outcome:
    seen = Seen()
    with _watching(api, seen):
        # The controller has started, and has made a template, before anything is measured.
        _create(api, Seen(), FIRST)
        wait_until("the first pod is bound", lambda: _key(FIRST) in seen.bound, controller.check_alive)
        began = time.perf_counter()
        with ThreadPoolExecutor(WRITERS) as writers:
            for arrival in scenario.arrivals():
                time.sleep(max(0.0, began + arrival.seconds - time.perf_counter()))
                controller.check_alive()
                writers.submit(_create, api, seen, arrival)
                while seen.running and seen.running[0][0] + scenario.lives_seconds <= time.perf_counter():
                    writers.submit(_delete, api, *seen.running.popleft()[1].split("/"))
        with suppress(TimeoutError):  # what is bound by then is the result
            wait_until("", lambda: seen.created.keys() <= seen.bound.keys(), controller.check_alive, _PATIENCE_SECONDS)
        for raw in list_all(api, PODS):
            _delete(api, raw["metadata"]["namespace"], raw["metadata"]["name"])
        time.sleep(scenario.unused_seconds + MARGIN_SECONDS)
    left = [raw for raw in list_all(api, RESOURCE_CLAIM_TEMPLATES) if is_on_demand(raw["metadata"]["name"])]
    latencies = sorted(seen.bound[key] - at for key, at in seen.created.items() if key in seen.bound)
    return Outcome(
        wanted=len(seen.created),
        latencies=latencies,
        seconds=max(seen.bound.values(), default=began) - began,
        made=seen.made,
        removed=seen.removed,
        most=seen.most,
        longest_unused=seen.longest_unused,
        left=len(left),
    )


@contextmanager
def _watching(api: Api, seen: Seen) -> Iterator[None]:
    with ExitStack() as watches:
        for namespace in NAMESPACES:
            watches.enter_context(watching(api, PODS, namespace, seen.pod))
            watches.enter_context(watching(api, RESOURCE_CLAIM_TEMPLATES, namespace, seen.template))
        yield


def _create(api: Api, seen: Seen, arrival: Arrival) -> None:
    seen.created[_key(arrival)] = time.perf_counter()
    api.create(PODS, _pod(arrival), arrival.namespace)


def _key(arrival: Arrival) -> str:
    return f"{arrival.namespace}/{arrival.name}"


def _delete(api: Api, namespace: str, name: str) -> None:
    with suppress(NotFound):
        api.delete(PODS, name, namespace, grace_period_seconds=0)


def _pod(arrival: Arrival) -> Json:
    pod = controlplane.pod(arrival.name, spec={}, claim={"resourceClaimTemplateName": arrival.template})
    return {**pod, "metadata": {"name": arrival.name, "namespace": arrival.namespace}}
