"""Against the answers of Kubernetes' own evaluator: always the same outcome."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controller.selectors import ADMISSION, SCHEDULER, Environment, SelectorError, SelectorFault, compile_selector
from driver.wire import device_from

_DATA = Path(__file__).parents[3] / "data" / "conformance" / "cel"

FILES = ("upstream", "more", "random", "libraries")


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    device: dict[str, Any]
    environment: Environment
    outcome: str


def cases(file: str) -> Iterator[Case]:
    lines = (_DATA / f"{file}.jsonl").read_text().splitlines()
    devices = json.loads(lines[0])["devices"]
    for line in lines[1:]:
        raw = json.loads(line)
        stored = raw["envType"] == "StoredExpressions"
        features = raw["features"]
        environment = SCHEDULER if stored or features["listTypeAttributes"] else ADMISSION
        environment = replace(environment, allow_multiple=stored or features["consumableCapacity"])
        yield Case(raw["name"], raw["expression"], devices[raw["device"]], environment, outcome(raw["observed"]))


def outcome(observed: dict[str, Any]) -> str:
    if "compileError" in observed:
        return "compile error"
    return "runtime error" if "matchError" in observed else str(observed["match"])


def answer(case: Case) -> str:
    try:
        selector = compile_selector(case.expression, case.environment)
        device = device_from({"name": "device", **case.device}, case.device["driver"])
        return str(selector.matches(device, case.device["driver"]))
    except SelectorError as error:
        return "unsupported" if error.unsupported else "compile error"
    except SelectorFault:
        return "runtime error"


@pytest.mark.parametrize("file", FILES)
def test_every_answer_is_that_of_kubernetes(file: str) -> None:
    wrong = [
        f"{case.name}: {case.expression}: expected {case.outcome}, got {got}"
        for case in cases(file)
        if (got := answer(case)) != case.outcome
    ]
    assert not wrong
