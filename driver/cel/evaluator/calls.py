"""Code of calls and operators. `metered` calls add their cost to the budget; `dispatched` ones do not count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from driver.cel.cost.budget import CostBudget
from driver.cel.cost.call_costs import CostRule
from driver.cel.errors import BudgetExceeded, Cancelled, NoOverload, SelectorFault, no_overload
from driver.cel.evaluator.activation import BUDGET, Activation, CompiledNode
from driver.cel.language.types import Type
from driver.cel.library.collections import in_list
from driver.cel.values.runtime import Implementation, Optional, Overloads, equal, type_name
from driver.semver import Semver

Work = Callable[[CostBudget, Sequence[Any]], Any]
"""What a call does with its arguments."""
_TEXT: Final = (str, bytes)
_TEXT_PER_ELEMENT = 16
"""Characters of the arguments of a call that count as a visit of one element."""


def logical(terms: Sequence[CompiledNode], *, absorbing: bool) -> CompiledNode:
    """``||`` (absorbing True) or ``&&`` (absorbing False): one absorbing term decides, even if other terms fail."""
    function = "_||_" if absorbing else "_&&_"
    decided, undecided = absorbing, not absorbing

    def run(activation: Activation) -> bool:
        fault: SelectorFault | None = None
        for term in terms:
            try:
                value = term(activation)
            except BudgetExceeded:
                raise
            except SelectorFault as error:
                fault = fault or error
                continue
            if value is absorbing:
                return decided
            if value is not undecided:
                fault = fault or no_overload(function)
        if fault is not None:
            raise fault
        return not absorbing

    return run


def conditional(condition: CompiledNode, then: CompiledNode, otherwise: CompiledNode) -> CompiledNode:
    """``condition ? then : otherwise``."""

    def run(activation: Activation) -> Any:
        value = condition(activation)
        if value is True:
            return then(activation)
        if value is False:
            return otherwise(activation)
        raise no_overload("_?_:_")

    return run


def or_else(target: CompiledNode, other: CompiledNode, name: str) -> CompiledNode:
    """``or`` and ``orValue``. The alternative is evaluated only if it is needed."""

    def run(activation: Activation) -> Any:
        value = target(activation)
        if not isinstance(value, Optional):
            raise no_overload(name)
        if not value.present:
            return other(activation)
        return value.value if name == "orValue" else value

    return run


def reevaluated_value(target: CompiledNode) -> CompiledNode:
    """``target.value()`` of a target that has a value. Kubernetes evaluates the target a second time."""

    def run(activation: Activation) -> Any:
        value = target(activation).value
        activation[BUDGET].charge(1)
        return value

    return run


def as_optional(value: Any) -> Optional:
    """``value``, the value of an entry with ``?``, which must be optional.

    Raises:
        SelectorFault: it is not optional.
    """
    if isinstance(value, Optional):
        return value
    raise SelectorFault(f"cannot initialize an optional entry from a value of type {type_name(value)}")


def equals(left: CompiledNode, right: CompiledNode) -> CompiledNode:
    """``left == right``."""
    return lambda activation: equal(left(activation), right(activation))


def not_equal(a: Any, b: Any) -> bool:
    """``a != b``. Values that cannot be compared are not equal."""
    try:
        return not equal(a, b)
    except NoOverload:
        return True


def in_constants(code: CompiledNode, values: Sequence[Any]) -> CompiledNode:
    """``code in [constants]``. cel-go looks the value up in a set, which versions do not support.

    An empty list contains nothing; ``code`` is then not evaluated.
    """
    if not values:
        return lambda _: False
    strings = frozenset(value for value in values if isinstance(value, str))
    constants = list(values)

    def run(activation: Activation) -> bool:
        value = code(activation)
        if value.__class__ is str:
            return value in strings
        if isinstance(value, Semver):
            raise SelectorFault("a version cannot be looked up in a list of constants; use compareTo()")
        return in_list(activation[BUDGET], value, constants)

    return run


def dispatched(name: str, table: Overloads, args: Sequence[CompiledNode]) -> CompiledNode:
    """Call the implementation for the run-time types of the arguments, without counting."""

    work = by_types(name, table)

    def run(activation: Activation) -> Any:
        return work(activation[BUDGET], [arg(activation) for arg in args])

    return run


def by_types(name: str, table: Overloads) -> Work:
    """Code that calls the implementation for the run-time types of the values (``implementation``)."""
    known: dict[tuple[type, ...], Implementation] = {}

    def work(budget: CostBudget, values: Sequence[Any]) -> Any:
        types = tuple(map(type, values))
        found = known.get(types)
        if found is None:
            found = known[types] = implementation(name, table, values)
        return found(budget, *values)

    return work


def implementation(name: str, table: Overloads, values: Sequence[Any]) -> Implementation:
    """The implementation for the run-time types of ``values``.

    Raises:
        NoOverload: there is none.
    """
    impl = table.get(tuple([type_name(value) for value in values])) or table.get(len(values))
    if impl is None:
        raise no_overload(name)
    return impl


def accepts(declared: Type, value: Any) -> bool:
    """Whether an argument has the declared type. The first entry of a list or map decides, as in cel-go."""
    if declared.kind in ("?", "dyn"):
        return True
    if type_name(value) != declared.kind:
        return False
    if isinstance(value, dict):
        return all(
            accepts(type_, part) for type_, part in zip(declared.of, next(iter(value.items()), ()), strict=False)
        )
    return not isinstance(value, list) or not value or accepts(declared.of[0], value[0])


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of a call.

    Attributes:
        rule: computes the cost; None for 1.
        after: whether the cost depends on the result; else it is counted before the work is done.
        visits: how many visits of elements one call takes as long as.
    """

    rule: CostRule | None
    after: bool = False
    visits: int = 0


@dataclass(frozen=True, slots=True)
class FailedArguments:
    """What a call does if an argument fails.

    Attributes:
        all_args: whether all arguments are evaluated even if one fails, else only those up to the first that fails.
        charged: whether the call is counted, provided that all arguments were evaluated.
        at_once: whether it costs 1 as soon as the first fails.
        cancelling: the index of the argument whose failure ends the whole evaluation.
    """

    all_args: bool = False
    charged: bool = False
    at_once: bool = False
    cancelling: int | None = None


def metered(
    apply: Callable[[Activation, Sequence[Any]], Any],
    args: Sequence[CompiledNode],
    cost: CallCost,
    failed: FailedArguments,
) -> CompiledNode:
    """Code that calls ``apply`` on the arguments and charges the cost."""
    rule, after, visits = cost.rule, cost.after, cost.visits
    cancelling = failed.cancelling

    def charge(activation: Activation, values: Sequence[Any], result: Any) -> None:
        budget = activation[BUDGET]
        budget.charge(1 if rule is None else rule(budget, values, result))

    def run(activation: Activation) -> Any:
        values, fault = _evaluated(activation, args, failed.all_args)
        if fault is not None:
            if failed.at_once and isinstance(values[0], SelectorFault):
                activation[BUDGET].charge(1)
            elif failed.charged and len(values) == len(args):
                if cancelling is not None and isinstance(values[cancelling], SelectorFault):
                    raise Cancelled(str(fault))
                charge(activation, values, fault)
            raise fault
        if steps := visits + _text_steps(values):
            activation[BUDGET].spend(steps)
        if not after:
            charge(activation, values, None)
            return apply(activation, values)
        try:
            result = apply(activation, values)
        except BudgetExceeded:
            raise
        except SelectorFault as error:
            charge(activation, values, error)
            raise
        charge(activation, values, result)
        return result

    return run


def _text_steps(values: Sequence[Any]) -> int:
    """What Kubernetes does not count: a call that reads a long text may cost 1 there."""
    length = 0
    for value in values:
        if isinstance(value, _TEXT):
            length += len(value)
    return length // _TEXT_PER_ELEMENT


def _evaluated(
    activation: Activation, args: Sequence[CompiledNode], all_args: bool
) -> tuple[list[Any], SelectorFault | None]:
    """The arguments, with faults in the place of those that failed, and the first fault."""
    values: list[Any] = []
    fault: SelectorFault | None = None
    for arg in args:
        try:
            values.append(arg(activation))
        except BudgetExceeded:
            raise
        except SelectorFault as error:
            fault = fault or error
            values.append(error)
            if not all_args:
                break
    return values, fault


def failing(failure: type[SelectorFault], message: str) -> CompiledNode:
    """Code that raises a fault."""

    def run(_: Activation) -> Any:
        raise failure(message)

    return run
