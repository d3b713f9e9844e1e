"""A leader is killed while pods come on 5,000 nodes: how soon the next pod has devices, and what both replicas take.

    make bench-failover                               # about ten minutes
    python -m benchmarks.failover --nodes 500 --pods 300 --before 346e54f5

Two controllers run on a real API server, with their default settings. Pods are created at an even pace, each with a
claim for a card from a template. The leader is killed by SIGKILL in the middle, so it releases no Lease. A third
controller is started then, from nothing, while the second one takes over. It is compared with an earlier version.
"""

import argparse
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from benchmarks import controlplane, fleet
from benchmarks.allocation.table import lines
from benchmarks.controlplane import NAMESPACE, Cluster, RunningController, wait_until
from benchmarks.fleet import card_request
from benchmarks.processes import free_port, resident
from benchmarks.versions import CURRENT, Version, versions
from benchmarks.watching import watching
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, Api, WatchEvent
from driver.settings import ControllerSettings

TEMPLATE: Final = "one"
MOST_MEBIBYTES: Final = 512
READY_SECONDS: Final = 20.0
GRACE_SECONDS: Final = 5.0
"""Beyond the time that a Lease lasts."""
_PACE: Final = 10
"""Pods a second."""
_START_SECONDS: Final = 120.0
_LEASE_SECONDS: Final = ControllerSettings().lease_seconds


@dataclass(frozen=True, slots=True)
class Served:
    """When pods were served that were made after the kill, in ``perf_counter`` seconds.

    What is seen of others then may be the last work of who was killed.
    """

    moments: Sequence[float]
    killed: float

    @property
    def gap(self) -> float:
        """Seconds from the kill to the next pod that was served."""
        return min(self.moments, default=inf) - self.killed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both and print the table; the status is 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--before", default="", metavar="COMMIT", help="also measure the controller of this commit")
    parser.add_argument("--pods", type=int, default=900, help=f"{_PACE} are created a second (%(default)s)")
    arguments = parser.parse_args(argv)
    with ExitStack() as ending:
        rows = [
            [version.name, *row]
            for version in versions(arguments.before, ending)
            for row in _rows(version, arguments.nodes, arguments.pods)
        ]
    print(lines(["", "", "measured", "bar", ""], rows))
    return int(any(row[0] == CURRENT.name and row[-1] == "missed" for row in rows))


def _row(what: str, measured: float, bar: float, unit: str) -> Sequence[str]:
    return [what, f"{measured:.1f} {unit}", f"{bar:.0f} {unit}", "met" if measured <= bar else "missed"]


def _rows(version: Version, nodes: int, pods: int) -> Iterator[Sequence[str]]:
    with controlplane.cluster(fleet.models(nodes), 0.0) as cluster, ExitStack() as ending:
        cluster.install(version, "controller-allocated")
        request = card_request("H100", gibibytes=40)
        spec = {"spec": {"devices": {"requests": [request]}}}
        cluster.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": TEMPLATE}, "spec": spec}, NAMESPACE)
        cluster.await_gate(_pod("gated"))
        ports = [free_port() for _ in range(3)]
        replicas = {port: ending.enter_context(_replica(cluster, version, port)) for port in ports[:2]}
        for port, one in replicas.items():
            wait_until("the replica is ready", partial(_ready, port), one.check_alive, _START_SECONDS)
        wait_until("a replica leads", lambda: any(map(_leads, replicas)), seconds=_START_SECONDS)
        leader = next(filter(_leads, replicas))
        (other,) = set(replicas) - {leader}
        started: list[float] = []

        def kill() -> float:
            memory.append(_most_mebibytes(replicas[leader]))
            replicas[leader].process.send_signal(signal.SIGKILL)
            killed = time.perf_counter()
            ending.enter_context(_replica(cluster, version, ports[2]))
            threading.Thread(target=_note_ready, args=(ports[2], killed, started.append), daemon=True).start()
            return killed

        memory: list[float] = []
        served = _play(cluster.api, pods, kill, _let_go)
        wait_until("the new replica is ready", lambda: bool(started), seconds=_START_SECONDS)
        memory.append(_most_mebibytes(replicas[other]))
        yield _row("from the kill to the next pod that is let go", served.gap, _LEASE_SECONDS + GRACE_SECONDS, "s")
        yield _row("most memory of the leader that was killed", memory[0], MOST_MEBIBYTES, "MiB")
        yield _row("most memory of the one that leads now", memory[1], MOST_MEBIBYTES, "MiB")
        yield _row("from the start of a third to its readiness", started[0], READY_SECONDS, "s")


def _play(api: Api, pods: int, kill: Callable[[], float], is_served: Callable[[WatchEvent], bool]) -> Served:
    """Create the pods at an even pace, kill somebody in the middle, and wait until all are served."""
    moments: dict[str, float] = {}

    def seen(event: WatchEvent, now: float) -> None:
        if is_served(event):
            moments.setdefault(event.object["metadata"]["name"], now)

    with watching(api, PODS, NAMESPACE, seen):
        began, killed = time.perf_counter(), 0.0
        for number in range(pods):
            if number == pods // 2:
                killed = kill()
            api.create(PODS, _pod(f"pod-{number}"), NAMESPACE)
            time.sleep(max(0.0, began + (number + 1) / _PACE - time.perf_counter()))
        with suppress(TimeoutError):  # the gap says it
            wait_until("", lambda: len(moments) == pods, seconds=_START_SECONDS)
    return Served([moments[name] for number in range(pods // 2, pods) if (name := f"pod-{number}") in moments], killed)


def _let_go(event: WatchEvent) -> bool:
    return event.type != "DELETED" and not event.object["spec"].get("schedulingGates")


def _pod(name: str) -> dict[str, object]:
    return controlplane.pod(name, spec={}, claim={"resourceClaimTemplateName": TEMPLATE})


@contextmanager
def _replica(cluster: Cluster, version: Version, port: int) -> Iterator[RunningController]:
    address, name = f"127.0.0.1:{port}", f"controller-{port}"
    with controlplane.controller(cluster.plane, version, observe=address, name=name) as one:
        yield one


def _get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def _ready(port: int) -> bool:
    try:
        return bool(_get(port, "/readyz"))
    except OSError:
        return False


def _leads(port: int) -> bool:
    return "lode_controller_leader 1" in _get(port, "/metrics")


def _note_ready(port: int, since: float, ready: Callable[[float], None]) -> None:
    while not _ready(port):
        time.sleep(0.1)
    ready(time.perf_counter() - since)


def _most_mebibytes(one: RunningController) -> float:
    return resident(one.process.pid)["VmHWM"]


if __name__ == "__main__":
    sys.exit(main())
