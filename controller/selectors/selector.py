"""A compiled selector: CEL exactly as kube-scheduler 1.37 evaluates it on devices, or a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.selectors import constant_folding
from controller.selectors.cost.budget import UNMETERED, Budget
from controller.selectors.cost.metering import is_plain
from controller.selectors.device import view
from controller.selectors.errors import SelectorError, SelectorFault
from controller.selectors.evaluator.compiler import Program
from controller.selectors.language.checker import Checked, check
from controller.selectors.language.environment import SCHEDULER, Environment
from controller.selectors.language.parser import parse
from controller.selectors.language.syntax import Node
from controller.selectors.paths import Path, paths
from controller.selectors.values.types import Device, Optional, kind
from driver import model


class Selector:
    """A CEL expression that says yes, no, or fails, for a device.

    Attributes:
        expression: the text it was compiled from.
        paths: the parts of a device that decide the outcome, for `value_at`; None where any part may.
        metered: whether what an evaluation costs is counted; others cannot cost much.
    """

    __slots__ = ("_code", "_unset", "expression", "metered", "paths")

    def __init__(self, expression: str, program: Program, paths: tuple[Path, ...] | None):
        self.expression = expression
        self.paths = paths
        self._code = program.code
        self.metered = program.metered
        self._unset = [None] * program.variables

    def matches(self, device: model.Device, driver: str) -> bool:
        """Whether the selector selects ``device`` of ``driver``.

        Raises:
            InvalidAttribute: an attribute has no usable value, so that every selector fails on this device.
            SelectorFault: evaluation failed on this device; its message names the attribute and the remedy.
        """
        return self.evaluate(view(device, driver))

    def evaluate(self, device: Device, budget: Budget | None = None) -> bool:
        """As `matches`, for a device that the caller turned into the variable ``device`` once with `view`.

        Args:
            budget: counts what this evaluation costs, if the selector is ``metered``.

        Raises:
            SelectorFault: evaluation failed on this device; its message names the attribute and the remedy.
        """
        try:
            result = self._code([device, (budget or Budget()) if self.metered else UNMETERED, *self._unset])
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
        raise SelectorFault(f"the result is of type {kind(result)}, but a selector must give a bool")


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """An expression that has passed all checks before evaluation.

    Attributes:
        text: the whole expression.
        node: its syntax tree.
        types: the static type of each node, and the overloads that each call may run.
        constants: the values of all nodes that do not depend on the device.
    """

    text: str
    node: Node
    types: Checked
    constants: Mapping[Node, Any]


def check_selector(expression: str, environment: Environment = SCHEDULER) -> CheckedExpression:
    """Parse and check ``expression`` without compiling it for evaluation.

    Raises:
        SelectorError: it is not a valid selector, or uses what is not supported; its author must change it.
    """
    if environment.max_length is not None and len(expression.encode()) > environment.max_length:
        raise SelectorError(expression, 0, f"longer than {environment.max_length} bytes; shorten it")
    try:
        node = parse(expression)
        types = check(expression, node, environment)
        return CheckedExpression(expression, node, types, constant_folding.check(expression, node, types))
    except RecursionError:
        raise _too_deep(expression) from None


def compile_selector(expression: str, environment: Environment = SCHEDULER) -> Selector:
    """The selector that ``expression`` describes.

    Raises:
        SelectorError: it is not a valid selector, or uses what is not supported; its author must change it.
    """
    checked = check_selector(expression, environment)
    node, types, fixed = checked.node, checked.types, checked.constants
    try:
        metered = not is_plain(expression, node, types, fixed)
        return Selector(expression, Program(node, types, fixed, metered=metered), paths(node))
    except RecursionError:
        raise _too_deep(expression) from None


def _too_deep(expression: str) -> SelectorError:
    message = "nested too deeply to compile, which is not supported"
    return SelectorError(expression, 0, message, unsupported=True)
