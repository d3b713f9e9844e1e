"""What evaluating expressions costs, against what Kubernetes counts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from controller.selectors import ADMISSION, SCHEDULER, Environment, SelectorFault, constant_folding, view
from controller.selectors.cost.budget import COST_LIMIT, UNMETERED, Budget
from controller.selectors.cost.metering import cost_bound
from controller.selectors.evaluator.compiler import CompiledExpression
from controller.selectors.language.checker import check
from controller.selectors.language.parser import parse
from driver.wire import device_from

_DATA = Path(__file__).parents[4] / "data" / "conformance" / "cel"
FILES = ("upstream", "more", "random", "typed")


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    device: dict[str, Any]
    environment: Environment
    outcome: str
    cost: int | None
    """None where the order of Go's maps, or where upstream's own bookkeeping broke off, decides it."""


@cache
def _recorded() -> dict[str, dict[str, tuple[int | None, int | None]]]:
    recorded: dict[str, dict[str, tuple[int | None, int | None]]] = json.loads((_DATA / "costs.json").read_text())
    return recorded


def cases(file: str) -> Iterator[Case]:
    """The recorded cases that compile."""
    lines = (_DATA / f"{file}.jsonl").read_text().splitlines()
    devices = json.loads(lines[0])["devices"]
    for line in lines[1:]:
        raw = json.loads(line)
        seen = raw["observed"]
        if "compileError" in seen:
            continue
        _, cost = _recorded().get(file, {}).get(raw["name"], (None, seen.get("actualCost")))
        stored, features = raw["envType"] == "StoredExpressions", raw["features"]
        environment = SCHEDULER if stored or features["listTypeAttributes"] else ADMISSION
        environment = replace(environment, allow_multiple=stored or features["consumableCapacity"])
        outcome = "fault" if "matchError" in seen else str(seen["match"])
        device = devices[raw["device"]]
        yield Case(raw["name"], raw["expression"], device, environment, outcome, cost)


def evaluated(case: Case, *, metered: bool) -> tuple[str, int]:
    """The outcome, and what was counted on the way."""
    node = parse(case.expression)
    checked = check(case.expression, node, case.environment)
    program = CompiledExpression(node, checked, constant_folding.check(case.expression, node, checked), metered=metered)
    budget = Budget() if metered else UNMETERED
    device, driver = device_from({"name": "d", **case.device}, case.device["driver"]), case.device["driver"]
    try:
        prepared = view(device, driver)
        outcome = str(program.code([prepared, budget, *[None] * program.variables]))
    except SelectorFault:
        outcome = "fault"
    return (outcome if outcome in ("True", "False") else "fault"), budget.cost


@pytest.mark.parametrize("file", FILES)
def test_the_cost_of_an_evaluation_is_what_kubernetes_counts(file: str) -> None:
    wrong = []
    for case in cases(file):
        outcome, cost = evaluated(case, metered=True)
        counted = case.cost is None or cost == case.cost or (cost > COST_LIMIT and case.cost > COST_LIMIT)
        if outcome != case.outcome or not counted:
            wrong.append(
                f"{case.name}: {case.expression}: expected {case.outcome} at {case.cost}, got {outcome}, {cost}"
            )
    assert not wrong


@pytest.mark.parametrize("file", FILES)
def test_what_is_not_metered_stays_below_its_bound_and_has_the_same_outcome(file: str) -> None:
    plain = 0
    for case in cases(file):
        node = parse(case.expression)
        checked = check(case.expression, node, case.environment)
        most = cost_bound(case.expression, node, checked, constant_folding.check(case.expression, node, checked))
        if most is not None:
            plain += 1
            outcome, cost = evaluated(case, metered=True)
            assert cost <= most <= COST_LIMIT, case.expression
            assert evaluated(case, metered=False) == (outcome, 0), case.expression
    assert plain > 100
