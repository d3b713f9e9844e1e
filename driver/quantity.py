"""Kubernetes quantities, exact: an integer number of nano-units, the finest resolution of the API. Pure.

Syntax and canonical form follow k8s.io/apimachinery/pkg/api/resource: ``12Gi``, ``500m``, ``1e3``, ``0.5``.
Anything finer than one nano is rounded up, as in the API server.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import total_ordering
from typing import Literal

from driver.errors import Fault, InvalidInput

Format = Literal["BinarySI", "DecimalSI", "DecimalExponent"]

NANO = 10**9
_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SYNTAX = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"([+-]?\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)", re.ASCII)
"""Most quantities: an integer with a suffix."""
_NANOS = {suffix: factor * NANO for suffix, factor in _BINARY.items()} | {
    suffix: 10 ** (exponent + 9) for suffix, exponent in _DECIMAL.items()
}
_MAX_EXPONENT = 1000
_MAX_LENGTH = 1000
"""Characters of a text that is read. Kubernetes writes at most 20, and Python reads no number of more than 4,300."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount of a resource. Comparisons use the value only, not the suffix."""

    nanos: int
    format: Format = field(default="DecimalSI")

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """The quantity written in ``text``.

        Raises:
            InvalidInput: the text is not a quantity, or a very long one; its author must change it.
        """
        if len(text) > _MAX_LENGTH:
            message = f"write a number of at most {_MAX_LENGTH} characters: it has {len(text)}"
            raise InvalidInput(f"quantity {text[:20]!r}…", [Fault("", message)])
        if whole := _WHOLE.fullmatch(text):
            # Slices contain thousands of these, and exact fractions take ten times as long.
            digits, suffix = whole.groups()
            return cls(int(digits) * _NANOS[suffix], "BinarySI" if suffix in _BINARY else "DecimalSI")
        return cls(*_parsed(text))

    @classmethod
    def whole(cls, value: int, form: Format = "DecimalSI") -> "Quantity":
        """``value`` whole units."""
        return cls(value * NANO, form)

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero for fractions), as Kubernetes' ``Quantity.Value()`` does."""
        whole = -(-abs(self.nanos) // NANO)
        return whole if self.nanos >= 0 else -whole

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format)

    def __str__(self) -> str:
        """The canonical text: no fraction, and the largest suffix without loss."""
        if self.format == "BinarySI" and self.nanos % NANO == 0 and abs(self.nanos) >= 1024 * NANO:
            return _binary(self.nanos // NANO)
        return _decimal(self.nanos, exponent_form=self.format == "DecimalExponent")


def _parsed(text: str) -> tuple[int, Format]:
    """Nano-units and format."""
    parts = _SYNTAX.fullmatch(text)
    if not parts:
        raise InvalidInput(f"quantity {text!r}", [Fault("", "write a number with an optional suffix, such as 4Gi")])
    sign, digits, suffix = parts[1], parts[2], parts[3] or ""
    value = Fraction(digits if digits[-1] != "." else digits[:-1])
    form: Format = "DecimalSI"
    if suffix in _BINARY:
        value, form = value * _BINARY[suffix], "BinarySI"
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    else:
        exponent, form = int(suffix[1:]), "DecimalExponent"
        if abs(exponent) > _MAX_EXPONENT:
            raise InvalidInput(f"quantity {text!r}", [Fault("", f"exponent beyond {_MAX_EXPONENT}")])
        value *= Fraction(10) ** exponent
    scaled = value * NANO
    nanos = -(-scaled.numerator // scaled.denominator)
    return (-nanos if sign == "-" else nanos), form


def _binary(units: int) -> str:
    suffix = ""
    for name in _BINARY:
        if units % 1024:
            break
        units, suffix = units // 1024, name
    return f"{units}{suffix}"


def _decimal(nanos: int, *, exponent_form: bool) -> str:
    if nanos == 0:
        return "0"
    exponent = -9
    while nanos % 1000 == 0 and (exponent_form or exponent < 18):
        nanos, exponent = nanos // 1000, exponent + 3
    if exponent_form:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_NAMES[exponent]}"
