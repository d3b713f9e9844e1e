"""What evaluating expressions costs, against what Kubernetes counts."""

from collections.abc import Iterator

import pytest

from driver.cel import BOTH, RELEASES, KubernetesRelease, SelectorFault, constant_folding, view
from driver.cel.cost.budget import COST_LIMIT, UNMETERED, CostBudget
from driver.cel.cost.metering import cost_bound
from driver.cel.evaluator.compiler import CompiledExpression
from driver.cel.language.checker import check
from driver.cel.language.parser import parse
from driver.wire import device_from
from tests.recorded_selectors import WITH_COSTS, Recorded, answers

MOST_ABOVE_BOTH = 10

EACH = pytest.mark.parametrize("release", [*RELEASES.values(), BOTH], ids=str)


def compiling(file: str, release: KubernetesRelease) -> Iterator[Recorded]:
    """The recorded cases that compile."""
    return (case for case in answers(file, release) if case.outcome != "compile error")


def evaluated(case: Recorded, *, metered: bool) -> tuple[str, int]:
    """The outcome, and what was counted on the way."""
    node = parse(case.expression)
    checked = check(case.expression, node, case.environment)
    program = CompiledExpression(node, checked, constant_folding.check(case.expression, node, checked), metered=metered)
    budget = CostBudget() if metered else UNMETERED
    device, driver = device_from({"name": "d", **case.device}, case.device["driver"]), case.device["driver"]
    try:
        prepared = view(device, driver, case.environment.release)
        outcome = str(program.code([prepared, budget, *[None] * program.variables]))
    except SelectorFault:
        outcome = "runtime error"
    return (outcome if outcome in ("True", "False") else "runtime error"), budget.cost


@EACH
@pytest.mark.parametrize("file", WITH_COSTS)
def test_the_cost_of_an_evaluation_is_what_kubernetes_counts(file: str, release: KubernetesRelease) -> None:
    wrong = []
    for case in compiling(file, release):
        outcome, cost = evaluated(case, metered=True)
        counted = case.cost is None or cost == case.cost or (cost > COST_LIMIT and case.cost > COST_LIMIT)
        if release is BOTH and case.cost is not None:
            # Where each version counts a step that the other does not, the sum is above both.
            counted = case.cost <= cost <= case.cost + MOST_ABOVE_BOTH
        if outcome != case.outcome or not counted:
            wrong.append(
                f"{case.name}: {case.expression}: expected {case.outcome} at {case.cost}, got {outcome}, {cost}"
            )
    assert not wrong


@EACH
@pytest.mark.parametrize("file", WITH_COSTS)
def test_what_is_not_metered_stays_below_its_bound_and_has_the_same_outcome(
    file: str, release: KubernetesRelease
) -> None:
    plain = 0
    for case in compiling(file, release):
        node = parse(case.expression)
        checked = check(case.expression, node, case.environment)
        most = cost_bound(case.expression, node, checked, constant_folding.check(case.expression, node, checked))
        if most is not None:
            plain += 1
            outcome, cost = evaluated(case, metered=True)
            assert cost <= most <= COST_LIMIT, case.expression
            assert evaluated(case, metered=False) == (outcome, 0), case.expression
    assert plain > 100
