"""The estimated cost of expressions, against the estimate that Kubernetes makes at admission."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from controller.selectors import ADMISSION, SCHEDULER, Environment
from controller.selectors.language.checker import check
from controller.selectors.language.parser import parse
from memoryapi.cel_cost import estimate
from memoryapi.cel_cost.sizes import UNBOUNDED

_DATA = Path(__file__).parents[3] / "data" / "conformance" / "cel"
FILES = ("upstream", "more", "random", "typed")


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    environment: Environment
    estimate: int


@cache
def _recorded() -> dict[str, dict[str, tuple[int | None, int | None]]]:
    recorded: dict[str, dict[str, tuple[int | None, int | None]]] = json.loads((_DATA / "costs.json").read_text())
    return recorded


def cases(file: str) -> Iterator[Case]:
    """The recorded cases that compile."""
    for line in (_DATA / f"{file}.jsonl").read_text().splitlines()[1:]:
        raw = json.loads(line)
        observed = raw["observed"]
        if "compileError" in observed:
            continue
        most, _ = _recorded().get(file, {}).get(raw["name"], (observed.get("maxCost"), None))
        stored, features = raw["envType"] == "StoredExpressions", raw["features"]
        environment = SCHEDULER if stored or features["listTypeAttributes"] else ADMISSION
        environment = replace(environment, allow_multiple=stored or features["consumableCapacity"])
        yield Case(raw["name"], raw["expression"], environment, UNBOUNDED if most is None else most)


@pytest.mark.parametrize("file", FILES)
def test_the_estimate_is_that_of_admission(file: str) -> None:
    wrong = []
    for case in cases(file):
        node = parse(case.expression)
        got = estimate(node, check(case.expression, node, case.environment))
        if got != case.estimate:
            wrong.append(f"{case.name}: {case.expression}: expected {case.estimate}, got {got}")
    assert not wrong
