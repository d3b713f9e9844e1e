"""The estimated cost of expressions, against the estimate that Kubernetes makes at admission."""

import pytest

from driver.cel import RELEASES, KubernetesRelease
from driver.cel.estimation import estimate
from driver.cel.estimation.sizes import UNBOUNDED
from driver.cel.language.checker import check
from driver.cel.language.parser import parse
from tests.recorded_selectors import WITH_COSTS, recorded


@pytest.mark.parametrize("release", RELEASES.values(), ids=str)
@pytest.mark.parametrize("file", WITH_COSTS)
def test_the_estimate_is_that_of_admission(file: str, release: KubernetesRelease) -> None:
    wrong = []
    for case in recorded(file, release):
        if case.outcome == "compile error":
            continue
        expected = UNBOUNDED if case.estimate is None else case.estimate
        node = parse(case.expression)
        got = estimate(node, check(case.expression, node, case.environment))
        if got != expected:
            wrong.append(f"{case.name}: {case.expression}: expected {expected}, got {got}")
    assert not wrong
