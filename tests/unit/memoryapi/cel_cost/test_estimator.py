"""The estimated cost of expressions, against the estimate that Kubernetes makes at admission."""

import pytest

from controller.selectors.language.checker import check
from controller.selectors.language.parser import parse
from memoryapi.cel_cost import estimate
from memoryapi.cel_cost.sizes import UNBOUNDED
from tests.recorded_selectors import WITH_COSTS, recorded


@pytest.mark.parametrize("file", WITH_COSTS)
def test_the_estimate_is_that_of_admission(file: str) -> None:
    wrong = []
    for case in recorded(file):
        if case.outcome == "compile error":
            continue
        expected = UNBOUNDED if case.estimate is None else case.estimate
        node = parse(case.expression)
        got = estimate(node, check(case.expression, node, case.environment))
        if got != expected:
            wrong.append(f"{case.name}: {case.expression}: expected {expected}, got {got}")
    assert not wrong
