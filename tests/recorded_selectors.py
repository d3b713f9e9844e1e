"""Selectors and what Kubernetes' own evaluator answered, as recorded in tests/data/conformance/cel."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from driver.cel import BOTH, V1_37, V1_38, Environment, KubernetesRelease, admission, scheduler

_DATA = Path(__file__).parent / "data" / "conformance" / "cel"

_OF_1_38: Final[Mapping[str, Any]] = {
    "v137-15": {"match": False},
    "v137-16": {"match": True},
    "v137-17": {"match": True},
}
"""What 1.38 answers for devices with a value that cannot be read: only a selector that reads it fails."""

_IN_ANY_ORDER = frozenset({"gpu-195", "gpu-199", "gpu-470", "gpu-560", "gpu-lt-560"})
"""The cases whose cost in 1.38 depends on the order of Go's maps."""

WITH_COSTS = ("upstream", "more", "random", "typed")
"""The files of which the costs are known too."""


Outcome = Literal["True", "False", "runtime error", "compile error"]


@dataclass(frozen=True)
class Recorded:
    """One selector, evaluated for one device."""

    name: str
    expression: str
    device: dict[str, Any]
    """The device as in a ResourceSlice, with its driver under ``driver``."""
    environment: Environment
    outcome: Outcome
    estimate: int | None
    """The cost that admission expects at most; None if it is unbounded."""
    cost: int | None
    """The cost of this evaluation; None if it depends on the order of Go's maps, or upstream's count broke off."""


@cache
def _costs() -> dict[str, dict[str, tuple[int | None, int | None]]]:
    recorded: dict[str, dict[str, tuple[int | None, int | None]]] = json.loads((_DATA / "costs.json").read_text())
    return recorded


@cache
def _changes() -> dict[str, dict[str, Any]]:
    """What 1.38 answers, where it differs from 1.37 (or may differ in the cost, which is not known for all)."""
    lines = (_DATA / "kubernetes-1.38.jsonl").read_text().splitlines()
    return {change["case"]: change["observed"] for change in map(json.loads, lines)}


def recorded(file: str, release: KubernetesRelease = V1_37) -> Iterator[Recorded]:
    """The cases of one file, in its order, with the answers of one version."""
    lines = (_DATA / f"{file}.jsonl").read_text().splitlines()
    devices = json.loads(lines[0])["devices"]
    for line in lines[1:]:
        raw = json.loads(line)
        observed, features = _OF_1_38.get(raw["name"], raw["observed"]), raw["features"]
        stored = raw["envType"] == "StoredExpressions"
        environment = (scheduler if stored or features["listTypeAttributes"] else admission)(release)
        environment = replace(environment, allow_multiple=stored or features["consumableCapacity"])
        costs = observed.get("maxCost"), observed.get("actualCost")
        estimate, cost = _costs().get(file, {}).get(raw["name"], costs)
        device = devices[raw["device"]]
        if release is V1_38 and (change := _changes().get(f"{file}/{raw['name']}")) is not None:
            observed, estimate = change, change.get("maxCost")
            cost = None if raw["name"] in _IN_ANY_ORDER else change.get("actualCost")
        yield Recorded(raw["name"], raw["expression"], device, environment, _outcome(observed), estimate, cost)


def answers(file: str, release: KubernetesRelease) -> Iterator[Recorded]:
    """The cases of one file, with the answers of one version, or the stricter of the answers of all (BOTH)."""
    return _stricter(file) if release is BOTH else recorded(file, release)


def _stricter(file: str) -> Iterator[Recorded]:
    for older, newer in zip(recorded(file, V1_37), recorded(file, V1_38), strict=True):
        outcomes: set[Outcome] = {older.outcome, newer.outcome}
        fault: Outcome = "compile error" if "compile error" in outcomes else "runtime error"
        outcome = older.outcome if len(outcomes) == 1 else fault
        environment = replace(older.environment, release=BOTH)
        cost = None if older.cost is None or newer.cost is None else max(older.cost, newer.cost)
        yield replace(older, environment=environment, outcome=outcome, cost=cost)


def _outcome(observed: dict[str, Any]) -> Outcome:
    if "compileError" in observed:
        return "compile error"
    if "matchError" in observed:
        return "runtime error"
    return "True" if observed["match"] else "False"
