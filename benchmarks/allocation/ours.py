"""Our side of the benchmark, a separate program like the peer.

    python -m benchmarks.allocation.ours allocate|match CLUSTER REQUESTS

It reads the same files as the Go program in `peer/` and prints a line of JSON in the same format for each entry of
REQUESTS. The first line has the cost of loading.
"""

import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.allocation.hardware import CPU_DRIVER, DRIVER, NIC_DRIVER
from benchmarks.profiling import profiled
from controller.allocation import Fleet
from controller.allocation.devices.device_index import DeviceIndex
from controller.allocation.selectors import CompiledSelectors
from controller.placement import Placed, place
from driver.model import Claim, ClaimSpec, DeviceClass, Request, Slice, Want
from driver.names import Names
from driver.wire import Json, allocation_to, claim_from, class_from, slice_from

PASSES = 6


class ClusterObjects:
    """The objects that informers would deliver, and the seconds to read them."""

    def __init__(self, path: Path) -> None:
        began = time.perf_counter()
        self.nodes: dict[str, dict[str, str]] = {}
        self.classes: list[DeviceClass] = []
        self.slices: list[Slice] = []
        self.claims: list[Claim] = []
        for raw in lines(path):
            self._read(raw)
        self.read_seconds = time.perf_counter() - began

    def _read(self, raw: Json) -> None:
        match raw["kind"]:
            case "Node":
                self.nodes[raw["metadata"]["name"]] = raw["metadata"]["labels"]
            case "DeviceClass":
                self.classes.append(class_from(raw))
            case "ResourceSlice":
                self.slices.append(slice_from(raw))
            case "ResourceClaim":
                self.claims.append(claim_from(raw))

    def fleet(self) -> Fleet:
        """A fleet with all objects."""
        fleet = Fleet(names=Names(DRIVER, also_allocates=(NIC_DRIVER, CPU_DRIVER)))
        for device_class in self.classes:
            fleet.upsert_class(device_class)
        for name, labels in self.nodes.items():
            fleet.ledger.upsert_node(name, labels)
        for part in self.slices:
            fleet.ledger.upsert_slice(part)
        for claim in self.claims:
            fleet.ledger.upsert_claim(claim)
        return fleet


def lines(path: Path) -> Iterator[Any]:
    """The values of a file with one JSON text per line."""
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)


def load(path: Path) -> tuple[ClusterObjects, Json]:
    """The cluster, and the cost of a controller's start: reading, updating the fleet, and the first answer."""
    cluster = ClusterObjects(path)
    began = time.perf_counter()
    fleet = cluster.fleet()
    indexed = time.perf_counter()
    _visit_all_devices(cluster, fleet)
    first = time.perf_counter()
    return cluster, {
        "read": cluster.read_seconds,
        "indexed": indexed - began,
        "first": first - indexed,
        "cpu": time.process_time(),
        "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "slices": len(cluster.slices),
        "devices": sum(len(part.devices) for part in cluster.slices),
        "claims": len(cluster.claims),
    }


def allocate_all(cluster: ClusterObjects, run: Json) -> Json:
    """Place the pods of a run one after the other: decide, assume, and release claims as the run says.

    With ``profile``, a profile is printed to standard error.
    """
    pods = [
        ([claim_from(claim) for claim in raw["claims"]], raw["release"], raw["floor"])
        for raw in lines(Path(run["pods"]))
    ]
    fleet = cluster.fleet()
    _visit_all_devices(cluster, fleet)
    held = [claim.uid for claim in cluster.claims]
    each: list[float] = []
    answers: list[Placed | None] = []
    gc.collect()
    with profiled(run.get("profile", False)):
        began, used = time.perf_counter(), time.process_time()
        for claims, release, floor in pods:
            before = time.perf_counter()
            if before - began > run["seconds"]:
                break
            answers.append(_place_and_assume(fleet, claims))
            each.append(time.perf_counter() - before)
            held += [claim.uid for claim in claims] if answers[-1] else []
            if release >= 0 and len(held) > floor:
                index = release % len(held)
                held[index], held[-1] = held[-1], held[index]
                fleet.ledger.remove_claim(held.pop())
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
    raw_answers = [
        {"node": answer.node, "results": [allocation_to(allocation) for allocation in answer.allocations]}
        if answer
        else {}
        for answer in answers
    ]
    return {"seconds": seconds, "cpu": cpu, "each": each, "answers": raw_answers}


def _place_and_assume(fleet: Fleet, claims: Sequence[Claim]) -> Placed | None:
    """Place the claims and count their devices as in use; None if they do not fit."""
    answer = place(fleet, claims)
    if not isinstance(answer, Placed):
        return None
    for claim, allocation in zip(claims, answer.allocations, strict=True):
        fleet.ledger.assume(claim.uid, allocation)
    return answer


def evaluate_all(cluster: ClusterObjects, expression: str) -> Json:
    """The time to find the devices of the fleet that a new selector matches, including compilation.

    In the first pass, the fleet has not read the attributes of the selector before. The other passes use selectors with
    different text that have the same meaning and read the same attributes.
    """
    index = DeviceIndex({})
    for part in cluster.slices:
        index.upsert_slice(part)
    index.settle()
    compiled, each, matched = CompiledSelectors(DRIVER), list[float](), 0
    for number in range(PASSES):
        began = time.perf_counter()
        wanted = compiled.filter((), (f"({expression}) && {number} == {number}",))
        groups = index.selectors.grouping(wanted.paths).groups.values()
        matched = sum(len(group.pools) * index.selectors.of_group(group, wanted).match.bit_count() for group in groups)
        each.append(time.perf_counter() - began)
    return {"matched": matched, "first": each[0], "seconds": statistics.median(each[1:])}


def _visit_all_devices(cluster: ClusterObjects, fleet: Fleet) -> None:
    """Request a device that does not exist, so that the fleet visits all devices; loading is measured with this."""
    for device_class in cluster.classes:
        place(fleet, [_claim(device_class.name, "false")])


def _claim(device_class: str, expression: str) -> Claim:
    want = Want(device_class, selectors=(expression,))
    return Claim("bench", "asking", "uid-asking", ClaimSpec((Request("cards", (want,)),)))


def main() -> int:
    """Answer the requests."""
    command, cluster_path, requests_path = sys.argv[1:]
    cluster, loading = load(Path(cluster_path))
    print(json.dumps(loading))
    for request in json.loads(Path(requests_path).read_text()):
        answer = allocate_all(cluster, request) if command == "allocate" else evaluate_all(cluster, request)
        print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
