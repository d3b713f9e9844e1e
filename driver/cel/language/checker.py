"""The static type check. It refuses the expressions that Kubernetes refuses before it runs them.

Source: ``checker/checker.go`` of cel-go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driver.cel.errors import SelectorError
from driver.cel.language import trampoline
from driver.cel.language import types as t
from driver.cel.language.environment import FUNCTIONS, SORT_KEYS, TYPE_NAMES, Environment, Overload
from driver.cel.language.suggest import suggest
from driver.cel.language.syntax import (
    Bind,
    Call,
    Comprehension,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    OptionalMap,
    Select,
)
from driver.cel.language.trampoline import Steps
from driver.cel.language.types import Bindings, Type
from driver.cel.releases import BOTH, KubernetesRelease
from driver.cel.values.runtime import UInt

_LITERALS: dict[type, Type] = {
    bool: t.BOOL,
    int: t.INT,
    UInt: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}
_DEVICE_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the type check.

    Attributes:
        types: the static type of each node.
        overloads: the ids of the overloads that the static types allow, for each call, operator and index, in the
            order of their declarations. If there are several, the run-time types of the arguments decide.
        release: the version by whose rules it was checked.
    """

    types: Mapping[Node, Type]
    overloads: Mapping[Node, tuple[str, ...]]
    release: KubernetesRelease = BOTH


def check(source: str, node: Node, environment: Environment) -> Checked:
    """Check that ``node`` is well typed and its result is a bool (or a value whose type is known only at run time).

    Raises:
        SelectorError: there is a type error; it points at the first.
    """
    checker = _Checker(source, environment)
    result = trampoline.run(checker.visit(node, {}))
    result = checker.types.resolve(result, free_as_dyn=True)
    if result not in (t.BOOL, environment.result):
        raise SelectorError(source, 0, f"must evaluate to bool, not {result}")
    return checker.checked()


TypeScope = dict[str, Type]


class _Checker:
    def __init__(self, source: str, environment: Environment):
        self.source = source
        self.environment = environment
        self.types = Bindings(compares_types=environment.release.compares_types)
        self._of: dict[Node, Type] = {}
        self._overloads: dict[Node, tuple[str, ...]] = {}

    def checked(self) -> Checked:
        """The result, with all type parameters replaced."""
        return Checked(
            {node: self.types.resolve(type_, free_as_dyn=True) for node, type_ in self._of.items()},
            self._overloads,
            self.environment.release,
        )

    def error(self, node: Node, message: str) -> SelectorError:
        return SelectorError(self.source, node.position, message)

    def visit(self, node: Node, scope: TypeScope) -> Steps[Type]:
        type_ = self.types.resolve((yield from self._visit(node, scope)))
        self._of[node] = type_
        return type_

    def _visit(self, node: Node, scope: TypeScope) -> Steps[Type]:
        match node:
            case Literal(value=value):
                return _LITERALS[type(value)]
            case Name():
                return self._name(node, scope)
            case Select():
                return (yield from self._select(node, scope))
            case Index():
                function = "_[?_]" if node.optional else "_[_]"
                return (yield from self._call(node, function, (node.operand, node.key), False, scope))
            case Call():
                args = node.args if node.target is None else (node.target, *node.args)
                if node.function in ("_&&_", "_||_"):
                    return (yield from self._logical(node, args, scope))
                return (yield from self._call(node, node.function, args, node.target is not None, scope))
            case ListOf():
                return (yield from self._list(node, scope))
            case MapOf():
                return (yield from self._map(node, scope))
            case Comprehension():
                return (yield from self._comprehension(node, scope))
            case Bind():
                value_type: Type = yield self.visit(node.value, scope)
                body: Type = yield self.visit(node.body, {**scope, node.name: value_type})
                return body
            case OptionalMap():
                return (yield from self._optional_map(node, scope))

    def _name(self, node: Name, scope: TypeScope) -> Type:
        if node.name in scope and not node.absolute:
            return scope[node.name]
        if node.name == "device":
            return t.DEVICE
        if node.name in TYPE_NAMES:
            return Type("type", (Type(node.name),))
        known = ["device", *([] if node.absolute else scope)]
        hint = suggest(node.name, known) or f"; known are {', '.join(map(repr, known))}"
        raise self.error(node, f"unknown name {node.name!r}{hint}")

    def _select(self, node: Select, scope: TypeScope) -> Steps[Type]:
        operand: Type = yield self.visit(node.operand, scope)
        unwrap = operand.kind == "optional_type"
        if unwrap:
            operand = self.types.resolve(operand.of[0])
        result = self._field(node, operand)
        if node.test:
            return t.BOOL
        return t.optional(result) if node.optional or unwrap else result

    def _field(self, node: Select, operand: Type) -> Type:
        if operand.kind == "map":
            return operand.of[1]
        if operand == t.DEVICE:
            field = self.environment.field(node.field)
            if field is None:
                raise self.error(node, f"unknown field of a device {node.field!r}{suggest(node.field, _DEVICE_FIELDS)}")
            return field
        if operand.kind == "?":
            self.types.fits(t.DYN, operand)
            return t.DYN
        if t.is_dynamic(operand):
            return t.DYN
        raise self.error(node, f"{operand} has no fields, found field {node.field!r}")

    def _logical(self, node: Call, args: Sequence[Node], scope: TypeScope) -> Steps[Type]:
        for arg in args:
            type_: Type = yield self.visit(arg, scope)
            if not self.types.fits(type_, t.BOOL):
                raise self.error(arg, f"expected a bool, found {type_}")
        self._overloads[node] = tuple(overload.name for overload in self.environment.overloads(node.function))
        return t.BOOL

    def _call(self, node: Node, function: str, args: Sequence[Node], member: bool, scope: TypeScope) -> Steps[Type]:
        declared = self.environment.overloads(function)
        if self.environment.lacks(function):
            raise self.error(node, f"{function}() is not in all versions of Kubernetes that must accept the expression")
        if not declared:
            raise self.error(node, f"unknown function {function!r}{suggest(function, self._callable(member))}")
        arg_types: list[Type] = []
        for arg in args:
            arg_types.append((yield self.visit(arg, scope)))  # noqa: PERF401 a comprehension cannot yield
        return self._resolved(node, function, tuple(arg_types), member)

    def _callable(self, member: bool) -> list[str]:
        names = [
            name
            for name in FUNCTIONS
            if any(overload.member == member for overload in self.environment.overloads(name))
        ]
        return [name for name in names if name[0].isalpha()]

    def _resolved(self, node: Node, function: str, arg_types: tuple[Type, ...], member: bool) -> Type:
        """The type of a call with arguments of ``arg_types``; dyn if the overloads differ in it."""
        result: Type | None = None
        fitting: list[str] = []
        for overload in self.environment.overloads(function):
            if overload.member != member or len(overload.args) != len(arg_types):
                continue
            declared, returned = self._instantiate(overload)
            if not self.types.all_fit(arg_types, declared):
                continue
            fitting.append(overload.name)
            returned = self.types.resolve(returned)
            if result is None:
                result = returned
            elif not t.is_dynamic(result) and result != returned:
                result = t.DYN
        if result is None:
            shown = [self.types.resolve(type_, free_as_dyn=True) for type_ in arg_types]
            raise self.error(node, _no_match(function, shown, member))
        self._overloads[node] = tuple(fitting)
        return result

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        if not overload.open:
            return overload.args, overload.result
        fresh: dict[str, Type] = {}

        def copy(type_: Type) -> Type:
            if type_.kind == "?":
                if type_.name not in fresh:
                    fresh[type_.name] = self.types.fresh()
                return fresh[type_.name]
            return Type(type_.kind, tuple(map(copy, type_.of)), type_.name) if type_.open else type_

        return tuple(map(copy, overload.args)), copy(overload.result)

    def _list(self, node: ListOf, scope: TypeScope) -> Steps[Type]:
        element: Type | None = None
        for index, item in enumerate(node.items):
            type_: Type = yield self.visit(item, scope)
            element = self._join(element, self._entry(item, type_) if index in node.optional else type_)
        return t.list_of(element or self.types.fresh())

    def _map(self, node: MapOf, scope: TypeScope) -> Steps[Type]:
        key: Type | None = None
        value: Type | None = None
        for key_node, value_node, is_optional in node.entries:
            key = self._join(key, (yield self.visit(key_node, scope)))
            type_: Type = yield self.visit(value_node, scope)
            value = self._join(value, self._entry(value_node, type_) if is_optional else type_)
        return t.map_of(key or self.types.fresh(), value or self.types.fresh())

    def _entry(self, node: Node, type_: Type) -> Type:
        """The type inside an optional list element or map value."""
        if type_.kind == "optional_type":
            return self.types.resolve(type_.of[0])
        if type_.kind == "dyn":
            return type_
        raise self.error(node, f"expected an optional value, found {type_}")

    def _join(self, so_far: Type | None, type_: Type) -> Type:
        if so_far is None:
            return type_
        return self.types.join(so_far, type_) or t.DYN

    def _comprehension(self, node: Comprehension, scope: TypeScope) -> Steps[Type]:
        over: Type = yield self.visit(node.range, scope)
        variables = self._elements(node, over)
        inner = {**scope, **dict(zip(node.variables, variables, strict=True))}
        if node.where is not None:
            yield from self._predicate(node.where, inner)
        if node.kind in ("all", "exists", "exists_one"):
            yield from self._predicate(node.body, inner)
            return t.BOOL
        if node.kind == "filter":
            yield from self._predicate(node.body, inner)
            return t.list_of(variables[0])
        body: Type = yield self.visit(node.body, inner)
        match node.kind:
            case "map" | "transformList":
                return t.list_of(body)
            case "transformMap":
                return t.map_of(variables[0], body)
            case "transformMapEntry":
                return self._entries(node, body)
            case _:
                return self._sorted(node, over, body)

    def _elements(self, node: Comprehension, over: Type) -> tuple[Type, ...]:
        two = len(node.variables) == 2
        if over.kind == "list":
            return (t.INT, over.of[0]) if two else over.of
        if over.kind == "map":
            return over.of if two else over.of[:1]
        if over.kind in ("dyn", "?"):
            self.types.fits(t.DYN, over)
            return (t.DYN, t.DYN) if two else (t.DYN,)
        raise self.error(node.range, f"expected a list or map in {node.kind}(), found {over}")

    def _predicate(self, node: Node, scope: TypeScope) -> Steps[None]:
        type_: Type = yield self.visit(node, scope)
        if not self.types.fits(type_, t.BOOL):
            raise self.error(node, f"expected a bool, found {type_}")

    def _entries(self, node: Comprehension, body: Type) -> Type:
        entry = t.map_of(self.types.fresh(), self.types.fresh())
        if not self.types.fits(body, entry):
            raise self.error(node.body, f"expected a map, found {body}")
        return self.types.resolve(entry)

    def _sorted(self, node: Comprehension, over: Type, key: Type) -> Type:
        whole = t.list_of(self.types.fresh())
        if not self.types.fits(over, whole):
            raise self.error(node.range, f"expected a list in sortBy(), found {over}")
        if not (t.is_dynamic(key) or key.kind in ("?", "null_type") or key.kind in SORT_KEYS):
            raise self.error(node.body, f"expected values that have an order in sortBy(), found {key}")
        if key.kind == "?":
            self.types.fits(key, t.INT)  # the first declared type that has an order
        whole = self.types.resolve(whole)
        return t.DYN if t.is_dynamic(key) and whole.of[0].kind == "?" else whole

    def _optional_map(self, node: OptionalMap, scope: TypeScope) -> Steps[Type]:
        target: Type = yield self.visit(node.target, scope)
        inner = self.types.fresh()
        if not self.types.fits(target, t.optional(inner)):
            raise self.error(node.target, f"expected an optional value, found {target}")
        body: Type = yield self.visit(node.body, {**scope, node.name: self.types.resolve(inner)})
        if not node.flat:
            return t.optional(body)
        if t.is_dynamic(body):
            return body
        result = t.optional(self.types.fresh())
        if not self.types.fits(body, result):
            raise self.error(node.body, f"expected an optional value in optFlatMap(), found {body}")
        return self.types.resolve(result)


def _no_match(function: str, arg_types: Sequence[Type], member: bool) -> str:
    operator = function.strip("_@") if function.startswith(("_", "@")) else ""
    shown = ", ".join(map(str, arg_types[1:] if member else arg_types))
    kinds = {type_.kind for type_ in arg_types}
    if operator in ("<", "<=", ">", ">=") and kinds & {"kubernetes.Quantity", "kubernetes.Semver"}:
        return f"{operator!r} does not compare ({shown}); use compareTo(), isGreaterThan() or isLessThan()"
    if operator:
        return f"operator {operator!r} is not defined for ({shown})"
    return f"{f'{arg_types[0]}.' if member else ''}{function}() does not take ({shown})"
