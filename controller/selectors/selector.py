"""A compiled selector: CEL exactly as kube-scheduler 1.37 evaluates it on devices, or a refusal."""

from typing import Any

from controller.selectors import constants
from controller.selectors.budget import Budget
from controller.selectors.checker import check
from controller.selectors.declarations import SCHEDULER, Environment
from controller.selectors.errors import SelectorError, SelectorFault
from controller.selectors.evaluator import Program
from controller.selectors.parser import parse
from controller.selectors.reads import Path, paths, value_at
from controller.selectors.values import Device, kind
from controller.selectors.view import view
from driver import model


class Selector:
    """A CEL expression that says yes, no, or fails, for a device.

    Attributes:
        expression: the text it was compiled from.
        paths: the parts of a device that decide the outcome, for `value_at`; None where any part may.
    """

    __slots__ = ("_program", "expression", "paths")

    def __init__(self, expression: str, program: Program, paths: tuple[Path, ...] | None):
        self.expression = expression
        self.paths = paths
        self._program = program

    def matches(self, device: model.Device, driver: str) -> bool:
        """Whether the selector selects ``device`` of ``driver``.

        Raises:
            InvalidAttribute: an attribute has no usable value, so that every selector fails on this device.
            SelectorFault: evaluation failed on this device; its message names the attribute and the remedy.
        """
        return self.evaluate(view(device, driver))

    def evaluate(self, device: Device) -> bool:
        """As `matches`, for a device that the caller turned into the variable ``device`` once with `view`.

        Raises:
            SelectorFault: evaluation failed on this device; its message names the attribute and the remedy.
        """
        frame: list[Any] = [None] * self._program.frame_size
        frame[0], frame[1] = device, Budget()
        try:
            result = self._program.code(frame)
        except RecursionError:
            raise SelectorFault("the expression is nested too deeply to evaluate") from None
        if result is True or result is False:
            return bool(result)
        raise SelectorFault(f"the result is of type {kind(result)}, but a selector must give a bool")

    def projection(self, device: model.Device, driver: str) -> tuple[Any, ...] | None:
        """The values of all paths; None: everything may matter."""
        return None if self.paths is None else tuple([value_at(path, device, driver) for path in self.paths])


def compile_selector(expression: str, environment: Environment = SCHEDULER) -> Selector:
    """The selector that ``expression`` describes.

    Raises:
        SelectorError: it is no valid selector, or uses what is not supported; its author must change it.
    """
    try:
        node = parse(expression)
        checked = check(expression, node, environment)
        constants.check(expression, node, checked)
        return Selector(expression, Program(expression, node), paths(node))
    except RecursionError:
        message = "nested too deeply to compile, which is not supported"
        raise SelectorError(expression, 0, message, unsupported=True) from None
