"""A value with qualifiers: a chain of fields, keys and indexes, such as ``device.attributes["a"].?b[0]``.

cel-go evaluates such a chain as one step (``interpreter/attributes.go``). If a qualifier is optional, or the value that
the chain starts from, then the rest of the chain is optional, too. Optional values inside the chain are not unwrapped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from driver.cel.errors import SelectorFault
from driver.cel.evaluator import lookup
from driver.cel.evaluator.activation import BUDGET, Activation, CompiledNode
from driver.cel.evaluator.lookup import MissingKey
from driver.cel.values.runtime import NONE, Optional


class Qualifier(NamedTuple):
    """One field, key or index. ``key`` is its value, or the code that computes it if ``computed``."""

    key: Any
    computed: bool = False
    optional: bool = False
    test: bool = False


class ChainCost(NamedTuple):
    """The cost of a chain itself, and that of each qualifier; an optional qualifier costs nothing if it is absent.

    ``failed`` is the cost of an optional qualifier that fails.
    """

    chain: int
    qualifier: int
    failed: int = 0


def chain(
    base: CompiledNode, qualifiers: Sequence[Qualifier], cost: ChainCost, *, keeps_optional: bool = False
) -> CompiledNode:
    """Code that reads the value at the end of ``qualifiers``; for has(), whether it exists.

    If it ``keeps_optional``, has() of an optional chain returns an optional value, as cel-go does in
    ``c ? has(x.?y.z) : true``.
    """
    testing = qualifiers[-1].test

    def run(activation: Activation) -> Any:
        budget = activation[BUDGET]
        budget.charge(cost.chain)
        value = base(activation)
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return False if testing and not keeps_optional else value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            if not optional:
                budget.charge(cost.qualifier)
                value = _get(value, qualifier.key(activation) if qualifier.computed else qualifier.key, qualifier)
                continue
            try:
                entry = _find(value, qualifier.key(activation) if qualifier.computed else qualifier.key)
            except SelectorFault:
                budget.charge(cost.failed)
                raise
            if not entry.present:
                return False if testing and not keeps_optional else NONE
            budget.charge(cost.qualifier)
            value = entry.value
        if not optional:
            return value
        return True if testing and not keeps_optional else Optional(True, value)

    return run


def _get(value: Any, key: Any, qualifier: Qualifier) -> Any:
    if type(value) is Optional:
        if qualifier.test:
            return False
        raise MissingKey(key, {})
    return lookup.has_field(value, key) if qualifier.test else lookup.index(value, key)


def _find(value: Any, key: Any) -> Optional:
    return NONE if type(value) is Optional else lookup.optional_index(value, key)
