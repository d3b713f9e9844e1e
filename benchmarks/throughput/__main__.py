"""Pods per second from creation to binding: our controller with kube-scheduler, compared with kube-scheduler alone.

    make bench-throughput                             # 1,000 nodes, 600 pods, a few minutes
    python -m benchmarks.throughput --pods 100 --only lode --profile

Each flavor runs on a separate control plane, one after the other, with the same nodes and slices (eight whole cards
each) and the same pods: one claim from a template for a card by type and memory. kube-scheduler has its default client
limits; kube-controller-manager, which creates the claims for both, has higher ones.
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
from benchmarks.throughput.cluster import FLAVORS, NAMESPACE, WRITERS, Flavor, cluster, pod, wait_until
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Page, Resource
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import claim_from
from simulation.invariants import Catalogue, Holding

BAR = 3.0
TIMEOUT = 600.0
"""Seconds for all pods of one flavor."""


@dataclass(frozen=True)
class Throughput:
    """The results of a flavor; latencies in seconds, from the creation of a pod to the event that shows it bound."""

    name: str
    pods: int
    seconds: float
    latencies: list[float]
    faults: list[str]

    @property
    def rate(self) -> float:
        """Pods per second over all pods."""
        return self.pods / self.seconds


def main() -> int:
    """Run the flavors one after the other and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--only", default="", help="run only the flavors whose name contains this text")
    parser.add_argument(
        "--profile", action="store_true", help="print where the controller's main thread spends its time"
    )
    arguments = parser.parse_args()
    results = []
    for flavor in FLAVORS:
        if arguments.only in flavor.name:
            print(f"==> {flavor.name}", file=sys.stderr, flush=True)
            with cluster(flavor, arguments.nodes, profile=arguments.profile) as (api, check_alive):
                results.append(measure(flavor, api, arguments.pods, check_alive))
            print(f"    {results[-1].rate:.1f} pods/s", file=sys.stderr, flush=True)
    print(report(results))
    return 0


def measure(flavor: Flavor, api: Api, count: int, check_alive: Callable[[], None]) -> Throughput:
    """Create the pods as fast as the API server accepts them, and wait until all are bound."""
    with bindings(api) as bound:
        api.create(PODS, pod("first"), NAMESPACE)
        wait_until("the first pod is bound", lambda: "first" in bound, check_alive)
        names = [f"pod-{number}" for number in range(count)]
        created: dict[str, float] = {}

        def create(name: str) -> None:
            created[name] = time.perf_counter()
            api.create(PODS, pod(name), NAMESPACE)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(create, names))
        wait_until(f"{count} pods are bound", lambda: len(bound) > count, check_alive, TIMEOUT)
    latencies = sorted(bound[name] - created[name] for name in names)
    seconds = max(bound.values()) - min(created.values())
    return Throughput(flavor.name, count, seconds, latencies, faults(api))


@contextmanager
def bindings(api: Api) -> Iterator[dict[str, float]]:
    """When each pod of the namespace was first seen bound, in ``perf_counter`` seconds; a thread fills the mapping."""
    bound: dict[str, float] = {}
    version = api.list(PODS, namespace=NAMESPACE).resource_version
    ended = threading.Event()

    def watch(version: str) -> None:
        while not ended.is_set():
            try:
                for event in api.watch(PODS, namespace=NAMESPACE, resource_version=version, timeout_seconds=600):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK" and event.object["spec"].get("nodeName"):
                        bound.setdefault(event.object["metadata"]["name"], time.perf_counter())
            except ApiError:
                ended.wait(0.5)

    threading.Thread(target=watch, args=(version,), daemon=True).start()
    try:
        yield bound
    finally:
        ended.set()


def faults(api: Api) -> list[str]:
    """Conflicts between the allocations in the API."""
    catalogue = Catalogue(Names(DEFAULT_DRIVER))
    for raw in _list_all(api, RESOURCE_SLICES):
        catalogue.learn(raw)
    claims = [claim_from(raw) for raw in _list_all(api, RESOURCE_CLAIMS)]
    results = [(claim.key, result) for claim in claims if claim.allocation for result in claim.allocation.results]
    return list(catalogue.conflicts(Holding(key, result) for key, result in results))


def _list_all(api: Api, resource: Resource) -> Iterator[dict[str, object]]:
    page: Page = api.list(resource)
    yield from page.items
    while page.continue_token:
        page = api.list(resource, continue_token=page.continue_token)
        yield from page.items


def report(results: list[Throughput]) -> str:
    """The table. The bar is judged only if both flavors ran."""
    rows = []
    for figures in results:
        times = figures.rate / results[-1].rate
        bar = (
            "-"
            if len(results) < 2 or figures is results[-1]
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
