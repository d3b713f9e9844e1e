"""The compiler: syntax nodes to Python closures, which take an `Activation`. cel-go's planner does this.

Compiled code is either metered or not. In metered code, each node adds to the budget what it costs in Kubernetes. Code
is not metered if `cost.metering` shows that it cannot reach a limit. The results are the same.

Some rules of Kubernetes' count look arbitrary, such as those in `_chain`: they follow from which of cel-go's internal
nodes are observed by its cost tracker. The recorded costs in ``tests/data/conformance/cel`` hold them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from driver.cel.cost import call_costs
from driver.cel.cost.budget import CostBudget
from driver.cel.cost.call_costs import AFTER, CANCELLING, SLOW
from driver.cel.cost.factors import NEW_LIST, NEW_MAP
from driver.cel.errors import BudgetExceeded, SelectorFault, no_overload
from driver.cel.evaluator import calls, comprehensions
from driver.cel.evaluator.activation import (
    BUDGET,
    DEVICE,
    FIRST_VARIABLE,
    UNSET,
    Activation,
    CompiledNode,
    bound,
    charged,
    charged_after,
    constant,
    variable,
)
from driver.cel.evaluator.qualifiers import ChainCost, Qualifier, chain
from driver.cel.language import trampoline
from driver.cel.language.checker import Checked
from driver.cel.language.environment import FUNCTIONS as DECLARED
from driver.cel.language.environment import TYPE_NAMES
from driver.cel.language.syntax import (
    Bind,
    Call,
    Comprehension,
    Index,
    ListOf,
    MapOf,
    Name,
    Node,
    OptionalMap,
    Select,
)
from driver.cel.language.trampoline import Steps
from driver.cel.language.types import Type
from driver.cel.library.functions import functions
from driver.cel.values.runtime import NONE, Optional, TypeValue, equal, literal_key

CodeScope = Mapping[str, CompiledNode]
"""The code that reads each variable of the macros around a node."""
_MAX_PRECOMPUTED = 1_000
"""The longest string or bytes, computed from constants, that is kept with the code."""
_PRIMITIVE = (bool, int, float, str)
_BINARY = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "matches"})
"""Functions that cel-go runs with one implementation for all overloads: it always evaluates both arguments."""
_PAIRWISE = frozenset({"sets.contains", "sets.equivalent", "sets.intersects", "distinct"})
_COMPARING = _PAIRWISE | {"_==_", "_!=_", "@in"}
"""Functions that compare elements; the `_PAIRWISE` ones compare each element with each. Their cost does not contain the
elements that they visit, so these are counted separately (`CostBudget.walk`)."""
_EQUALITIES: Mapping[str, calls.Work] = {
    "_==_": lambda _, values: equal(*values),
    "_!=_": lambda _, values: calls.not_equal(*values),
}
_CHARGED_FAILED = frozenset({"_==_", "_!=_", "!_"})
"""Operators that always cost something although an operand failed."""
_UNGUARDED = _BINARY | {"size", "flatten", "sort"}
"""Functions that cel-go runs without checking their arguments against the overload."""


class CompiledExpression:
    """An expression as code.

    Attributes:
        code: evaluates the expression in an activation.
        variables: the number of slots that the activation needs for variables.
        metered: whether the activation needs a `CostBudget`; if not, UNMETERED is enough.

    Args:
        budget: what may be computed in advance from constants.
    """

    def __init__(
        self,
        node: Node,
        checked: Checked,
        constants: Mapping[Node, Any],
        *,
        metered: bool,
        budget: CostBudget | None = None,
    ):
        self._checked = checked
        self._release = checked.release
        self._functions = functions(checked.release)
        self._constants = constants
        self._budget = budget or CostBudget()
        self.metered = metered
        self.variables = 0
        self.code: CompiledNode = trampoline.run(self._compile(node, {}))

    def _compile(self, node: Node, scope: CodeScope) -> Steps[CompiledNode]:
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
                return self._built((yield from self._list(node, scope)), NEW_LIST)
            case MapOf():
                return self._built((yield from self._map(node, scope)), NEW_MAP)
            case Comprehension():
                return (yield from self._comprehension(node, scope))
            case Bind():
                return (yield from self._bind(node, scope))
            case OptionalMap():
                return (yield from self._optional_map(node, scope))
        raise AssertionError(node)

    def _charged(self, code: CompiledNode, cost: int) -> CompiledNode:
        return charged(code, cost) if self.metered else code

    def _built(self, code: CompiledNode, cost: int) -> CompiledNode:
        """The code of a list or map. It costs the same whatever its length, and maybe also if an element fails."""
        return (
            self._charged(code, cost) if self._release.charges_failed or not self.metered else charged_after(code, cost)
        )

    def _slot(self) -> int:
        self.variables += 1
        return FIRST_VARIABLE + self.variables - 1

    def _name(self, node: Name, scope: CodeScope) -> CompiledNode:
        if node.name in scope and not node.absolute:
            return scope[node.name]
        if node.name == "device":
            return lambda activation: activation[DEVICE]
        assert node.name in TYPE_NAMES
        return constant(TypeValue(node.name))

    def _chain(self, node: Node, scope: CodeScope, *, inner: bool = False) -> Steps[CompiledNode]:
        """A chain of fields and indexes.

        The cost of the chain is that of the variable it starts from: 1, but 0 if it is a key or the branch of a
        conditional (``inner``), 1 less if it starts from a conditional, and 1 less in has(). Each qualifier costs 1,
        in some versions 0 after an absolute name that skips a variable, such as ``.device``.
        """
        node, qualifiers = yield from self._qualifiers(node, scope)
        if isinstance(node, Name) and node not in self._constants:
            base = self._name(node, scope)
        else:
            base = yield self._compile(node, scope)
        conditional = isinstance(node, Call) and node.function == "_?_:_"
        skips_variable = isinstance(node, Name) and node.absolute and node.name in scope
        charges_skipped = self._release.charges_skipped
        each = 0 if skips_variable and not charges_skipped else 1
        cost = ChainCost(0 if inner else 1 - conditional - qualifiers[-1].test, each, each if charges_skipped else 0)
        return chain(base, qualifiers, cost, keeps_optional=inner)

    def _qualifiers(self, node: Node, scope: CodeScope) -> Steps[tuple[Node, list[Qualifier]]]:
        """The node that a chain starts from, and its qualifiers."""
        qualifiers: list[Qualifier] = []
        while isinstance(node, Select | Index) and not (qualifiers and isinstance(node, Select) and node.test):
            if isinstance(node, Select):
                qualifiers.append(Qualifier(node.field, optional=node.optional, test=node.test))
            elif node.key in self._constants:
                qualifiers.append(Qualifier(self._constants[node.key], optional=node.optional))
            else:
                key: CompiledNode = yield self._inner(node.key, scope)
                qualifiers.append(Qualifier(key, computed=True, optional=node.optional))
            node = node.operand
        return node, qualifiers[::-1]

    def _inner(self, node: Node, scope: CodeScope) -> Steps[CompiledNode]:
        """A computed key or the branch of a conditional: the variable that it starts from costs nothing."""
        if isinstance(node, Name) and node not in self._constants:
            return self._name(node, scope)
        if isinstance(node, Select | Index):
            return (yield from self._chain(node, scope, inner=True))
        code: CompiledNode = yield self._compile(node, scope)
        return code

    def _each(self, nodes: Sequence[Node], scope: CodeScope) -> Steps[list[CompiledNode]]:
        codes: list[CompiledNode] = []
        for node in nodes:
            code: CompiledNode = yield self._compile(node, scope)
            codes += (code,)
        return codes

    def _list(self, node: ListOf, scope: CodeScope) -> Steps[CompiledNode]:
        items = yield from self._each(node.items, scope)
        flags = tuple((item, i in node.optional) for i, item in enumerate(items))

        def build(activation: Activation) -> list[Any]:
            result: list[Any] = []
            for item, optional in flags:
                value = item(activation)
                if not optional:
                    result.append(value)
                elif calls.as_optional(value).present:
                    result.append(value.value)
            return result

        return build

    def _map(self, node: MapOf, scope: CodeScope) -> Steps[CompiledNode]:
        keys = yield from self._each([key for key, _, _ in node.entries], scope)
        values = yield from self._each([value for _, value, _ in node.entries], scope)
        entries = tuple(zip(keys, values, [optional for _, _, optional in node.entries], strict=True))

        def build(activation: Activation) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key_code, value_code, optional in entries:
                key, value = key_code(activation), value_code(activation)
                if optional:
                    if not calls.as_optional(value).present:
                        result.pop(literal_key(key), None)
                        continue
                    value = value.value
                result[literal_key(key)] = value
            return result

        return build

    def _comprehension(self, node: Comprehension, scope: CodeScope) -> Steps[CompiledNode]:
        over = yield self._compile(node.range, scope)
        slots = tuple(self._slot() for _ in node.variables)
        inner = {**scope, **{name: variable(slot) for name, slot in zip(node.variables, slots, strict=True)}}
        where = None if node.where is None else (yield self._compile(node.where, inner))
        body = yield self._compile(node.body, inner)
        loop = comprehensions.Loop(
            over,
            slots,
            where,
            body,
            constant=node.body in self._constants,
            sorts_dynamic=self._checked.types[node.body].kind in ("dyn", "any"),
            refuses_empty=self._release.refuses_empty,
            charges_empty=self._release.charges_skipped,
            charges_failed=self._release.charges_failed,
        )
        return comprehensions.build(node.kind, loop)

    def _bind(self, node: Bind, scope: CodeScope) -> Steps[CompiledNode]:
        value = yield self._compile(node.value, scope)
        slot = self._slot()
        body = yield self._compile(node.body, {**scope, node.name: bound(slot, value)})

        def run(activation: Activation) -> Any:
            activation[slot] = UNSET
            return body(activation)

        return run

    def _optional_map(self, node: OptionalMap, scope: CodeScope) -> Steps[CompiledNode]:
        """``target.hasValue() ? optional.of(body) : optional.none()``, with a variable bound to ``target.value()``."""
        target = yield self._compile(node.target, scope)
        slot = self._slot()
        reevaluated = calls.reevaluated_value(target) if self.metered else constant(None)
        body = yield self._compile(node.body, {**scope, node.name: bound(slot, reevaluated)})
        metered, flat, charges_failed = self.metered, node.flat, self._release.charges_failed

        def run(activation: Activation) -> Any:
            budget = activation[BUDGET]
            budget.charge(charges_failed)
            value = target(activation)
            budget.charge(not charges_failed)
            if not isinstance(value, Optional):
                raise no_overload("optMap")
            if not value.present:
                budget.charge(1)
                return NONE
            activation[slot] = UNSET if metered else value.value
            if flat:
                return body(activation)
            budget.charge(charges_failed)
            result = Optional(True, body(activation))
            budget.charge(not charges_failed)
            return result

        return run

    def _call(self, node: Call, scope: CodeScope) -> Steps[CompiledNode]:
        parts = node.args if node.target is None else (node.target, *node.args)
        match node.function:
            case "_&&_" | "_||_":
                terms = yield from self._each(parts, scope)
                return calls.logical(terms, absorbing=node.function == "_||_")
            case "_?_:_":
                condition = yield self._compile(parts[0], scope)
                then = yield self._inner(parts[1], scope)
                otherwise = yield self._inner(parts[2], scope)
                return calls.conditional(condition, then, otherwise)
            case "or" | "orValue":
                target = yield self._compile(parts[0], scope)
                return calls.or_else(target, (yield self._compile(parts[1], scope)), node.function)
            case "@in" if (values := self._constant_set(node)) is not None:
                return calls.in_constants((yield self._compile(parts[0], scope)), values)
        args = yield from self._each(parts, scope)
        return self._metered_call(node, parts, args) if self.metered else self._unmetered_call(node, parts, args)

    def _constant_set(self, node: Call) -> Sequence[Any] | None:
        """The constants of ``x in [constants]``, if cel-go looks ``x`` up in a set of them; else None."""
        values = self._constants.get(node.args[1])
        if self._checked.overloads[node] != ("in_list",) or not isinstance(values, list):
            return None
        return values if all(isinstance(value, _PRIMITIVE) for value in values) else None

    def _metered_call(self, node: Call, parts: Sequence[Node], args: Sequence[CompiledNode]) -> CompiledNode:
        overloads = self._checked.overloads[node]
        overload = overloads[0] if len(overloads) == 1 else ""
        code = calls.metered(
            self._apply(node),
            args,
            calls.CallCost(
                call_costs.cost_rule(node.function, overloads, self._release),
                after=overload in AFTER or node.function in AFTER,
                visits=SLOW.get(node.function, 0),
            ),
            self._failed_arguments(node, parts, overload),
        )
        return self._precomputed(code) if all(part in self._constants for part in parts) else code

    def _failed_arguments(self, node: Call, parts: Sequence[Node], overload: str) -> calls.FailedArguments:
        always, charges_failed = node.function in _CHARGED_FAILED, self._release.charges_failed
        return calls.FailedArguments(
            all_args=charges_failed and self._evaluates_all(node, parts),
            charged=charges_failed or always,
            at_once=always and self._release.charges_skipped,
            cancelling=CANCELLING.get(overload) if charges_failed else None,
        )

    def _evaluates_all(self, node: Call, parts: Sequence[Node]) -> bool:
        """Whether cel-go evaluates all arguments of a call even if one of them fails."""
        if len(parts) != 2:
            return len(parts) < 2
        if node.function in ("matches", "find", "findAll") and parts[1] in self._constants:
            return False
        return node.function in _BINARY or (len(self._checked.overloads[node]) == 1 and node.function != "format")

    def _element_types(self, node: Call) -> list[tuple[int, Type]]:
        """The list and map arguments whose first entry cel-go checks against the only overload, with their types."""
        overloads = self._checked.overloads[node]
        if len(overloads) != 1 or node.function not in self._functions or node.function in _UNGUARDED:
            return []
        (overload,) = [overload for overload in DECLARED[node.function] if overload.name == overloads[0]]
        return [
            (i, type_) for i, type_ in enumerate(overload.args) if type_.of and type_.of[0].kind not in ("?", "dyn")
        ]

    def _apply(self, node: Call) -> Any:
        function, element_types = node.function, self._element_types(node)
        name, table = function.strip("_@") or function, self._functions.get(function, {})
        comparing, pairwise = function in _COMPARING, function in _PAIRWISE
        work = _EQUALITIES.get(function) or calls.by_types(name, table)

        def apply(activation: Activation, values: Sequence[Any]) -> Any:
            for i, type_ in element_types:
                if not calls.accepts(type_, values[i]):
                    raise no_overload(name)
            budget = activation[BUDGET]
            if comparing:
                times = len(values[-1]) if pairwise and isinstance(values[-1], list) else 1
                for value in values:
                    budget.walk(value, times)
            return work(budget, values)

        return apply

    def _unmetered_call(self, node: Call, parts: Sequence[Node], args: Sequence[CompiledNode]) -> CompiledNode:
        match node.function:
            case "_==_":
                left, right = args
                return calls.equals(left, right)
            case "_!=_":
                left, right = args
                return lambda activation: calls.not_equal(left(activation), right(activation))
        if self._element_types(node):
            apply = self._apply(node)
            return lambda activation: apply(activation, [arg(activation) for arg in args])
        code = calls.dispatched(node.function.strip("_@") or node.function, self._functions[node.function], args)
        if all(part in self._constants for part in parts):
            return self._precomputed(code)
        return code

    def _precomputed(self, code: CompiledNode) -> CompiledNode:
        """A call with constant arguments runs now; its result or fault, and its cost, are the same each time."""
        before = self._budget.cost
        try:
            value = code([None, self._budget])
        except BudgetExceeded:
            return code
        except SelectorFault as fault:
            return self._charged(calls.failing(type(fault), str(fault)), self._budget.cost - before)
        if isinstance(value, list | dict) or (isinstance(value, str | bytes) and len(value) > _MAX_PRECOMPUTED):
            return code
        return self._charged(constant(value), self._budget.cost - before)
