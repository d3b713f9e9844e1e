"""A compiled selector, and the way from the text of an expression to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver import model
from driver.cel import constant_folding
from driver.cel.cost.budget import UNMETERED, CostBudget
from driver.cel.cost.metering import cost_bound
from driver.cel.cost.steps import CHARACTER_STEPS, PLAIN_COST, PLAIN_STEPS, PREPARATION_STEPS
from driver.cel.device import view
from driver.cel.errors import SelectorError, SelectorFault
from driver.cel.evaluator.compiler import CompiledExpression
from driver.cel.language.checker import Checked, check
from driver.cel.language.environment import SCHEDULER, Environment
from driver.cel.language.parser import parse
from driver.cel.language.syntax import Node
from driver.cel.paths import DevicePath, paths
from driver.cel.releases import KubernetesRelease
from driver.cel.values.runtime import DeviceView, Optional, type_name

_BOUND_PER_STEP: Final = 8
"""The bound of a cost is far above the cost: so much of it counts as one step."""


class Selector:
    """A compiled CEL expression: a match, a mismatch or a fault for each device.

    Attributes:
        expression: the text it was compiled from.
        paths: the parts of a device that decide the outcome, for `value_at`; None where any part may.
        release: the version of Kubernetes by whose rules it is evaluated.
        metered: whether the cost of each evaluation is counted; other selectors cannot reach a limit.
        plain_steps: the steps (`cost.steps`) of one evaluation, without those that are counted.
        compile_steps: the steps that it took to compile it.
    """

    __slots__ = ("_code", "_unset", "compile_steps", "expression", "metered", "paths", "plain_steps", "release")

    def __init__(
        self,
        expression: str,
        compiled: CompiledExpression,
        paths: tuple[DevicePath, ...] | None,
        release: KubernetesRelease,
        plain_steps: int,
        compile_steps: int,
    ):
        self.expression = expression
        self.paths = paths
        self.release = release
        self._code = compiled.code
        self.metered = compiled.metered
        self.plain_steps = plain_steps
        self.compile_steps = compile_steps
        self._unset = [None] * compiled.variables

    def matches(self, device: model.Device, driver: str) -> bool:
        """Whether the selector selects ``device`` of ``driver``.

        Raises:
            SelectorFault: the evaluation failed on this device; its message names the attribute and the remedy.
        """
        return self.evaluate(view(device, driver, self.release))

    def evaluate(self, device: DeviceView, budget: CostBudget | None = None) -> bool:
        """Like `matches`, for a device that the caller has already converted with `view`, for the same ``release``.

        Args:
            budget: counts the cost of this evaluation, if the selector is ``metered``.

        Raises:
            SelectorFault: the evaluation failed on this device; its message names the attribute and the remedy.
        """
        try:
            result = self._code([device, (budget or CostBudget()) if self.metered else UNMETERED, *self._unset])
        except RecursionError:
            raise SelectorFault("the expression is nested too deeply to evaluate") from None
        if result is True:
            return True
        if result is False:
            return False
        while isinstance(result, Optional) and result.present:
            result = result.value
        if result is True or result is False:
            return bool(result)
        raise SelectorFault(f"the result of a selector must be a bool, not: {type_name(result)}")


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """An expression that passed all checks that do not depend on a device.

    Attributes:
        text: the whole expression.
        node: its syntax tree.
        types: the static type of each node, and the overloads that each call may run.
        constants: the values of all nodes that do not depend on the device.
        budget: what may still be computed from constants.
    """

    text: str
    node: Node
    types: Checked
    constants: Mapping[Node, Any]
    budget: CostBudget


def check_selector(expression: str, environment: Environment = SCHEDULER) -> CheckedExpression:
    """Parse and check ``expression`` without compiling it for evaluation.

    Raises:
        SelectorError: it is not a valid selector, or uses what is not supported; its author must change it.
    """
    if environment.max_length is not None and len(expression.encode()) > environment.max_length:
        raise SelectorError(expression, 0, f"too long; the limit in bytes is {environment.max_length}")
    try:
        node = parse(expression)
        types = check(expression, node, environment)
        budget = CostBudget.of_steps(PREPARATION_STEPS)
        constants = constant_folding.check(expression, node, types, budget)
        return CheckedExpression(expression, node, types, constants, budget)
    except RecursionError:
        raise _too_deep(expression) from None


def compile_selector(expression: str, environment: Environment = SCHEDULER) -> Selector:
    """The selector that ``expression`` describes.

    Raises:
        SelectorError: it is not a valid selector, or uses what is not supported; its author must change it.
    """
    return compile_checked(check_selector(expression, environment))


def compile_checked(checked: CheckedExpression) -> Selector:
    """The selector of an expression that passed all checks.

    Raises:
        SelectorError: it cannot be compiled.
    """
    expression, node, types, constants = checked.text, checked.node, checked.types, checked.constants
    try:
        bound = cost_bound(expression, node, types, constants)
        metered = bound is None or bound > PLAIN_COST
        compiled = CompiledExpression(node, types, constants, metered=metered, budget=checked.budget)
    except RecursionError:
        raise _too_deep(expression) from None
    plain = PLAIN_STEPS + (0 if metered or bound is None else bound // _BOUND_PER_STEP)
    steps = len(expression) * CHARACTER_STEPS + checked.budget.steps
    return Selector(
        expression,
        compiled,
        paths=paths(node),
        release=types.release,
        plain_steps=plain,
        compile_steps=steps,
    )


def _too_deep(expression: str) -> SelectorError:
    message = "nested too deeply to compile, which is not supported"
    return SelectorError(expression, 0, message, unsupported=True)
