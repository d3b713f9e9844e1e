"""Reading along a chain of fields, keys and indexes, such as ``device.attributes["a"].?b[0]``.

A chain is one step of evaluation upstream: where a field is optional, or what it starts from is, the rest of the chain
is optional, too; an optional value met on the way is opaque.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from controller.selectors.evaluator import lookup
from controller.selectors.evaluator.activation import BUDGET, DEVICE, Code, Frame
from controller.selectors.evaluator.lookup import MissingKey
from controller.selectors.values.types import EMPTY, NONE, Optional


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


def of_device(steps: Sequence[Step]) -> tuple[Code, int] | None:
    """Quicker code for the first steps after ``device``, and how many those are: only where nothing is counted."""
    keys = [step.key for step in steps[:3] if not (step.computed or step.optional) and isinstance(step.key, str)]
    match keys:
        case ["driver" | "allowMultipleAllocations" as field, *_] if not steps[0].test:
            return (lambda frame: frame[DEVICE][field]), 1
        case ["attributes" | "capacity" as kind, domain, name] if not (steps[0].test or steps[1].test):
            return (_has(kind, domain, name) if steps[2].test else _value(kind, domain, name)), 3
    return None


def or_value(steps: Sequence[Step], otherwise: Code) -> Code | None:
    """Quicker code for ``device.attributes["a"].?b.orValue(otherwise)``, only where nothing is counted."""
    match [step.key for step in steps if not step.computed and not step.test]:
        case ["attributes" | "capacity" as kind, str(domain), str(name)] if len(steps) == 3:
            return _or_value(kind, domain, name, otherwise)
    return None


def _or_value(kind: str, domain: str, name: str, otherwise: Code) -> Code:
    def run(frame: Frame) -> Any:
        value = frame[DEVICE][kind].get(domain, EMPTY).get(name, NONE)
        return otherwise(frame) if value is NONE else value

    return run


def _value(kind: str, domain: str, name: str) -> Code:
    def run(frame: Frame) -> Any:
        try:
            return frame[DEVICE][kind][domain][name]
        except KeyError:
            raise MissingKey(name, frame[DEVICE][kind].get(domain, EMPTY)) from None

    return run


def _has(kind: str, domain: str, name: str) -> Code:
    return lambda frame: name in frame[DEVICE][kind].get(domain, EMPTY)
