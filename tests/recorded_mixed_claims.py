"""Claims over several drivers with constraints across them, and what Kubernetes' allocator chose, as in tests/data.

    python -m tests.recorded_mixed_claims [QUESTIONS]     ask anew, compare, and record some of the answers

Each question is a claim or two on a node with cards, network cards and processors of three drivers. What the allocator
chose is in use from then on, so later questions of a node are about what is left. Half of the nodes are plain. On
others, devices have shares, counters, lists of values, taints and conditions of their binding, and claims ask for
capacity and for all devices, and tolerate taints; or some pods have admin access to devices that are used as a whole.

Left out is what differs on purpose (docs/differences.md): admin access beside shares and counters, or beside other
requests of the pod. Where Kubernetes' allocator aborts the pod, because of all devices under a constraint, only the
abort is counted.
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
_POLICIES: Final[Sequence[Json]] = (
    {},
    {"requestPolicy": {"default": "1"}},
    {"requestPolicy": {"default": "2", "validValues": ["2", "4"]}},
    {"requestPolicy": {"default": "2", "validRange": {"min": "2", "max": "6", "step": "2"}}},
)
_TOLERATIONS: Final[Sequence[Json]] = (
    {"operator": "Exists"},
    {"key": "k", "operator": "Exists"},
    {"key": "l", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
)
_LISTS: Final[dict[str, Sequence[Json]]] = {
    NUMA_NODE: ({"ints": [0, 1]}, {"ints": [1]}),
    _RAIL: ({"strings": ["a", "b"]}, {"strings": ["b", "c"]}),
}
_KINDS: Final = ("plain", "parts", "plain", "admin")
NODE: Final[Json] = {"metadata": {"name": "n1"}}
CLASSES: Final[Sequence[Json]] = [
    {"metadata": {"name": kind}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}}
    for kind, driver in _DRIVERS.items()
] + [{"metadata": {"name": "any"}, "spec": {}}]


def slices(random: Random, kind: str = "plain") -> list[Json]:
    """The devices of the node. Some lack an attribute."""
    found = []
    for unit, driver in _DRIVERS.items():
        devices = [_device(f"{unit}-{number}", random) for number in range(random.randint(1, 5))]
        counters = _enrich(devices, random, kind)
        parts: list[Json] = [{"devices": devices}, *([{"sharedCounters": counters}] if counters else [])]
        pool = {"name": f"n1/{driver}", "generation": 1, "resourceSliceCount": len(parts)}
        for number, part in enumerate(parts):
            name = f"n1-{unit}-{number}" if number else f"n1-{unit}"
            spec = {"driver": driver, "nodeName": "n1", "pool": pool, **part}
            found.append({"metadata": {"name": name}, "spec": spec})
    return found


def _enrich(devices: Sequence[Json], random: Random, kind: str) -> list[Json]:
    """Give the devices what is rare. Returns the counters that they draw on."""
    if kind == "plain":
        return []
    partitions = kind == "parts" and random.random() < 0.4
    for device in devices:
        if partitions and random.random() < 0.8:
            drawn = {name: {"value": str(random.randint(1, 2))} for name in ("units", "memory")}
            device["consumesCounters"] = [{"counterSet": "card", "counters": drawn}]
        if random.random() < 0.4:
            device["capacity"] = {"memory": {"value": "8"}, "bandwidth": {"value": str(random.choice((4, 10)))}}
            if kind == "parts" and random.random() < 0.7:
                device["allowMultipleAllocations"] = True
                device["capacity"]["memory"] |= random.choice(_POLICIES)
        if random.random() < 0.15:
            effect = random.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": random.choice("kl"), "value": "v", "effect": effect}]
        if random.random() < 0.1:
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
            device["bindsToNode"] = random.random() < 0.5
        for name, values in _LISTS.items():
            if name in device["attributes"] and random.random() < 0.25:
                device["attributes"][name] = random.choice(values)
    return [{"name": "card", "counters": {"units": {"value": "4"}, "memory": {"value": "5"}}}] if partitions else []


def _device(name: str, random: Random) -> Json:
    values = {
        PCIE_ROOT: {"string": f"pci0000:{random.choice(('00', '40', '80'))}"},
        NUMA_NODE: {"int": random.randint(0, 1)},
        _RAIL: {"string": random.choice("ab")},
        "fast": {"bool": random.random() < 0.5},
    }
    return {"name": name, "attributes": {key: value for key, value in values.items() if random.random() < 0.9}}


def claim(name: str, random: Random, kind: str = "plain") -> Json:
    """A claim with requests for devices of several drivers."""
    requests = [_request(f"r{number}", random, kind) for number in range(random.randint(1, 3))]
    names = [request["name"] for request in requests]
    constraints: list[Json] = []
    for _ in range(random.choice((0, 1, 1, 2))):
        compares = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        bound = names if random.random() < 0.7 else sorted(random.sample(names, random.randint(1, len(names))))
        constraints.append({"requests": bound, compares: random.choice(_COMPARED)})
    devices = {"requests": requests, "constraints": constraints}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def _pod(random: Random, kind: str) -> list[Json]:
    if kind == "admin" and random.random() < 0.3:
        kind = "access"
    return [claim(f"c{at}", random, kind) for at in range(random.choice((1, 1, 2)))]


def _request(name: str, random: Random, kind: str) -> Json:
    if random.random() < 0.25 and kind != "access":
        wants = [{"name": f"s{at}", **_want(random)} for at in range(2)]
        return {"name": name, "firstAvailable": [one | _more(random, kind) for one in wants]}
    wanted = _want(random) | _more(random, kind)
    if kind == "access":
        wanted["adminAccess"] = True
    return {"name": name, "exactly": wanted}


def _more(random: Random, kind: str) -> Json:
    found: Json = {}
    if kind == "plain":
        return found
    if random.random() < 0.3:
        amounts = {"memory": random.choice("1234"), "bandwidth": random.choice("25")}
        asked = random.sample(list(amounts), random.choice((1, 1, 2)))
        found["capacity"] = {"requests": {name: amounts[name] for name in asked}}
    if random.random() < 0.3:
        found["tolerations"] = [random.choice(_TOLERATIONS)]
    if random.random() < 0.1:
        # Defaults that the API server sets: without a number of devices.
        found |= {"allocationMode": "All", "count": 0}
    return found


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


def is_aborted(case: Json) -> bool:
    """Whether the pod was aborted because not all devices satisfy a constraint: other ways were not tried."""
    return "a claim constraint would not be satisfied" in case["expectError"]


class _Held:
    """What is in use, in the form of the other files."""

    def __init__(self) -> None:
        self._devices: list[Json] = []
        self._shares: list[Json] = []
        self._consumed: dict[tuple[str, ...], dict[str, int]] = {}

    def add(self, results: Sequence[Json]) -> None:
        for result in results:
            device = {name: result[name] for name in ("driver", "pool", "device")}
            if result.get("adminAccess"):
                continue
            if result.get("shareID"):
                self._shares.append({**device, "shareID": result["shareID"]})
                amounts = self._consumed.setdefault(tuple(device.values()), {})
                for name, amount in result["consumedCapacity"].items():
                    amounts[name] = amounts.get(name, 0) + int(amount)
            else:
                self._devices.append(device)

    def as_json(self) -> Json:
        consumed = [
            {"driver": driver, "pool": pool, "device": device, "capacity": {k: str(v) for k, v in amounts.items()}}
            for (driver, pool, device), amounts in self._consumed.items()
        ]
        return {"devices": [*self._devices], "sharedDeviceIDs": [*self._shares], "aggregatedCapacity": consumed}


def cases(questions: int, folder: Path) -> Iterator[Json]:
    """The questions with the answers of Kubernetes' allocator, in the form of the other files."""
    program = str(build())
    for number in range(-(-questions // _PODS)):
        random, kind = Random(number), _KINDS[number % len(_KINDS)]
        published = slices(random, kind)
        pods = [_pod(random, kind) for _ in range(_PODS)]
        cluster, asked = folder / "cluster", folder / "pods"
        objects = [("Node", NODE), *(("DeviceClass", one) for one in CLASSES)]
        objects += [("ResourceSlice", one) for one in published]
        cluster.write_text("\n".join(json.dumps({"kind": kind, **one}) for kind, one in objects))
        asked.write_text("\n".join(json.dumps({"claims": claims, "release": -1, "floor": 0}) for claims in pods))
        run = {
            **FIRST_FIT,
            "pods": str(asked),
            "seconds": 600.0,
            "timeout": TIMEOUT,
            "patience": TIMEOUT,
            "lists": kind != "plain",
        }
        [summary] = answers([program, "allocate", str(cluster)], folder / "runs", [run])
        held = _Held()
        for at, (claims, found) in enumerate(zip(pods, summary["answers"], strict=True)):
            yield {
                "name": f"mixed-{number}-{at}",
                "gates": "default",
                "claimsToAllocate": claims,
                "classes": CLASSES,
                "slices": published,
                "node": NODE,
                "allocatedDevices": held.as_json(),
                "expectResults": found.get("results") or [],
                "expectError": found.get("error", ""),
                "expectChecks": ["exact"],
            }
            for one in found.get("results") or []:
                held.add(one["devices"]["results"])


def main(questions: int) -> None:
    """Ask, print how often both chose the same, and record the first mixed questions, half of them with devices."""
    total = served = mixed = aborted = 0
    differ: list[str] = []
    kept: dict[bool, list[Json]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(questions, Path(folder)):
            total, served, mixed = total + 1, served + bool(case["expectResults"]), mixed + is_mixed(case)
            if is_aborted(case):
                aborted += 1
                continue
            if not agrees(case):
                differ.append(case["name"])
            if is_mixed(case):
                kept[bool(case["expectResults"])].append(case)
    recorded = [case for each in kept.values() for case in islice(each, _RECORDED // 2)]
    _FILE.write_text("".join(json.dumps(case) + "\n" for case in recorded))
    asked = f"{total} questions: {mixed} with a constraint across drivers"
    print(f"{asked}, {served} served, {aborted} aborted, {len(differ)} differ")
    print(*differ[:20])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_600)
