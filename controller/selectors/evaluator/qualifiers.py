"""Reading along a chain of fields, keys and indexes, such as ``device.attributes["a"].?b[0]``.

A chain is one step of evaluation upstream: where a field is optional, or what it starts from is, the rest of the chain
is optional, too; an optional value met on the way is opaque.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from controller.selectors.evaluator import lookup
from controller.selectors.evaluator.activation import BUDGET, Code, Frame
from controller.selectors.evaluator.lookup import MissingKey
from controller.selectors.values.types import NONE, Optional


class Step(NamedTuple):
    """One field or key: ``key`` is its value, or the code for it if ``computed``."""

    key: Any
    computed: bool = False
    optional: bool = False
    test: bool = False


class Cost(NamedTuple):
    """What a chain costs by itself, and what each step costs: an optional one only if it leads somewhere."""

    chain: int
    step: int


def chain(base: Code, steps: Sequence[Step], cost: Cost, *, keeps_optional: bool = False) -> Code:
    """Code for the value at the end of ``steps``; for a test, whether it is there.

    A test    that ``keeps_optional`` yields an optional value where the chain is optional, as upstream has it in
    ``c ? has(x.?y.z) : true``.
    """
    testing = steps[-1].test

    def run(frame: Frame) -> Any:
        budget = frame[BUDGET]
        budget.charge(cost.chain)
        value = base(frame)
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return False if testing and not keeps_optional else value
            value = value.value
        for step in steps:
            optional = optional or step.optional
            if not optional:
                budget.charge(cost.step)
                value = _get(value, step.key(frame) if step.computed else step.key, step)
                continue
            found = _find(value, step.key(frame) if step.computed else step.key)
            if not found.present:
                return False if testing and not keeps_optional else NONE
            budget.charge(cost.step)
            value = found.value
        if not optional:
            return value
        return True if testing and not keeps_optional else Optional(True, value)

    return run


def _get(value: Any, key: Any, step: Step) -> Any:
    if type(value) is Optional:
        if step.test:
            return False
        raise MissingKey(key, {})
    return lookup.test(value, key) if step.test else lookup.index(value, key)


def _find(value: Any, key: Any) -> Optional:
    return NONE if type(value) is Optional else lookup.optional_index(value, key)
