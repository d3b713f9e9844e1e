"""Selectors and what Kubernetes' own evaluator answered, as recorded in tests/data/conformance/cel."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from driver.cel import ADMISSION, SCHEDULER, Environment

_DATA = Path(__file__).parent / "data" / "conformance" / "cel"

_OF_1_38: Final[Mapping[str, Any]] = {
    "v137-15": {"match": False},
    "v137-16": {"match": True},
    "v137-17": {"match": True},
}
"""What 1.38 answers for devices with a value that cannot be read: only a selector that reads it fails."""
WITH_COSTS = ("upstream", "more", "random", "typed")
"""The files of which the costs are known too."""


@dataclass(frozen=True)
class Recorded:
    """One selector, evaluated for one device."""

    name: str
    expression: str
    device: dict[str, Any]
    """The device as in a ResourceSlice, with its driver under ``driver``."""
    environment: Environment
    outcome: Literal["True", "False", "runtime error", "compile error"]
    estimate: int | None
    """The cost that admission expects at most; None if it is unbounded."""
    cost: int | None
    """The cost of this evaluation; None if it depends on the order of Go's maps, or upstream's count broke off."""


@cache
def _costs() -> dict[str, dict[str, tuple[int | None, int | None]]]:
    recorded: dict[str, dict[str, tuple[int | None, int | None]]] = json.loads((_DATA / "costs.json").read_text())
    return recorded


def recorded(file: str) -> Iterator[Recorded]:
    """The cases of one file, in its order."""
    lines = (_DATA / f"{file}.jsonl").read_text().splitlines()
    devices = json.loads(lines[0])["devices"]
    for line in lines[1:]:
        raw = json.loads(line)
        observed, features = _OF_1_38.get(raw["name"], raw["observed"]), raw["features"]
        stored = raw["envType"] == "StoredExpressions"
        environment = SCHEDULER if stored or features["listTypeAttributes"] else ADMISSION
        environment = replace(environment, allow_multiple=stored or features["consumableCapacity"])
        costs = observed.get("maxCost"), observed.get("actualCost")
        estimate, cost = _costs().get(file, {}).get(raw["name"], costs)
        device = devices[raw["device"]]
        yield Recorded(raw["name"], raw["expression"], device, environment, _outcome(observed), estimate, cost)


def _outcome(observed: dict[str, Any]) -> Literal["True", "False", "runtime error", "compile error"]:
    if "compileError" in observed:
        return "compile error"
    if "matchError" in observed:
        return "runtime error"
    return "True" if observed["match"] else "False"
