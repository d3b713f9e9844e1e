"""Code for calls and operators. What is counted goes through the budget of the frame; what need not be is quicker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from controller.selectors.cost.call_costs import Rule
from controller.selectors.errors import BudgetSpent, Cancelled, NoOverload, SelectorFault, no_overload
from controller.selectors.evaluator.activation import BUDGET, Code, Frame
from controller.selectors.language.types import Type
from controller.selectors.library.collections import in_list
from controller.selectors.values.types import Optional, Semver, equal, kind

Impl: TypeAlias = Callable[..., Any]
Table: TypeAlias = Mapping[tuple[str, ...] | int, Impl]


def logical(terms: Sequence[Code], *, absorbing: bool) -> Code:
    """``||`` (absorbing True) and ``&&`` (absorbing False): one absorbing term decides, whatever others fail with."""
    function = "_||_" if absorbing else "_&&_"
    decided, undecided = absorbing, not absorbing

    def run(frame: Frame) -> bool:
        fault: SelectorFault | None = None
        for term in terms:
            try:
                value = term(frame)
            except BudgetSpent:
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


def conditional(condition: Code, then: Code, otherwise: Code) -> Code:
    """``condition ? then : otherwise``."""

    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise no_overload("_?_:_")

    return run


def either(target: Code, other: Code, name: str) -> Code:
    """``or`` and ``orValue``: the alternative is evaluated only where it is needed."""

    def run(frame: Frame) -> Any:
        value = target(frame)
        if not isinstance(value, Optional):
            raise no_overload(name)
        if not value.present:
            return other(frame)
        return value.value if name == "orValue" else value

    return run


def value_again(target: Code) -> Code:
    """``target.value()`` of a target that has a value: upstream evaluates it once more."""

    def run(frame: Frame) -> Any:
        value = target(frame).value
        frame[BUDGET].charge(1)
        return value

    return run


def as_optional(value: Any) -> Optional:
    """``value``, which stands where ``?`` asks for an optional one.

    Raises:
        SelectorFault: it is none.
    """
    if isinstance(value, Optional):
        return value
    raise SelectorFault(f"cannot initialize an optional entry from a value of type {kind(value)}")


def equals(left: Code, right: Code) -> Code:
    """``left == right``."""
    return lambda frame: equal(left(frame), right(frame))


def differs(a: Any, b: Any) -> bool:
    """``a != b``: what cannot be compared differs."""
    try:
        return not equal(a, b)
    except NoOverload:
        return True


def in_constants(code: Code, values: Sequence[Any]) -> Code:
    """``code in [constants]``: false for no constants whatever ``code`` is; a version cannot be looked up."""
    if not values:
        return lambda _: False
    texts = frozenset(value for value in values if isinstance(value, str))
    listed = list(values)

    def run(frame: Frame) -> bool:
        wanted = code(frame)
        if wanted.__class__ is str:
            return wanted in texts
        if isinstance(wanted, Semver):
            raise SelectorFault("a version cannot be looked up in a list of constants; use compareTo()")
        return in_list(frame[BUDGET], wanted, listed)

    return run


def dispatched(name: str, table: Table, args: Sequence[Code]) -> Code:
    """Call the implementation for the run-time types of the arguments; nothing is counted."""
    known: dict[tuple[type, ...], Impl] = {}

    def choose(classes: tuple[type, ...], values: Sequence[Any]) -> Impl:
        impl = known[classes] = implementation(name, table, values)
        return impl

    if len(args) == 1:
        (only,) = args

        def unary(frame: Frame) -> Any:
            value = only(frame)
            classes = (value.__class__,)
            return (known.get(classes) or choose(classes, (value,)))(frame[BUDGET], value)

        return unary
    if len(args) == 2:
        first, second = args

        def binary(frame: Frame) -> Any:
            a, b = first(frame), second(frame)
            classes = (a.__class__, b.__class__)
            return (known.get(classes) or choose(classes, (a, b)))(frame[BUDGET], a, b)

        return binary

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        return implementation(name, table, values)(frame[BUDGET], *values)

    return run


def implementation(name: str, table: Table, values: Sequence[Any]) -> Impl:
    """What runs for arguments of these types.

    Raises:
        NoOverload: nothing does.
    """
    impl = table.get(tuple([kind(value) for value in values])) or table.get(len(values))
    if impl is None:
        raise no_overload(name)
    return impl


def accepts(wanted: Type, value: Any) -> bool:
    """Whether an argument fits the type an overload declares; of a list or map, the first entry tells."""
    if wanted.kind in ("?", "dyn"):
        return True
    if kind(value) != wanted.kind:
        return False
    if isinstance(value, dict):
        return all(accepts(one, part) for one, part in zip(wanted.of, next(iter(value.items()), ()), strict=False))
    return not isinstance(value, list) or not value or accepts(wanted.of[0], value[0])


def counted(
    apply: Callable[[Frame, Sequence[Any]], Any],
    args: Sequence[Code],
    rule: Rule | None,
    *,
    all_args: bool,
    after: bool = False,
    cancelling: int | None = None,
) -> Code:
    """Call ``apply`` on the arguments, at the cost that ``rule`` says (1 if None).

    Upstream counts a call also where an argument failed, as long as all were evaluated; with ``all_args`` they are,
    else evaluation ends at the first that fails. The cost is counted before the work is done, unless it depends on
    the result (``after``). If the argument ``cancelling`` failed, evaluation ends.
    """

    def charge(frame: Frame, values: Sequence[Any], result: Any) -> None:
        budget = frame[BUDGET]
        budget.charge(1 if rule is None else rule(budget, values, result))

    def run(frame: Frame) -> Any:
        values, fault = _evaluated(frame, args, all_args)
        if fault is not None:
            if len(values) == len(args):
                if cancelling is not None and isinstance(values[cancelling], SelectorFault):
                    raise Cancelled(str(fault))
                charge(frame, values, fault)
            raise fault
        if not after:
            charge(frame, values, None)
            return apply(frame, values)
        try:
            result = apply(frame, values)
        except BudgetSpent:
            raise
        except SelectorFault as error:
            charge(frame, values, error)
            raise
        charge(frame, values, result)
        return result

    return run


def _evaluated(frame: Frame, args: Sequence[Code], all_args: bool) -> tuple[list[Any], SelectorFault | None]:
    """The arguments, or the failures in their place, and the first failure."""
    values: list[Any] = []
    fault: SelectorFault | None = None
    for arg in args:
        try:
            values.append(arg(frame))
        except BudgetSpent:
            raise
        except SelectorFault as error:
            fault = fault or error
            values.append(error)
            if not all_args:
                break
    return values, fault


def failing(failure: type[SelectorFault], message: str) -> Code:
    """Code that fails."""

    def run(_: Frame) -> Any:
        raise failure(message)

    return run
