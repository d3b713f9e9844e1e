"""Claims over several drivers with constraints across them, and what Kubernetes' allocator chose, as in tests/data.

    python -m tests.recorded_mixed_claims [QUESTIONS]     ask anew, compare, and record some of the answers

Each question is a claim or two on a node with cards, network cards and processors of three drivers. What the allocator
chose is in use from then on, so later questions of a node are about what is left.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.allocation.peer import FIRST_FIT, TIMEOUT, answers, build
from driver.names import NUMA_NODE, PCIE_ROOT
from tests.unit.controller.allocation.test_conformance import agrees

Json = dict[str, Any]
_FILE = Path(__file__).parent / "data" / "conformance" / "allocator" / "mixed.jsonl"
_DRIVERS = {"card": "lode.dev", "nic": "dra.net", "cpu": "dra.cpu"}
_RAIL = "example.com/rail"
_COMPARED = (PCIE_ROOT, NUMA_NODE, _RAIL)
_PODS: Final = 8
"""Questions for one node, each of which takes devices from the next one."""
_RECORDED: Final = 80
NODE: Final[Json] = {"metadata": {"name": "n1"}}
CLASSES: Final[Sequence[Json]] = [
    {"metadata": {"name": kind}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}}
    for kind, driver in _DRIVERS.items()
] + [{"metadata": {"name": "any"}, "spec": {}}]


def slices(random: Random) -> list[Json]:
    """The devices of the node. Some lack an attribute."""
    found = []
    for kind, driver in _DRIVERS.items():
        devices = [_device(f"{kind}-{number}", random) for number in range(random.randint(1, 5))]
        pool = {"name": f"n1/{driver}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": "n1", "pool": pool, "devices": devices}
        found.append({"metadata": {"name": f"n1-{kind}"}, "spec": spec})
    return found


def _device(name: str, random: Random) -> Json:
    values = {
        PCIE_ROOT: {"string": f"pci0000:{random.choice(('00', '40', '80'))}"},
        NUMA_NODE: {"int": random.randint(0, 1)},
        _RAIL: {"string": random.choice("ab")},
        "fast": {"bool": random.random() < 0.5},
    }
    return {"name": name, "attributes": {key: value for key, value in values.items() if random.random() < 0.9}}


def claim(name: str, random: Random) -> Json:
    """A claim with requests for devices of several drivers."""
    requests = [_request(f"r{number}", random) for number in range(random.randint(1, 3))]
    names = [request["name"] for request in requests]
    constraints = []
    for _ in range(random.choice((0, 1, 1, 2))):
        kind = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        bound = names if random.random() < 0.7 else sorted(random.sample(names, random.randint(1, len(names))))
        constraints.append({"requests": bound, kind: random.choice(_COMPARED)})
    devices = {"requests": requests, "constraints": constraints}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def _request(name: str, random: Random) -> Json:
    if random.random() < 0.25:
        return {"name": name, "firstAvailable": [{"name": f"s{at}", **_want(random)} for at in range(2)]}
    return {"name": name, "exactly": _want(random)}


def _want(random: Random) -> Json:
    kind = random.choice((*_DRIVERS, *_DRIVERS, "any"))
    found: Json = {"deviceClassName": kind, "allocationMode": "ExactCount", "count": random.choice((1, 1, 1, 2))}
    if kind != "any" and random.random() < 0.3:
        fast = f'device.attributes["{_DRIVERS[kind]}"].?fast.orValue(false)'
        found["selectors"] = [{"cel": {"expression": fast}}]
    return found


def is_mixed(case: Json) -> bool:
    """Whether a constraint of the question is for requests of several classes."""
    for one in case["claimsToAllocate"]:
        devices = one["spec"]["devices"]
        classes = {
            request["name"]: {want["deviceClassName"] for want in request.get("firstAvailable") or [request["exactly"]]}
            for request in devices["requests"]
        }
        if any(len(set[str]().union(*(classes[it] for it in by["requests"]))) > 1 for by in devices["constraints"]):
            return True
    return False


def cases(questions: int, folder: Path) -> Iterator[Json]:
    """The questions with the answers of Kubernetes' allocator, in the form of the other files."""
    program = str(build())
    for number in range(-(-questions // _PODS)):
        random = Random(number)
        published = slices(random)
        pods = [[claim(f"c{at}", random) for at in range(random.choice((1, 1, 2)))] for _ in range(_PODS)]
        cluster, asked = folder / "cluster", folder / "pods"
        objects = [("Node", NODE), *(("DeviceClass", one) for one in CLASSES)]
        objects += [("ResourceSlice", one) for one in published]
        cluster.write_text("\n".join(json.dumps({"kind": kind, **one}) for kind, one in objects))
        asked.write_text("\n".join(json.dumps({"claims": claims, "release": -1, "floor": 0}) for claims in pods))
        run = {**FIRST_FIT, "pods": str(asked), "seconds": 600.0, "timeout": TIMEOUT, "patience": TIMEOUT}
        [summary] = answers([program, "allocate", str(cluster)], folder / "runs", [run])
        held: list[Json] = []
        for at, (claims, found) in enumerate(zip(pods, summary["answers"], strict=True)):
            yield {
                "name": f"mixed-{number}-{at}",
                "gates": "default",
                "claimsToAllocate": claims,
                "classes": CLASSES,
                "slices": published,
                "node": NODE,
                "allocatedDevices": {"devices": list(held), "sharedDeviceIDs": [], "aggregatedCapacity": []},
                "expectResults": found.get("results") or [],
                "expectError": found.get("error", ""),
                "expectChecks": ["exact"],
            }
            results = [result for one in found.get("results") or [] for result in one["devices"]["results"]]
            held += [{name: result[name] for name in ("driver", "pool", "device")} for result in results]


def main(questions: int) -> None:
    """Ask, print how often both chose the same, and record the first mixed questions, half of them with devices."""
    total = served = mixed = 0
    differ: list[str] = []
    kept: dict[bool, list[Json]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(questions, Path(folder)):
            total, served, mixed = total + 1, served + bool(case["expectResults"]), mixed + is_mixed(case)
            if not agrees(case):
                differ.append(case["name"])
            if is_mixed(case):
                kept[bool(case["expectResults"])].append(case)
    recorded = [case for each in kept.values() for case in islice(each, _RECORDED // 2)]
    _FILE.write_text("".join(json.dumps(case) + "\n" for case in recorded))
    print(f"{total} questions: {mixed} with a constraint across drivers, {served} served, {len(differ)} differ")
    print(*differ[:20])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_600)
