"""The functions on quantities and semantic versions."""

from collections.abc import Callable, Mapping
from typing import Any

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault
from driver.cel.values.quantities import CelQuantity
from driver.cel.values.runtime import INT_MAX, Overloads
from driver.semver import Semver


def _quantity(_: CostBudget, text: str) -> CelQuantity:
    try:
        return CelQuantity.parse(text)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _is_quantity(_: CostBudget, text: str) -> bool:
    try:
        CelQuantity.parse(text)
    except ValueError:
        return False
    return True


def _compare(_: CostBudget, a: Any, b: Any) -> int:
    if isinstance(a, CelQuantity):
        return a.compare(b)
    return int(a > b) - int(a < b)


def _as_integer(_: CostBudget, amount: CelQuantity) -> int:
    value = amount.integer
    if value is None:
        raise SelectorFault("cannot convert value to integer")
    return value


def _computed(
    step: Callable[[CelQuantity, CelQuantity], CelQuantity],
) -> Callable[[CostBudget, CelQuantity, Any], CelQuantity]:
    def run(_: CostBudget, a: CelQuantity, b: Any) -> CelQuantity:
        try:
            return step(a, b if isinstance(b, CelQuantity) else CelQuantity(b))
        except ValueError as error:
            raise SelectorFault(str(error)) from None

    return run


def _normalized(text: str) -> str:
    """A lenient version in strict form, such as ``v1.02`` as ``1.2.0``: no leading v or zeros, and three parts."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            short = part.lstrip("0")
            parts[i] = short if short and short[0].isdigit() else f"0{short}"
    if len(parts) < 3 and any(mark in parts[-1] for mark in "+-"):
        raise ValueError("a short version cannot have pre-release or build parts")
    return ".".join([*parts, "0", "0"][:3])


def _parse(text: str, normalize: bool) -> Semver:
    return Semver.parse(_normalized(text) if normalize else text)


def _semver(_: CostBudget, text: str, normalize: bool = False) -> Semver:
    try:
        return _parse(text, normalize)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _is_semver(_: CostBudget, text: str, normalize: bool = False) -> bool:
    try:
        _parse(text, normalize)
    except ValueError:
        return False
    return True


def _part(name: str) -> Callable[[CostBudget, Semver], int]:
    def run(_: CostBudget, version: Semver) -> int:
        value: int = getattr(version, name)
        return value if value <= INT_MAX else value - (1 << 64)

    return run


_Q, _QQ, _QI = ("kubernetes.Quantity",), ("kubernetes.Quantity",) * 2, ("kubernetes.Quantity", "int")
_V, _VV = ("kubernetes.Semver",), ("kubernetes.Semver",) * 2
_S, _SB = ("string",), ("string", "bool")

FUNCTIONS: Mapping[str, Overloads] = {
    "quantity": {_S: _quantity},
    "isQuantity": {_S: _is_quantity},
    "compareTo": {_QQ: _compare, _VV: _compare},
    "isGreaterThan": {_QQ: lambda b, x, y: _compare(b, x, y) > 0, _VV: lambda b, x, y: _compare(b, x, y) > 0},
    "isLessThan": {_QQ: lambda b, x, y: _compare(b, x, y) < 0, _VV: lambda b, x, y: _compare(b, x, y) < 0},
    "asInteger": {_Q: _as_integer},
    "isInteger": {_Q: lambda _, amount: amount.integer is not None},
    "asApproximateFloat": {_Q: lambda _, amount: float(amount)},
    "sign": {_Q: lambda _, amount: amount.sign},
    "add": {_QQ: _computed(CelQuantity.plus), _QI: _computed(CelQuantity.plus)},
    "sub": {_QQ: _computed(CelQuantity.minus), _QI: _computed(CelQuantity.minus)},
    "semver": {_S: _semver, _SB: _semver},
    "isSemver": {_S: _is_semver, _SB: _is_semver},
    "major": {_V: _part("major")},
    "minor": {_V: _part("minor")},
    "patch": {_V: _part("patch")},
}
