"""Pods a second from creation to bound: our controller and kube-scheduler beside kube-scheduler allocating itself.

    make bench-throughput                             # 1,000 nodes, 600 pods, a few minutes
    python -m benchmarks.throughput --pods 100 --only lode --profile

Each has a control plane of its own, one after the other, with the same nodes and slices (eight whole cards each) and
the same pods: one claim from a template for a card by type and memory. kube-scheduler has its default client limits;
kube-controller-manager, which makes the claims for both, has higher ones.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.allocation import table
from benchmarks.throughput.world import FLAVOURS, NAMESPACE, WRITERS, Flavour, pod, wait_until, world
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Page, Resource
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import claim_from
from simulation.invariants import Catalogue, Holding

BAR = 3.0
PATIENCE = 600.0
"""Seconds for all pods of one flavour."""


@dataclass(frozen=True)
class Figures:
    """How it went; latencies in seconds, from the request for a pod to the watch event that shows it bound."""

    name: str
    pods: int
    seconds: float
    latencies: list[float]
    faults: list[str]

    @property
    def rate(self) -> float:
        """Pods a second over all of them."""
        return self.pods / self.seconds


def main() -> int:
    """Run the flavours one after the other and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--only", default="", help="the flavour whose name contains this")
    parser.add_argument(
        "--profile", action="store_true", help="print where the controller's main thread spends its time"
    )
    arguments = parser.parse_args()
    found = []
    for flavour in FLAVOURS:
        if arguments.only in flavour.name:
            print(f"==> {flavour.name}", file=sys.stderr, flush=True)
            with world(flavour, arguments.nodes, profile=arguments.profile) as (api, alive):
                found.append(measure(flavour, api, arguments.pods, alive))
            print(f"    {found[-1].rate:.1f} pods/s", file=sys.stderr, flush=True)
    print(report(found))
    return 0


def measure(flavour: Flavour, api: Api, count: int, alive: Callable[[], None]) -> Figures:
    """Create the pods as fast as the API takes them, and wait until all are bound."""
    with bindings(api) as bound:
        api.create(PODS, pod("first"), NAMESPACE)
        wait_until("the first pod is bound", lambda: "first" in bound, alive)
        names = [f"pod-{number}" for number in range(count)]
        created: dict[str, float] = {}

        def create(name: str) -> None:
            created[name] = time.perf_counter()
            api.create(PODS, pod(name), NAMESPACE)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(create, names))
        wait_until(f"{count} pods are bound", lambda: len(bound) > count, alive, PATIENCE)
    latencies = sorted(bound[name] - created[name] for name in names)
    seconds = max(bound.values()) - min(created.values())
    return Figures(flavour.name, count, seconds, latencies, faults(api))


@contextmanager
def bindings(api: Api) -> Iterator[dict[str, float]]:
    """When each pod of the namespace was first seen bound (``perf_counter`` seconds), filled by a thread."""
    seen: dict[str, float] = {}
    version = api.list(PODS, namespace=NAMESPACE).resource_version
    ended = threading.Event()

    def watch(version: str) -> None:
        while not ended.is_set():
            try:
                for event in api.watch(PODS, namespace=NAMESPACE, resource_version=version, timeout_seconds=600):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK" and event.object["spec"].get("nodeName"):
                        seen.setdefault(event.object["metadata"]["name"], time.perf_counter())
            except ApiError:
                ended.wait(0.5)

    threading.Thread(target=watch, args=(version,), daemon=True).start()
    try:
        yield seen
    finally:
        ended.set()


def faults(api: Api) -> list[str]:
    """What cannot be true of the allocations in the API."""
    catalogue = Catalogue(Names(DEFAULT_DRIVER))
    for raw in _everything(api, RESOURCE_SLICES):
        catalogue.learn(raw)
    claims = [claim_from(raw) for raw in _everything(api, RESOURCE_CLAIMS)]
    results = [(claim.key, result) for claim in claims if claim.allocation for result in claim.allocation.results]
    return list(catalogue.conflicts(Holding(key, result) for key, result in results))


def _everything(api: Api, resource: Resource) -> Iterator[dict[str, object]]:
    page: Page = api.list(resource)
    yield from page.items
    while page.continue_token:
        page = api.list(resource, continue_token=page.continue_token)
        yield from page.items


def report(found: list[Figures]) -> str:
    """The table; the bar needs both."""
    rows = []
    for figures in found:
        times = figures.rate / found[-1].rate
        bar = (
            "-"
            if len(found) < 2 or figures is found[-1]
            else "met"
            if times >= BAR
            else f"missed: {times:.1f} of {BAR:.0f}"
        )
        rows.append(
            [
                figures.name,
                str(figures.pods),
                f"{figures.rate:.1f}",
                f"{statistics.median(figures.latencies):.2f}",
                f"{figures.latencies[len(figures.latencies) * 95 // 100]:.2f}",
                f"{times:.1f}",
                f"WRONG: {figures.faults[0]}" if figures.faults else bar,
            ]
        )
    return table.lines(["who allocates", "pods", "pods/s", "p50 s", "p95 s", "times", "bar"], rows)


if __name__ == "__main__":
    sys.exit(main())
