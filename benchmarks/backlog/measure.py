"""Measures one version of the controller while thousands of pods wait."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

import urllib3

from benchmarks import controlplane, fleet
from benchmarks.backlog import scenario
from benchmarks.backlog.audit import AuditLog
from benchmarks.backlog.scenario import Holder
from benchmarks.controlplane import NAMESPACE, SYSTEM, Cluster, RunningController, concurrently, list_all, wait_until
from benchmarks.processes import cpu_seconds, free_port
from benchmarks.versions import Version
from benchmarks.watching import watching
from driver.kube.api import LEASES, PODS, RESOURCE_CLAIMS, Api, NotFound, WatchEvent
from driver.wire import Json

QUIET_SECONDS = 10.0
"""After so long without a write everybody has been told."""
BETWEEN_FREED = 0.5
"""Seconds between a card that is used again and the next that is freed."""


@dataclass(frozen=True)
class Plan:
    """What is measured; times are in seconds.

    ``delay`` is added to each call; pods that fit are created at intervals of ``interval``; the steady state is
    measured for ``steady``; no part takes much longer than ``limit``.
    """

    nodes: int
    waiting: int
    fitting: int
    freed: int
    delay: float
    interval: float
    steady: float
    limit: float


@dataclass(frozen=True)
class Backlog:
    """The results of a version, in seconds; `inf` stands for what did not happen within the limit.

    ``early`` and ``late`` are the times of pods that fit from their creation until their gate is removed, right after
    the start and when nothing changes. ``told`` is the time from the start until the controller stops writing; ``core``
    and ``writes`` are the part of a core and the writes in the steady state, ``api_core`` is the API server's part;
    ``freed`` are the times from a card's release until another claim holds it.
    """

    ready: float
    early: Sequence[float]
    told: float
    core: float
    api_core: float
    writes: int
    late: Sequence[float]
    freed: Sequence[float]


def measure(version: Version, plan: Plan) -> Backlog:
    """Build the cluster with its waiting pods, start the controller, and measure."""
    with tempfile.TemporaryDirectory(prefix="lode-audit-") as folder:
        audit = AuditLog(Path(folder))
        cards = fleet.models(plan.nodes)
        with controlplane.cluster(cards, plan.delay, flags={"kube-apiserver": audit.flags}) as cluster:
            held = list(scenario.holders(cards, plan.freed))
            say(f"{len(held)} pods that hold cards, and {plan.waiting} that wait")
            concurrently(lambda raw: cluster.api.create(RESOURCE_CLAIMS, raw), _claims(held, plan.waiting))
            concurrently(lambda raw: _create_pod(cluster.api, raw), _pods(held, plan.waiting))
            _hold(cluster.api, held)
            cluster.install(version, "controller-allocated")
            cluster.await_gate(scenario.fitting_pod("gated"))
            address = f"127.0.0.1:{free_port()}"
            with controlplane.controller(cluster.plane, version, observe=address) as controller:
                ready = readiness(cluster.api, address)
                return _Measurement(cluster, controller, audit, plan).run(ready, held[: plan.freed])


def _claims(held: Sequence[Holder], waiting: int) -> list[Json]:
    return [*map(scenario.holder_claim, held), *map(scenario.waiting_claim, range(waiting))]


def _pods(held: Sequence[Holder], waiting: int) -> list[Json]:
    return [*map(scenario.holder_pod, held), *map(scenario.waiting_pod, range(waiting))]


def _create_pod(api: Api, raw: Json) -> None:
    api.create(PODS, raw)


def _hold(api: Api, held: Sequence[Holder]) -> None:
    """Allocate the claims of the pods that hold cards, as the controller would have done before it was stopped."""

    def allocate(holder: Holder) -> None:
        uid = api.get(PODS, holder.name, NAMESPACE)["metadata"]["uid"]
        current = api.get(RESOURCE_CLAIMS, holder.name, NAMESPACE)
        api.update(RESOURCE_CLAIMS, {**current, "status": scenario.holder_status(holder, uid)}, "status")

    concurrently(allocate, held)


class _Measurement:
    """The parts of one measurement, in the order in which they run."""

    def __init__(self, cluster: Cluster, controller: RunningController, audit: AuditLog, plan: Plan):
        self._api = cluster.api
        self._plane = cluster.plane
        self._controller = controller
        self._audit = audit
        self._plan = plan

    def run(self, is_ready: Callable[[], bool], freed: Sequence[Holder]) -> Backlog:
        """Run all parts."""
        began = time.perf_counter()
        ready = self._wait(is_ready, began)
        say(f"ready after {ready:.1f} s, with {cpu_seconds(self._controller.process.pid):.1f} s of processor time")
        early = self._fitting("early")
        told = self._quiet(began)
        say(f"quiet after {told:.0f} s; writes so far: {dict(self._audit.writes())}")
        core, api_core, writes = self._steady()
        late = self._fitting("late")
        return Backlog(
            ready, early, told=told, core=core, api_core=api_core, writes=writes, late=late, freed=self._freed(freed)
        )

    def _wait(self, holds: Callable[[], bool], began: float, seconds: float = 0.0) -> float:
        """Seconds from ``began`` until ``holds`` returns true; `inf` after the limit."""
        waited = wait(holds, self._controller.check_alive, seconds or self._plan.limit)
        return inf if waited == inf else time.perf_counter() - began

    def _fitting(self, prefix: str) -> list[float]:
        return fitting(self._api, self._controller.check_alive, self._plan, prefix)

    def _quiet(self, began: float) -> float:
        """Seconds until the controller stopped writing; `inf` if it writes on."""
        last, writes = time.perf_counter(), self._audit.writes()

        def quiet() -> bool:
            nonlocal last, writes
            now = self._audit.writes()
            if now != writes:
                last, writes = time.perf_counter(), now
            return time.perf_counter() - last > QUIET_SECONDS

        return self._wait(quiet, began) - QUIET_SECONDS

    def _steady(self) -> tuple[float, float, int]:
        """The part of a core that controller and API server use while nothing changes, and the controller's writes."""
        pids = (self._controller.process.pid, self._plane.pid("kube-apiserver"))
        writes, began, before = self._audit.writes(), time.perf_counter(), [cpu_seconds(pid) for pid in pids]
        time.sleep(self._plan.steady)
        seconds = time.perf_counter() - began
        core, api_core = ((cpu_seconds(pid) - used) / seconds for pid, used in zip(pids, before, strict=True))
        made = self._audit.writes() - writes
        say(f"steady: {core:.2%} of a core, writes: {dict(made)}")
        return core, api_core, made.total()

    def _freed(self, holders: Sequence[Holder]) -> list[float]:
        """Delete the holders one after the other; seconds from each release until another claim holds the card."""
        seconds: list[float] = []
        deadline = time.perf_counter() + self._plan.limit
        with _allocations(self._api) as (released, taken):
            for holder in holders:
                self._api.delete(PODS, holder.name, NAMESPACE)
                left = max(1.0, deadline - time.perf_counter())
                self._wait(lambda holder=holder: holder.device in taken, 0.0, left)  # type: ignore[misc]
                both = holder.device in taken and holder.device in released
                seconds.append(taken[holder.device] - released[holder.device] if both else inf)
                if time.perf_counter() > deadline:
                    break
                time.sleep(BETWEEN_FREED)
        say(f"freed: {sum(it < inf for it in seconds)} of {len(holders)} cards are used again")
        return sorted(seconds)


def fitting(api: Api, check_alive: Callable[[], None], plan: Plan, prefix: str) -> list[float]:
    """Create pods that fit at intervals; the sorted seconds until each is let go, `inf` for those that are not.

    Raises what ``check_alive`` raises, which is called while pods wait.
    """
    names = [f"{prefix}-{number}" for number in range(plan.fitting)]
    created: dict[str, float] = {}
    let_go: dict[str, float] = {}

    def seen(event: WatchEvent, now: float) -> None:
        name = event.object["metadata"]["name"]
        if name.startswith(prefix) and not scenario.is_gated(event.object):
            let_go.setdefault(name, now)

    with watching(api, PODS, NAMESPACE, seen):
        for name in names:
            api.create(RESOURCE_CLAIMS, scenario.fitting_claim(name))
            created[name] = time.perf_counter()
            api.create(PODS, scenario.fitting_pod(name))
            time.sleep(plan.interval)
        wait(lambda: len(let_go) == len(names), check_alive, plan.limit)
    say(f"{prefix}: {len(let_go)} of {len(names)} pods that fit were let go")
    return sorted(let_go[name] - created[name] if name in let_go else inf for name in names)


def wait(holds: Callable[[], bool], check_alive: Callable[[], None], seconds: float) -> float:
    """Seconds until ``holds`` returns true; `inf` after ``seconds``. Raises what ``check_alive`` raises."""
    began = time.perf_counter()
    try:
        wait_until("", holds, check_alive, seconds)
    except TimeoutError:
        return inf
    return time.perf_counter() - began


@contextmanager
def _allocations(api: Api) -> Iterator[tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]]:
    """When devices were first seen released, and when first seen in a new allocation; a thread fills the mappings."""
    released: dict[tuple[str, str], float] = {}
    taken: dict[tuple[str, str], float] = {}
    holds: dict[str, list[tuple[str, str]]] = {
        raw["metadata"]["name"]: scenario.held(raw) for raw in list_all(api, RESOURCE_CLAIMS, NAMESPACE)
    }

    def seen(event: WatchEvent, now: float) -> None:
        name = event.object["metadata"]["name"]
        before, after = holds.get(name, []), [] if event.type == "DELETED" else scenario.held(event.object)
        holds[name] = after
        for device in set(before) - set(after):
            released.setdefault(device, now)
        for device in set(after) - set(before):
            taken.setdefault(device, now)

    with watching(api, RESOURCE_CLAIMS, NAMESPACE, seen):
        yield released, taken


def readiness(api: Api, address: str) -> Callable[[], bool]:
    """Whether the controller that serves its readiness at ``address`` leads and has listed everything."""
    http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(5.0))

    def ready() -> bool:
        try:
            led = api.get(LEASES, "lode-controller", SYSTEM)["spec"].get("holderIdentity")
            return bool(led) and http.request("GET", f"http://{address}/readyz").status == 200
        except (NotFound, urllib3.exceptions.HTTPError):
            return False

    return ready


def say(text: str) -> None:
    """Print a line about the progress to standard error."""
    print(f"    {text}", file=sys.stderr, flush=True)
