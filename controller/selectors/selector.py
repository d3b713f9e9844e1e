"""A compiled selector: CEL exactly as kube-scheduler 1.37 evaluates it on devices, or a refusal."""

from typing import Final

from controller.selectors import constants
from controller.selectors.cost.budget import UNMETERED, Budget
from controller.selectors.cost.estimate import estimate
from controller.selectors.cost.plain import is_plain
from controller.selectors.cost.sizes import UNBOUNDED
from controller.selectors.errors import SelectorError, SelectorFault
from controller.selectors.language.checker import check
from controller.selectors.language.declarations import SCHEDULER, Environment
from controller.selectors.language.parser import parse
from controller.selectors.library.values import Device, Optional, kind
from controller.selectors.reads import Path, paths
from controller.selectors.running.evaluator import Program
from controller.selectors.view import view
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


def compile_selector(expression: str, environment: Environment = SCHEDULER) -> Selector:
    """The selector that ``expression`` describes.

    Raises:
        SelectorError: it is no valid selector, or uses what is not supported; its author must change it.
    """
    if environment.max_length is not None and len(expression.encode()) > environment.max_length:
        raise SelectorError(expression, 0, f"longer than {environment.max_length} bytes; shorten it")
    try:
        node = parse(expression)
        checked = check(expression, node, environment)
        fixed = constants.check(expression, node, checked)
        if environment.max_cost is not None:
            _check_cost(expression, estimate(node, checked), environment.max_cost)
        metered = not is_plain(expression, node, checked, fixed)
        return Selector(expression, Program(node, checked, fixed, metered=metered), paths(node))
    except RecursionError:
        message = "nested too deeply to compile, which is not supported"
        raise SelectorError(expression, 0, message, unsupported=True) from None


_NOT_BOUNDED: Final = UNBOUNDED // 100
"""What an estimate comes to where a size is not known: a part of UNBOUNDED."""


def _check_cost(expression: str, cost: int, limit: int) -> None:
    if cost > limit:
        shown = "without bound" if cost >= _NOT_BOUNDED else f"{cost}"
        message = f"the estimated cost ({shown}) exceeds the limit of {limit}; walk shorter lists, or nest less"
        raise SelectorError(expression, 0, message)
