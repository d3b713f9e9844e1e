"""The macros that iterate over a list or map, with cel-go's treatment of faults and its count of the cost.

In cel-go each macro is a loop with an accumulator. A fault stays in the accumulator while the loop continues, so that
the remaining elements are still evaluated and counted. The constants in this module are the costs of the steps of such
a loop: reading the accumulator, testing the condition, appending an element.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from driver.cel.cost.call_costs import self_compared, size
from driver.cel.cost.factors import NEW_LIST
from driver.cel.errors import BudgetExceeded, Cancelled, SelectorFault, no_overload
from driver.cel.evaluator.activation import BUDGET, Activation, CompiledNode
from driver.cel.language.environment import SORT_KEYS
from driver.cel.language.syntax import Macro
from driver.cel.values.runtime import keys, lookup_key, type_name

APPEND_COST = NEW_LIST + 2
"""The cost of reading the accumulator, building a list of one element, and concatenating the two."""


_MOST_RESULT = 2
"""The highest cost of turning the accumulator into the result."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The compiled parts of a comprehension.

    Attributes:
        over: the list or map.
        slots: the slots of the variables: of the element (of a map, the key); or of the index or key and the element.
        where: the condition on the elements to use, for macros that have one.
        body: the predicate, or the new value for each element.
        constant: whether the body is a constant: cel-go does not build a list for it.
        sorts_dynamic: whether the type of the keys of sortBy is known only at run time.
        refuses_empty: whether a text cannot be iterated even if it is empty.
        charges_empty: whether a loop over an empty text costs something.
        charges_failed: whether steps of the loop cost the same after one of them failed.
    """

    over: CompiledNode
    slots: tuple[int, ...]
    where: CompiledNode | None
    body: CompiledNode
    constant: bool = False
    sorts_dynamic: bool = False
    refuses_empty: bool = True
    charges_empty: bool = False
    charges_failed: bool = True


def build(macro: Macro, loop: Loop) -> CompiledNode:
    """The code of one comprehension."""
    return lambda activation: _MACROS[macro](activation, loop)


def _iterate(activation: Activation, loop: Loop) -> Iterator[Any]:
    """Set the variables for each element in turn, and yield the first variable: the element, index or key."""
    value = loop.over(activation)
    is_map = isinstance(value, dict)
    pairs: Any
    first, *second = loop.slots
    if is_map:
        pairs = zip(keys(value), value.values() if second else value, strict=True)
    elif isinstance(value, list):
        pairs = enumerate(value)
    elif not loop.refuses_empty and size(value) == 0:
        return
    else:
        if loop.charges_empty and size(value) == 0:
            activation[BUDGET].charge(_MOST_RESULT)
        raise SelectorFault(f"expected a list or map to iterate over, got: {type_name(value)}")
    for key, element in pairs:
        if second:
            activation[first], activation[second[0]] = key, element
        else:
            activation[first] = key if is_map else element
        yield activation[first]


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload("_?_:_")


def _quantify(activation: Activation, loop: Loop, *, deciding: bool, condition: int) -> bool:
    """all() and exists(): the first element for which the predicate is ``deciding`` ends the loop.

    ``condition`` is the cost of the loop's condition.
    """
    budget = activation[BUDGET]
    fault: SelectorFault | None = None
    steps = _iterate(activation, loop)
    for _ in steps:
        budget.charge(condition + 1)
        try:
            value = loop.body(activation)
        except BudgetExceeded:
            raise
        except SelectorFault as error:
            fault = fault or error
            continue
        if value is deciding:
            # cel-go tests the condition once more before it leaves the loop, unless this was the last element.
            more = next(steps, steps) is not steps
            budget.charge(1 + condition if more else 1)
            return bool(value)
        if value is not (not deciding):
            fault = fault or no_overload("_||_" if deciding else "_&&_")
    budget.charge(1)
    if fault is not None:
        raise fault
    return not deciding


def _all(activation: Activation, loop: Loop) -> bool:
    return _quantify(activation, loop, deciding=False, condition=2)


def _exists(activation: Activation, loop: Loop) -> bool:
    return _quantify(activation, loop, deciding=True, condition=3)


LoopStep: TypeAlias = Callable[[Any], None]


def _accumulate(
    activation: Activation, loop: Loop, step: LoopStep, result: int = 1, *, goes_on: bool | None = None
) -> None:
    """Run ``step`` for each element that ``where`` selects. After the last element, raise the first fault.

    Args:
        result: the cost of turning the accumulator into the result.
        goes_on: whether ``step`` is still run after one failed; ``loop.charges_failed`` if None.
    """
    goes_on = loop.charges_failed if goes_on is None else goes_on
    fault: SelectorFault | None = None
    for element in _iterate(activation, loop):
        try:
            if loop.where is None or _truth(loop.where(activation)):
                if fault is None or goes_on:
                    step(element)
                else:
                    activation[BUDGET].charge(1)  # the accumulator is read, and holds the fault
        except BudgetExceeded:
            raise
        except SelectorFault as error:
            fault = fault or error
    activation[BUDGET].charge(result)
    if fault is not None:
        raise fault


def _body(activation: Activation, loop: Loop, cost: int, first: int = 1) -> Any:
    """The value of the body. Of its ``cost``, only the ``first`` part may count if it fails."""
    budget = activation[BUDGET]
    budget.charge(cost if loop.charges_failed else first)
    value = loop.body(activation)
    if not loop.charges_failed:
        budget.charge(cost - first)
    return value


def _exactly_one(activation: Activation, loop: Loop) -> bool:
    budget, count = activation[BUDGET], 0

    def step(_: Any) -> None:
        nonlocal count
        budget.charge(2)
        count += 1

    _accumulate(activation, replace(loop, where=loop.body), step, result=2)
    return count == 1


def _map(activation: Activation, loop: Loop) -> list[Any]:
    cost = 2 if loop.constant else APPEND_COST
    result: list[Any] = []

    def step(_: Any) -> None:
        result.append(_body(activation, loop, cost))

    _accumulate(activation, loop, step)
    return result


def _filter(activation: Activation, loop: Loop) -> list[Any]:
    budget = activation[BUDGET]
    result: list[Any] = []

    def step(element: Any) -> None:
        budget.charge(APPEND_COST + 1)
        result.append(element)

    _accumulate(activation, replace(loop, where=loop.body), step)
    return result


def _transform_map(activation: Activation, loop: Loop) -> dict[Any, Any]:
    result: dict[Any, Any] = {}

    def step(key: Any) -> None:
        result[lookup_key(key)] = _body(activation, loop, cost=3, first=2)

    _accumulate(activation, loop, step, goes_on=False)
    return result


def _transform_entries(activation: Activation, loop: Loop) -> dict[Any, Any]:
    budget = activation[BUDGET]
    result: dict[Any, Any] = {}

    def step(_: Any) -> None:
        entry = _body(activation, loop, cost=2)
        if not isinstance(entry, dict):
            raise no_overload("transformMapEntry")
        budget.grow(len(entry))
        for key, value in entry.items():
            if key in result:
                raise SelectorFault(f"insert failed: key {key} already exists")
            result[key] = value

    _accumulate(activation, loop, step)
    return result


def _sort_by(activation: Activation, loop: Loop) -> list[Any]:
    """sortBy(): cel-go binds the list to a variable, maps it to a list of keys, and sorts it by them."""
    budget, cost = activation[BUDGET], 2 if loop.constant else APPEND_COST
    budget.charge(2 if loop.charges_failed else 1)
    values: Any = None
    elements: list[Any] = []
    sort_keys: list[Any] = []

    def over(activation: Activation) -> Any:
        nonlocal values
        values = loop.over(activation)
        if not loop.charges_failed:
            budget.charge(1)
        return values

    def step(element: Any) -> None:
        elements.append(element)
        sort_keys.append(_body(activation, loop, cost))

    try:
        _accumulate(activation, replace(loop, over=over), step)
    except BudgetExceeded:
        raise
    except SelectorFault as fault:
        if not loop.charges_failed:
            raise
        if loop.sorts_dynamic:
            budget.charge(1)
            raise
        raise Cancelled(str(fault)) from None
    if not isinstance(values, list):
        raise no_overload("sortBy")
    budget.charge(1 if loop.sorts_dynamic else self_compared(sort_keys))
    types = {type_name(key) for key in sort_keys}
    if len(types) > 1:
        raise SelectorFault("list elements must have the same type")
    if not types <= SORT_KEYS:
        raise no_overload("sortBy")
    order = sorted(range(len(sort_keys)), key=sort_keys.__getitem__)
    return [elements[index] for index in order]


_MACROS: dict[Macro, Callable[[Activation, Loop], Any]] = {
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
