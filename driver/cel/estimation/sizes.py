"""The sizes that values can have, from the text of an expression and the API's limits on devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple, TypeAlias

UNBOUNDED: Final = (1 << 64) - 1
"""The largest size and cost: sums and products end there. Stands for a size without a known limit."""


class Size(NamedTuple):
    """The smallest and the largest size: characters of a string, bytes, elements of a list or entries of a map."""

    least: int
    most: int

    def union(self, other: "Size") -> "Size":
        """The range that contains both."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: "Size") -> "Size":
        """The size of the concatenation of both."""
        return Size(add(self.least, other.least), add(self.most, other.most))

    def times(self, other: "Size") -> "Size":
        """The size of as many values of this size as ``other`` is large."""
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
    """``amount`` times ``factor``, rounded up, at most UNBOUNDED. In floating point, to round as Kubernetes does."""
    if factor > 0 and float(amount) > UNBOUNDED / factor:
        return UNBOUNDED
    return min(ceil(float(amount) * factor), UNBOUNDED)


ValuePath: TypeAlias = tuple[str, ...]
"""The origin of a value: a variable, then fields and ``@items``, ``@keys``, ``@values`` or ``@indices``."""


_MAX_STEPS: Final = 6
"""No limit is declared below so many steps, so that a path need not become longer."""


def below(path: ValuePath, step: str) -> ValuePath:
    """``path`` with one more step."""
    return (*path, step) if len(path) < _MAX_STEPS else path


@dataclass(frozen=True, slots=True)
class _Limit:
    most: int
    key: "_Limit | None" = None
    element: "_Limit | None" = None
    fields: Mapping[str, "_Limit"] = field(default_factory=dict)


_DOMAIN, _ID, _ATTRIBUTE, _CAPACITY = _Limit(63), _Limit(32), _Limit(64), _Limit(0)
_DEVICE: Final = _Limit(
    0,
    fields={
        "driver": _Limit(63),
        "allowMultipleAllocations": _Limit(1),
        "attributes": _Limit(32, _DOMAIN, _Limit(32, _ID, _ATTRIBUTE)),
        "capacity": _Limit(32, _DOMAIN, _Limit(32, _ID, _CAPACITY)),
    },
)


def declared_size(path: ValuePath) -> Size | None:
    """The size that the API (resource.k8s.io/v1) allows at a path below ``device``; None without a known limit."""
    if path[:1] != ("device",):
        return None
    limit: _Limit | None = _DEVICE
    for step in path[1:]:
        if limit is None:
            return None
        limit = _limit_below(limit, step)
    return None if limit is None else Size(0, limit.most)


def _limit_below(limit: _Limit, step: str) -> _Limit | None:
    if step in ("@items", "@values"):
        return limit.element
    if step == "@keys":
        return limit.key
    return limit.fields.get(step) or (_ATTRIBUTE if limit.element is _ATTRIBUTE else None)
