"""The macros that walk a list or map, with upstream's treatment of failures inside them and its count of their cost.

Each is a loop with an accumulator upstream. A failure stays in the accumulator while the loop goes on, so that the
remaining elements are still evaluated and counted. The numbers below are what the steps of such a loop cost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from controller.selectors.cost.call_costs import self_compared
from controller.selectors.cost.factors import NEW_LIST
from controller.selectors.errors import BudgetSpent, Cancelled, SelectorFault, no_overload
from controller.selectors.evaluator.activation import BUDGET, Code, Frame
from controller.selectors.language.syntax import FoldKind
from controller.selectors.values.types import key_of, keys, kind

APPEND = NEW_LIST + 2
"""Reading the accumulator, making a list of one element, and joining the two."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a fold, compiled.

    Attributes:
        over: what is walked.
        slots: of the variables: the element (of a map, the key), or index or key and element.
        where: which elements count, if that is asked.
        body: the predicate, or what is made of each element.
        constant: whether the body is a constant: a list of it needs no making.
        sorts_dynamic: whether it is known only at run time what a sortBy orders.
    """

    over: Code
    slots: tuple[int, ...]
    where: Code | None
    body: Code
    constant: bool = False
    sorts_dynamic: bool = False


def build(fold: FoldKind, loop: Loop) -> Code:
    """The code of one fold."""
    return lambda frame: _FOLDS[fold](frame, loop)


def _walk(frame: Frame, loop: Loop) -> Iterator[Any]:
    """Set the variables for each element in turn, and yield it: of a map, and one variable, the key."""
    value = loop.over(frame)
    is_map = isinstance(value, dict)
    pairs: Any
    if is_map:
        pairs = zip(keys(value), value.values(), strict=True)
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        raise SelectorFault(f"got '{kind(value)}', expected a list or map to walk")
    first, *second = loop.slots
    for key, element in pairs:
        if second:
            frame[first], frame[second[0]] = key, element
        else:
            frame[first] = key if is_map else element
        yield frame[first]


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload("_?_:_")


def _decide(frame: Frame, loop: Loop, *, deciding: bool, condition: int) -> bool:
    budget = frame[BUDGET]
    fault: SelectorFault | None = None
    steps = _walk(frame, loop)
    for _ in steps:
        budget.charge(condition + 1)
        try:
            value = loop.body(frame)
        except BudgetSpent:
            raise
        except SelectorFault as error:
            fault = fault or error
            continue
        if value is deciding:
            more = next(steps, steps) is not steps
            budget.charge(1 + condition if more else 1)
            return bool(value)
        if value is not (not deciding):
            fault = fault or no_overload("_||_" if deciding else "_&&_")
    budget.charge(1)
    if fault is not None:
        raise fault
    return not deciding


def _all(frame: Frame, loop: Loop) -> bool:
    return _decide(frame, loop, deciding=False, condition=2)


def _exists(frame: Frame, loop: Loop) -> bool:
    return _decide(frame, loop, deciding=True, condition=3)


Step: TypeAlias = Callable[[Any], None]


def _accumulate(frame: Frame, loop: Loop, step: Step, result: int = 1) -> None:
    """``step`` for each element that counts; the first failure is raised when all have had their turn.

    ``result`` is the cost of what the accumulator is then made into.
    """
    fault: SelectorFault | None = None
    for element in _walk(frame, loop):
        try:
            if loop.where is None or _truth(loop.where(frame)):
                step(element)
        except BudgetSpent:
            raise
        except SelectorFault as error:
            fault = fault or error
    frame[BUDGET].charge(result)
    if fault is not None:
        raise fault


def _exactly_one(frame: Frame, loop: Loop) -> bool:
    budget, count = frame[BUDGET], 0

    def step(_: Any) -> None:
        nonlocal count
        if _truth(loop.body(frame)):
            budget.charge(2)
            count += 1

    _accumulate(frame, loop, step, result=2)
    return count == 1


def _map(frame: Frame, loop: Loop) -> list[Any]:
    budget, cost = frame[BUDGET], 2 if loop.constant else APPEND
    result: list[Any] = []

    def step(_: Any) -> None:
        budget.charge(cost)
        result.append(loop.body(frame))

    _accumulate(frame, loop, step)
    return result


def _filter(frame: Frame, loop: Loop) -> list[Any]:
    budget = frame[BUDGET]
    result: list[Any] = []

    def step(element: Any) -> None:
        if _truth(loop.body(frame)):
            budget.charge(APPEND + 1)
            result.append(element)

    _accumulate(frame, loop, step)
    return result


def _transform_map(frame: Frame, loop: Loop) -> dict[Any, Any]:
    budget, failed = frame[BUDGET], False
    result: dict[Any, Any] = {}

    def step(key: Any) -> None:
        nonlocal failed
        budget.charge(1)
        if failed:
            return
        budget.charge(2)
        failed = True
        result[key_of(key)] = loop.body(frame)
        failed = False

    _accumulate(frame, loop, step)
    return result


def _transform_entries(frame: Frame, loop: Loop) -> dict[Any, Any]:
    budget = frame[BUDGET]
    result: dict[Any, Any] = {}

    def step(_: Any) -> None:
        budget.charge(2)
        entry = loop.body(frame)
        if not isinstance(entry, dict):
            raise no_overload("transformMapEntry")
        budget.grow(len(entry))
        for key, value in entry.items():
            if key in result:
                raise SelectorFault(f"insert failed: key {key} already exists")
            result[key] = value

    _accumulate(frame, loop, step)
    return result


_ORDERED = {
    "int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp"
}  # fmt: skip


def _sort_by(frame: Frame, loop: Loop) -> list[Any]:
    """The list is bound to a variable, a list of keys is made of it, and then it is sorted by them."""
    budget, cost = frame[BUDGET], 2 if loop.constant else APPEND
    budget.charge(2)
    values: Any = None
    found: list[Any] = []
    ordering: list[Any] = []

    def over(frame: Frame) -> Any:
        nonlocal values
        values = loop.over(frame)
        return values

    def step(element: Any) -> None:
        budget.charge(cost)
        found.append(element)
        ordering.append(loop.body(frame))

    try:
        _accumulate(frame, replace(loop, over=over), step)
    except BudgetSpent:
        raise
    except SelectorFault as fault:
        if loop.sorts_dynamic:
            budget.charge(1)
            raise
        raise Cancelled(str(fault)) from None
    if not isinstance(values, list):
        raise no_overload("sortBy")
    budget.charge(1 if loop.sorts_dynamic else self_compared(ordering))
    kinds = {kind(key) for key in ordering}
    if len(kinds) > 1:
        raise SelectorFault("list elements must have the same type")
    if not kinds <= _ORDERED:
        raise no_overload("sortBy")
    order = sorted(range(len(ordering)), key=ordering.__getitem__)
    return [found[index] for index in order]


_FOLDS: dict[FoldKind, Callable[[Frame, Loop], Any]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exactly_one,
    "map": _map,
    "transformList": _map,
    "filter": _filter,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
    "sortBy": _sort_by,
}
