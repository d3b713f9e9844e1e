"""How large values can be, as far as the text of an expression and the API's limits for devices tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple, TypeAlias

UNBOUNDED: Final = (1 << 64) - 1
"""Where sums and products stop growing: no bound is known."""


class Size(NamedTuple):
    """The least and the most: characters of a string, bytes, elements of a list or entries of a map."""

    least: int
    most: int

    def union(self, other: "Size") -> "Size":
        """What holds where either does."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: "Size") -> "Size":
        """The size of the two joined."""
        return Size(add(self.least, other.least), add(self.most, other.most))

    def times(self, other: "Size") -> "Size":
        """As many of this size as ``other`` says."""
        return Size(multiply(self.least, other.least), multiply(self.most, other.most))


UNKNOWN: Final = Size(0, UNBOUNDED)
ONE: Final = Size(1, 1)


def add(*amounts: int) -> int:
    """Their sum, at most UNBOUNDED."""
    return min(sum(amounts), UNBOUNDED)


def multiply(a: int, b: int) -> int:
    """Their product, at most UNBOUNDED."""
    return min(a * b, UNBOUNDED)


def scale(amount: int, factor: float) -> int:
    """``amount`` times ``factor``, rounded up, at most UNBOUNDED. In floating point, because upstream rounds so."""
    if factor > 0 and float(amount) > UNBOUNDED / factor:
        return UNBOUNDED
    return min(ceil(float(amount) * factor), UNBOUNDED)


Path: TypeAlias = tuple[str, ...]
"""Where a value comes from: a variable, then fields and ``@items``, ``@keys``, ``@values``, ``@indices``."""


_DEEPEST: Final = 6
"""Steps after which no limit is declared for sure, so that a path need not grow further."""


def below(path: Path, step: str) -> Path:
    """``path`` and one step more."""
    return (*path, step) if len(path) < _DEEPEST else path


@dataclass(frozen=True, slots=True)
class _Declared:
    most: int
    key: "_Declared | None" = None
    element: "_Declared | None" = None
    fields: Mapping[str, "_Declared"] = field(default_factory=dict)


_DOMAIN, _ID, _ATTRIBUTE, _CAPACITY = _Declared(63), _Declared(32), _Declared(64), _Declared(0)
_DEVICE: Final = _Declared(
    0,
    fields={
        "driver": _Declared(63),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(32, _DOMAIN, _Declared(32, _ID, _ATTRIBUTE)),
        "capacity": _Declared(32, _DOMAIN, _Declared(32, _ID, _CAPACITY)),
    },
)


def declared(path: Path) -> Size | None:
    """What the API's limits (resource.k8s.io/v1) allow at a path below ``device``; None where upstream knows none."""
    if path[:1] != ("device",):
        return None
    at: _Declared | None = _DEVICE
    for step in path[1:]:
        if at is None:
            return None
        at = _below(at, step)
    return None if at is None else Size(0, at.most)


def _below(at: _Declared, step: str) -> _Declared | None:
    if step in ("@items", "@values"):
        return at.element
    if step == "@keys":
        return at.key
    return at.fields.get(step) or (_ATTRIBUTE if at.element is _ATTRIBUTE else None)
