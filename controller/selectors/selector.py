"""A compiled selector: CEL exactly as kube-scheduler 1.37 evaluates it on devices, or a refusal."""

from typing import Any

from controller.selectors import constants
from controller.selectors.budget import Budget
from controller.selectors.checker import check
from controller.selectors.declarations import SCHEDULER, Environment
from controller.selectors.errors import SelectorError, SelectorFault
from controller.selectors.evaluator import Program
from controller.selectors.parser import parse
from controller.selectors.reads import reads
from controller.selectors.values import kind
from controller.selectors.view import view
from driver import model


class Selector:
    """A CEL expression that says yes, no, or fails, for a device."""

    __slots__ = ("_program", "_reads", "expression")

    def __init__(self, expression: str, program: Program, reads: Any):
        self.expression = expression
        self._program = program
        self._reads = reads

    def matches(self, device: model.Device, driver: str) -> bool:
        """Whether the selector selects ``device`` of ``driver``.

        Raises:
            SelectorFault: evaluation failed on this device; its message names the attribute and the remedy.
        """
        frame: list[Any] = [None] * self._program.frame_size
        frame[0], frame[1] = view(device, driver), Budget()
        try:
            result = self._program.code(frame)
        except RecursionError:
            raise SelectorFault("the expression is nested too deeply to evaluate") from None
        if result is True or result is False:
            return bool(result)
        raise SelectorFault(f"the result is of type {kind(result)}, but a selector must give a bool")

    def projection(self, device: model.Device, driver: str) -> tuple[Any, ...] | None:
        """What of ``device`` decides the outcome: equal projections, equal outcomes. None: everything may matter.

        Holds among devices all of whose attributes are valid.
        """
        if self._reads is None:
            return None
        return tuple([read(device, driver) for read in self._reads])


def compile_selector(expression: str, environment: Environment = SCHEDULER) -> Selector:
    """The selector that ``expression`` describes.

    Raises:
        SelectorError: it is no valid selector, or uses what is not supported; its author must change it.
    """
    try:
        node = parse(expression)
        check(expression, node, environment)
        constants.check(expression, node)
        return Selector(expression, Program(expression, node), reads(node))
    except RecursionError:
        message = "nested too deeply to compile, which is not supported"
        raise SelectorError(expression, 0, message, unsupported=True) from None
