"""Syntax nodes to Python closures. One closure takes a frame: [device, budget, variables of macros ...]."""

from collections.abc import Callable, Mapping
from typing import Any

from controller.selectors import folds
from controller.selectors.access import index, optional_index, optional_select, select, test
from controller.selectors.collections import in_list
from controller.selectors.declarations import SCHEDULER, TYPE_NAMES
from controller.selectors.errors import BudgetSpent, NoOverload, SelectorError, SelectorFault, no_overload
from controller.selectors.functions import FUNCTIONS, Impl, Table
from controller.selectors.syntax import (
    Bind,
    Call,
    Fold,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    OptionalMap,
    Select,
)  # fmt: skip
from controller.selectors.values import NONE, Optional, Semver, TypeValue, equal, key_of, kind

Frame = list[Any]
Code = Callable[[Frame], Any]
Slots = Mapping[str, int]

DEVICE, BUDGET, FIRST_VARIABLE = 0, 1, 2


class Program:
    """Compiled code and the size of the frame it runs in."""

    def __init__(self, source: str, node: Node):
        self._source = source
        self.frame_size = FIRST_VARIABLE
        self.code = self._compile(node, {})

    def _compile(self, node: Node, slots: Slots) -> Code:
        match node:
            case Literal(value=value):
                return lambda _: value
            case Name():
                return self._name(node, slots)
            case Select():
                return self._select(node, slots)
            case Index():
                return self._index(node, slots)
            case Call():
                return self._call(node, slots)
            case ListOf():
                return self._list(node, slots)
            case MapOf():
                return self._map(node, slots)
            case Fold():
                return self._fold(node, slots)
            case Bind():
                slot, inner = self._variable(node.name, slots)
                return _bind(slot, self._compile(node.value, slots), self._compile(node.body, inner))
            case OptionalMap():
                slot, inner = self._variable(node.name, slots)
                target, body = self._compile(node.target, slots), self._compile(node.body, inner)
                return _optional_map(slot, target, body, node.flat)

    def _variable(self, name: str, slots: Slots) -> tuple[int, Slots]:
        slot = self.frame_size
        self.frame_size += 1
        return slot, {**slots, name: slot}

    def _name(self, node: Name, slots: Slots) -> Code:
        if node.name in slots and not node.absolute:
            return _variable(slots[node.name])
        if node.name == "device":
            return lambda frame: frame[DEVICE]
        assert node.name in TYPE_NAMES
        value = TypeValue(node.name)
        return lambda _: value

    def _select(self, node: Select, slots: Slots) -> Code:
        operand, field = self._compile(node.operand, slots), node.field
        access = test if node.test else optional_select if node.optional else select
        return lambda frame: access(operand(frame), field)

    def _index(self, node: Index, slots: Slots) -> Code:
        operand, key = self._compile(node.operand, slots), self._compile(node.key, slots)
        access = optional_index if node.optional else index
        return lambda frame: access(operand(frame), key(frame))

    def _list(self, node: ListOf, slots: Slots) -> Code:
        items = tuple(self._compile(item, slots) for item in node.items)
        if not node.optional:
            return lambda frame: [item(frame) for item in items]
        flags = tuple((item, i in node.optional) for i, item in enumerate(items))

        def build(frame: Frame) -> list[Any]:
            result: list[Any] = []
            for item, optional in flags:
                value = item(frame)
                if not optional:
                    result.append(value)
                elif _as_optional(value).present:
                    result.append(value.value)
            return result

        return build

    def _map(self, node: MapOf, slots: Slots) -> Code:
        entries = tuple((self._compile(k, slots), self._compile(v, slots), optional) for k, v, optional in node.entries)

        def build(frame: Frame) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key_code, value_code, optional in entries:
                key, value = key_of(key_code(frame)), value_code(frame)
                if optional:
                    if not _as_optional(value).present:
                        continue
                    value = value.value
                if key is None or key in result:
                    raise SelectorFault(f"map key {key!r} is repeated or no key")
                result[key] = value
            return result

        return build

    def _fold(self, node: Fold, slots: Slots) -> Code:
        over = self._compile(node.range, slots)
        variables: list[int] = []
        for name in node.variables:
            slot, slots = self._variable(name, slots)
            variables.append(slot)
        where = None if node.where is None else self._compile(node.where, slots)
        body = self._compile(node.body, slots)
        return folds.build(node.kind, over, tuple(variables), where, body)

    def _call(self, node: Call, slots: Slots) -> Code:
        args = tuple(self._compile(arg, slots) for arg in node.args)
        match node.function:
            case "_&&_":
                return _logical(args, absorbing=False)
            case "_||_":
                return _logical(args, absorbing=True)
            case "_?_:_":
                return _conditional(*args)
            case "_==_":
                left, right = args
                return lambda frame: equal(left(frame), right(frame))
            case "_!=_":
                return _differs(*args)
            case "@in" if isinstance(node.args[1], ListOf):
                return _in_list(args[0], args[1], node.args[1])
            case "or" | "orValue" if node.target is not None:
                return _otherwise(self._compile(node.target, slots), args[0], node.function)
        table = FUNCTIONS.get(node.function)
        if table is None:
            raise self._unsupported(node)
        if node.target is not None:
            args = (self._compile(node.target, slots), *args)
        return _invoke(node.function.strip("_@") or node.function, table, args)

    def _unsupported(self, node: Call) -> SelectorError:
        message = f"function {node.function}() is not supported"
        assert SCHEDULER.overloads(node.function), message
        return SelectorError(self._source, node.position, message, unsupported=True)


def _variable(slot: int) -> Code:
    """Read a variable; one bound to a failure fails when it is read."""

    def read(frame: Frame) -> Any:
        value = frame[slot]
        if isinstance(value, SelectorFault):
            raise value
        return value

    return read


def _as_optional(value: Any) -> Optional:
    if isinstance(value, Optional):
        return value
    raise SelectorFault(f"cannot initialize an optional entry from a value of type {kind(value)}")


def _logical(terms: tuple[Code, ...], *, absorbing: bool) -> Code:
    """``||`` (absorbing True) and ``&&`` (absorbing False): one absorbing term decides, whatever others fail with."""

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
                return bool(value)
            if value is not (not absorbing):
                fault = fault or no_overload("_||_" if absorbing else "_&&_")
        if fault is not None:
            raise fault
        return not absorbing

    return run


def _conditional(condition: Code, then: Code, otherwise: Code) -> Code:
    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise no_overload("_?_:_")

    return run


def _differs(left: Code, right: Code) -> Code:
    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        try:
            return not equal(a, b)
        except NoOverload:
            return True

    return run


def _in_list(value: Code, values: Code, node: ListOf) -> Code:
    """``x in [...]``: false for an empty list whatever x is; among constants upstream cannot look for a version."""
    if not node.items:
        return lambda _: False
    constant = all(isinstance(item, Literal) for item in node.items)

    def run(frame: Frame) -> bool:
        wanted = value(frame)
        if constant and isinstance(wanted, Semver):
            raise SelectorFault("a version cannot be looked up in a list of constants; use compareTo()")
        return in_list(frame[BUDGET], wanted, values(frame))

    return run


def _otherwise(target: Code, other: Code, name: str) -> Code:
    """``or`` and ``orValue``: the alternative is evaluated only where it is needed."""

    def run(frame: Frame) -> Any:
        value = target(frame)
        if not isinstance(value, Optional):
            raise no_overload(name)
        if not value.present:
            return other(frame)
        return value.value if name == "orValue" else value

    return run


def _bind(slot: int, value: Code, body: Code) -> Code:
    def run(frame: Frame) -> Any:
        try:
            frame[slot] = value(frame)
        except BudgetSpent:
            raise
        except SelectorFault as fault:
            frame[slot] = fault
        return body(frame)

    return run


def _optional_map(slot: int, target: Code, body: Code, flat: bool) -> Code:
    def run(frame: Frame) -> Any:
        value = target(frame)
        if not isinstance(value, Optional):
            raise no_overload("optMap")
        if not value.present:
            return NONE
        frame[slot] = value.value
        result = body(frame)
        return result if flat else Optional(True, result)

    return run


def _invoke(name: str, table: Table, args: tuple[Code, ...]) -> Code:
    """Call the implementation for the run-time types of the arguments."""

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        impl: Impl | None = table.get(tuple(map(kind, values))) or table.get(len(values))
        if impl is None:
            raise no_overload(name)
        return impl(frame[BUDGET], *values)

    return run
