"""Checks that the answers of an allocator are possible, with the invariants of the simulation."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from driver.names import Names
from driver.wire import Json, allocation_from
from simulation.invariants import Catalogue, Holding

_NODE_OF_SLICE = re.compile(r'"name": "(node-\d+)')
_MOST = 3


def faults(cluster: Path, pods: Path, names: Names, answers: Sequence[Json]) -> list[str]:
    """Violations in the answers, at most three: after each answer, its pools are checked with all allocations there."""
    nodes = {answer["node"] for answer in answers if answer.get("node")}
    catalogue = Catalogue(names)
    held: list[list[Holding]] = []
    for raw in _concerned(cluster, nodes):
        if raw["kind"] == "ResourceSlice":
            catalogue.learn(raw)
        else:
            held.append(_holdings(raw["metadata"]["name"], [raw["status"]["allocation"]]))
    return [fault for _, fault in zip(range(_MOST), _replay(catalogue, held, pods, answers), strict=False)]


def _concerned(cluster: Path, nodes: set[str]) -> Iterator[Json]:
    """The slices of these nodes, and all claims."""
    with cluster.open() as file:
        for line in file:
            if line.startswith('{"kind": "ResourceSlice"'):
                found = _NODE_OF_SLICE.search(line)
                if found and found[1] in nodes:
                    yield json.loads(line)
            elif line.startswith('{"kind": "ResourceClaim"'):
                yield json.loads(line)


def _replay(catalogue: Catalogue, held: list[list[Holding]], pods: Path, answers: Sequence[Json]) -> Iterator[str]:
    by_pool: dict[str, dict[int, Holding]] = defaultdict(dict)
    for holdings in held:
        _add(by_pool, holdings)
    with pods.open() as file:
        for line, answer in zip(file, answers, strict=False):
            pod = json.loads(line)
            if answer.get("node"):
                holdings = _holdings(pod["claims"][0]["metadata"]["name"], answer["results"])
                yield from _unlike(pod, answer)
                held.append(holdings)
                _add(by_pool, holdings)
                for pool in {holding.result.device.pool for holding in holdings}:
                    yield from catalogue.conflicts(by_pool[pool].values())
            if pod["release"] >= 0 and len(held) > pod["floor"]:
                index = pod["release"] % len(held)
                held[index], held[-1] = held[-1], held[index]
                for holding in held.pop():
                    del by_pool[holding.result.device.pool][id(holding)]


def _add(by_pool: dict[str, dict[int, Holding]], holdings: list[Holding]) -> None:
    for holding in holdings:
        by_pool[holding.result.device.pool][id(holding)] = holding


def _holdings(holder: str, allocations: Sequence[Json]) -> list[Holding]:
    return [Holding(holder, result) for raw in allocations for result in allocation_from(raw).results]


def _unlike(pod: Json, answer: Json) -> Iterator[str]:
    """Claims with too few or too many devices."""
    for claim, allocation in zip(pod["claims"], answer["results"], strict=True):
        wanted = {r["name"]: r["exactly"]["count"] for r in claim["spec"]["devices"]["requests"]}
        given: dict[str, int] = dict.fromkeys(wanted, 0)
        for result in allocation["devices"]["results"]:
            given[result["request"]] += 1
        if given != wanted:
            yield f"{claim['metadata']['name']} wants {wanted} and gets {given}"


def same(ours: Sequence[Json], theirs: Sequence[Json]) -> tuple[int, int]:
    """Of the pods that both sides answered: how many got the same devices, and how many there are."""
    both = list(zip(ours, theirs, strict=False))
    return sum(_places(one) == _places(other) for one, other in both), len(both)


def _places(answer: Json) -> tuple[str, list[tuple[str, str]]]:
    results = (result for one in answer.get("results", ()) for result in one["devices"]["results"])
    return answer.get("node", ""), sorted((result["pool"], result["device"]) for result in results)
