"""Syntax nodes to Python closures, which take a `Frame`.

A program is metered, and then every node adds to the budget what it costs upstream, or it is not, where `plain` shows
that no limit can be reached. Both give the same outcome.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.selectors.cost import call_costs
from controller.selectors.cost.budget import Budget
from controller.selectors.cost.call_costs import AFTER, CANCELLING
from controller.selectors.cost.factors import NEW_LIST, NEW_MAP
from controller.selectors.errors import BudgetSpent, SelectorFault, no_overload
from controller.selectors.evaluator import calls, comprehensions
from controller.selectors.evaluator.activation import (
    BUDGET,
    DEVICE,
    FIRST_VARIABLE,
    UNSET,
    Code,
    Frame,
    bound,
    charged,
    constant,
    variable,
)  # fmt: skip
from controller.selectors.evaluator.qualifiers import Cost, Step, chain
from controller.selectors.language import trampoline
from controller.selectors.language.checker import Checked
from controller.selectors.language.environment import FUNCTIONS as DECLARED
from controller.selectors.language.environment import TYPE_NAMES
from controller.selectors.language.syntax import (
    Bind,
    Call,
    Fold,
    Index,
    ListOf,
    MapOf,
    Name,
    Node,
    OptionalMap,
    Select,
)  # fmt: skip
from controller.selectors.language.trampoline import Steps
from controller.selectors.language.types import Type
from controller.selectors.library.functions import FUNCTIONS
from controller.selectors.values.types import NONE, Optional, TypeValue, equal, key_in

Scope = Mapping[str, Code]
"""How the variables of macros are read."""
_KEPT = 1_000
"""Characters of a text that is kept with the program rather than made anew."""
_PRIMITIVE = (bool, int, float, str)
_BINARY = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "matches"})
"""Functions that upstream runs by one implementation for all overloads: both arguments are always evaluated."""
_PAIRWISE = frozenset({"sets.contains", "sets.equivalent", "sets.intersects", "distinct"})
_COMPARING = _PAIRWISE | {"_==_", "_!=_", "@in"}
"""Functions that compare elements, and those that compare each with each: what they visit is not in their cost."""
_UNGUARDED = _BINARY | {"size", "flatten", "sort"}
"""Functions that upstream runs without comparing their arguments to the overload."""


class Program:
    """Compiled code.

    Attributes:
        code: to be run in a frame.
        variables: how many slots the frame needs for variables.
        metered: whether the frame needs a `Budget`; else UNMETERED does.
    """

    def __init__(self, node: Node, checked: Checked, constants: Mapping[Node, Any], *, metered: bool):
        self._checked = checked
        self._constants = constants
        self.metered = metered
        self.variables = 0
        self.code: Code = trampoline.run(self._compile(node, {}))

    def _compile(self, node: Node, scope: Scope) -> Steps[Code]:
        if node in self._constants:
            return constant(self._constants[node])
        match node:
            case Name():
                return self._charged(self._name(node, scope), 1)
            case Select() | Index():
                return (yield from self._chain(node, scope))
            case Call():
                return (yield from self._call(node, scope))
            case ListOf():
                return self._charged((yield from self._list(node, scope)), NEW_LIST)
            case MapOf():
                return self._charged((yield from self._map(node, scope)), NEW_MAP)
            case Fold():
                return (yield from self._fold(node, scope))
            case Bind():
                return (yield from self._bind(node, scope))
            case OptionalMap():
                return (yield from self._optional_map(node, scope))
        raise AssertionError(node)

    def _charged(self, code: Code, cost: int) -> Code:
        return charged(code, cost) if self.metered else code

    def _slot(self) -> int:
        self.variables += 1
        return FIRST_VARIABLE + self.variables - 1

    def _name(self, node: Name, scope: Scope) -> Code:
        if node.name in scope and not node.absolute:
            return scope[node.name]
        if node.name == "device":
            return lambda frame: frame[DEVICE]
        assert node.name in TYPE_NAMES
        return constant(TypeValue(node.name))

    def _chain(self, node: Node, scope: Scope, *, inner: bool = False) -> Steps[Code]:
        """A chain of fields and indexes. Its own cost is that of the variable it starts from.

        It has none ``inner`` to a key or a conditional, nor if it starts from a conditional; has() has one less. The
        steps are free after a name that looks past a variable, such as ``.device``.
        """
        node, steps = yield from self._steps(node, scope)
        if isinstance(node, Name) and node not in self._constants:
            base = self._name(node, scope)
        else:
            base = yield self._compile(node, scope)
        conditional = isinstance(node, Call) and node.function == "_?_:_"
        looks_past = isinstance(node, Name) and node.absolute and node.name in scope
        cost = Cost(0 if inner else 1 - conditional - steps[-1].test, 0 if looks_past else 1)
        return chain(base, steps, cost, keeps_optional=inner)

    def _steps(self, node: Node, scope: Scope) -> Steps[tuple[Node, list[Step]]]:
        """What a chain starts from, and its steps."""
        steps: list[Step] = []
        while isinstance(node, Select | Index) and not (steps and isinstance(node, Select) and node.test):
            if isinstance(node, Select):
                steps.append(Step(node.field, optional=node.optional, test=node.test))
            elif node.key in self._constants:
                steps.append(Step(self._constants[node.key], optional=node.optional))
            else:
                steps.append(Step((yield self._key(node.key, scope)), computed=True, optional=node.optional))
            node = node.operand
        return node, steps[::-1]

    def _key(self, node: Node, scope: Scope) -> Steps[Code]:
        """A computed key. The variable it starts from is free: the step itself is counted instead."""
        if isinstance(node, Name):
            return self._name(node, scope)
        if isinstance(node, Select | Index):
            return (yield from self._chain(node, scope, inner=True))
        code: Code = yield self._compile(node, scope)
        return code

    def _branch(self, node: Node, scope: Scope) -> Steps[Code]:
        """A branch of a conditional: the variable it starts from is free."""
        if isinstance(node, Name) and node not in self._constants:
            return self._name(node, scope)
        if isinstance(node, Select | Index):
            return (yield from self._chain(node, scope, inner=True))
        code: Code = yield self._compile(node, scope)
        return code

    def _each(self, nodes: Sequence[Node], scope: Scope) -> Steps[list[Code]]:
        codes: list[Code] = []
        for node in nodes:
            code: Code = yield self._compile(node, scope)
            codes += (code,)
        return codes

    def _list(self, node: ListOf, scope: Scope) -> Steps[Code]:
        items = yield from self._each(node.items, scope)
        flags = tuple((item, i in node.optional) for i, item in enumerate(items))

        def build(frame: Frame) -> list[Any]:
            result: list[Any] = []
            for item, optional in flags:
                value = item(frame)
                if not optional:
                    result.append(value)
                elif calls.as_optional(value).present:
                    result.append(value.value)
            return result

        return build

    def _map(self, node: MapOf, scope: Scope) -> Steps[Code]:
        keys = yield from self._each([key for key, _, _ in node.entries], scope)
        values = yield from self._each([value for _, value, _ in node.entries], scope)
        entries = tuple(zip(keys, values, [optional for _, _, optional in node.entries], strict=True))

        def build(frame: Frame) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key_code, value_code, optional in entries:
                key, value = key_code(frame), value_code(frame)
                if optional:
                    if not calls.as_optional(value).present:
                        result.pop(key_in(key), None)
                        continue
                    value = value.value
                result[key_in(key)] = value
            return result

        return build

    def _fold(self, node: Fold, scope: Scope) -> Steps[Code]:
        over = yield self._compile(node.range, scope)
        slots = tuple(self._slot() for _ in node.variables)
        inner = {**scope, **{name: variable(slot) for name, slot in zip(node.variables, slots, strict=True)}}
        where = None if node.where is None else (yield self._compile(node.where, inner))
        body = yield self._compile(node.body, inner)
        loop = comprehensions.Loop(
            over, slots, where, body,
            constant=node.body in self._constants,
            sorts_dynamic=self._checked.types[node.body].kind in ("dyn", "any"),
        )  # fmt: skip
        return comprehensions.build(node.kind, loop)

    def _bind(self, node: Bind, scope: Scope) -> Steps[Code]:
        value = yield self._compile(node.value, scope)
        slot = self._slot()
        body = yield self._compile(node.body, {**scope, node.name: bound(slot, value)})

        def run(frame: Frame) -> Any:
            frame[slot] = UNSET
            return body(frame)

        return run

    def _optional_map(self, node: OptionalMap, scope: Scope) -> Steps[Code]:
        """``target.hasValue() ? optional.of(body) : optional.none()``, with a variable bound to ``target.value()``."""
        target = yield self._compile(node.target, scope)
        slot = self._slot()
        value = calls.value_again(target) if self.metered else constant(None)
        body = yield self._compile(node.body, {**scope, node.name: bound(slot, value)})
        metered, flat = self.metered, node.flat

        def run(frame: Frame) -> Any:
            budget = frame[BUDGET]
            budget.charge(1)
            found = target(frame)
            if not isinstance(found, Optional):
                raise no_overload("optMap")
            if not found.present:
                budget.charge(1)
                return NONE
            frame[slot] = UNSET if metered else found.value
            if flat:
                return body(frame)
            budget.charge(1)
            return Optional(True, body(frame))

        return run

    def _call(self, node: Call, scope: Scope) -> Steps[Code]:
        parts = node.args if node.target is None else (node.target, *node.args)
        match node.function:
            case "_&&_" | "_||_":
                terms = yield from self._each(parts, scope)
                return calls.logical(terms, absorbing=node.function == "_||_")
            case "_?_:_":
                condition = yield self._compile(parts[0], scope)
                then = yield self._branch(parts[1], scope)
                otherwise = yield self._branch(parts[2], scope)
                return calls.conditional(condition, then, otherwise)
            case "or" | "orValue":
                target = yield self._compile(parts[0], scope)
                return calls.either(target, (yield self._compile(parts[1], scope)), node.function)
            case "@in" if (values := self._looked_up(node)) is not None:
                return calls.in_constants((yield self._compile(parts[0], scope)), values)
        args = yield from self._each(parts, scope)
        return self._counted(node, parts, args) if self.metered else self._plain(node, parts, args)

    def _looked_up(self, node: Call) -> Sequence[Any] | None:
        """The constants of ``x in [constants]`` where upstream looks them up in a set."""
        values = self._constants.get(node.args[1])
        if self._checked.overloads[node] != ("in_list",) or not isinstance(values, list):
            return None
        return values if all(isinstance(value, _PRIMITIVE) for value in values) else None

    def _counted(self, node: Call, parts: Sequence[Node], args: Sequence[Code]) -> Code:
        overloads = self._checked.overloads[node]
        overload = overloads[0] if len(overloads) == 1 else ""
        code = calls.counted(
            self._apply(node),
            args,
            call_costs.rule(node.function, overloads),
            all_args=self._evaluates_all(node, parts),
            after=overload in AFTER or node.function in AFTER,
            cancelling=CANCELLING.get(overload),
        )
        return self._computed(node, code) if all(part in self._constants for part in parts) else code

    def _evaluates_all(self, node: Call, parts: Sequence[Node]) -> bool:
        if len(parts) != 2:
            return len(parts) < 2
        if node.function in ("matches", "find", "findAll") and parts[1] in self._constants:
            return False
        return node.function in _BINARY or (len(self._checked.overloads[node]) == 1 and node.function != "format")

    def _guards(self, node: Call) -> list[tuple[int, Type]]:
        """Lists whose first element must be of the type that the one overload left wants."""
        overloads = self._checked.overloads[node]
        if len(overloads) != 1 or node.function not in FUNCTIONS or node.function in _UNGUARDED:
            return []
        (chosen,) = [one for one in DECLARED[node.function] if one.name == overloads[0]]
        return [
            (at, wanted) for at, wanted in enumerate(chosen.args) if wanted.of and wanted.of[0].kind not in ("?", "dyn")
        ]

    def _apply(self, node: Call) -> Any:
        function, guards = node.function, self._guards(node)
        name, table = function.strip("_@") or function, FUNCTIONS.get(function, {})

        def apply(frame: Frame, values: Sequence[Any]) -> Any:
            for at, wanted in guards:
                if not calls.accepts(wanted, values[at]):
                    raise no_overload(name)
            budget = frame[BUDGET]
            if function in _COMPARING:
                times = len(values[-1]) if function in _PAIRWISE and isinstance(values[-1], list) else 1
                for value in values:
                    budget.walk(value, times)
            if function == "_==_":
                return equal(*values)
            if function == "_!=_":
                return calls.differs(*values)
            return calls.implementation(name, table, values)(budget, *values)

        return apply

    def _plain(self, node: Call, parts: Sequence[Node], args: Sequence[Code]) -> Code:
        match node.function:
            case "_==_":
                left, right = args
                return calls.equals(left, right)
            case "_!=_":
                left, right = args
                return lambda frame: calls.differs(left(frame), right(frame))
        if self._guards(node):
            apply = self._apply(node)
            return lambda frame: apply(frame, [arg(frame) for arg in args])
        code = calls.dispatched(node.function.strip("_@") or node.function, FUNCTIONS[node.function], args)
        if all(part in self._constants for part in parts):
            return self._computed(node, code)
        return code

    def _computed(self, node: Call, code: Code) -> Code:
        """A call of constants is run in advance; what it fails with, it fails with each time, at the same cost."""
        budget = Budget()
        try:
            value = code([None, budget])
        except BudgetSpent:
            return code
        except SelectorFault as fault:
            return self._charged(calls.failing(type(fault), str(fault)), budget.cost)
        if isinstance(value, list | dict) or (isinstance(value, str | bytes) and len(value) > _KEPT):
            return code
        return self._charged(constant(value), budget.cost)
