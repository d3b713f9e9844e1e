"""Quantities as CEL sees them: upstream's two ways of keeping a number show through, and are kept here.

A quantity is an int64 times a power of ten where its text allows, else a decimal of any length. Only the first kind
can be an integer, and ``quantity("1000m").isInteger()`` is false. Rules: k8s.io/apimachinery/pkg/api/resource.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from driver.quantity import Quantity

INT64: Final = range(-(1 << 63), 1 << 63)
_SYNTAX = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*(?:[+-]?\d*))", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,19})", re.ASCII)
_FACTORS = 18
"""Decimal digits that surely fit an int64."""
_NANO = -9
_DIGITS = 4096
"""The digits to which decimals are worked out; no number of that size means anything for a device."""


@dataclass(frozen=True, slots=True)
class Amount:
    """``unscaled * 10**exponent``.

    ``small`` tells the int64 kind. ``computed`` marks the results of add and sub, which upstream cannot compare from
    the right.
    """

    unscaled: int
    exponent: int = 0
    small: bool = True
    computed: bool = False

    @classmethod
    def parse(cls, text: str) -> "Amount":
        """The quantity written in ``text``.

        Raises:
            ValueError: it is none.
        """
        return _parse(text)

    @classmethod
    def of(cls, quantity: Quantity) -> "Amount":
        """A capacity of a device, kept as its canonical text would be."""
        return _parse(str(quantity))

    @property
    def integer(self) -> int | None:
        """The value as upstream reads a 64-bit integer from this representation, or None."""
        if not self.small or self.exponent < 0:
            return None
        return _scaled(self.unscaled, self.exponent)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def __float__(self) -> float:
        if self.exponent > 400 and self.unscaled:
            return float("inf") * self.sign
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = float("inf") * self.sign
        return base * _power(self.exponent) if self.exponent else base

    def compare(self, other: "Amount") -> int:
        """-1, 0 or 1, as this is less than, equal to or more than ``other``."""
        if self.sign != other.sign or self.sign == 0:
            return (self.sign > other.sign) - (self.sign < other.sign)
        mine, its = self._magnitude, other._magnitude
        if mine != its:
            return self.sign if mine > its else -self.sign
        lowest = min(self.exponent, other.exponent)
        a, b = self._at(lowest), other._at(lowest)
        return (a > b) - (a < b)

    @property
    def _magnitude(self) -> int:
        return len(str(abs(self.unscaled))) + self.exponent

    def _at(self, exponent: int) -> int:
        if self.exponent - exponent > _DIGITS:
            raise ValueError("a quantity has too many digits to compute with")
        return int(self.unscaled * 10 ** (self.exponent - exponent))

    def plus(self, other: "Amount") -> "Amount":
        """The sum.

        Raises:
            ValueError: it would have thousands of digits.
        """
        if self.small and other.small:
            if other.unscaled == 0:
                return replace(self, computed=True)
            if self.unscaled == 0:
                return replace(other, computed=True)
            lowest = min(self.exponent, other.exponent)
            a, b = _scaled(self.unscaled, self.exponent - lowest), _scaled(other.unscaled, other.exponent - lowest)
            if a is not None and b is not None and a + b in INT64:
                return Amount(a + b, lowest, computed=True)
        lowest = min(self.exponent, other.exponent)
        return Amount(self._at(lowest) + other._at(lowest), lowest, small=False, computed=True)

    def minus(self, other: "Amount") -> "Amount":
        """The difference; the least int64 is its own negative, as in 64-bit arithmetic.

        Raises:
            ValueError: it would have thousands of digits.
        """
        if not (self.small and other.small):
            return self.plus(replace(other, unscaled=-other.unscaled))
        wrapped = other.unscaled if other.unscaled == INT64.start else -other.unscaled
        result = self.plus(replace(other, unscaled=wrapped))
        return result if result.small else self.plus(replace(other, unscaled=-other.unscaled, small=False))


def _power(exponent: int) -> float:
    """Ten to a power, with the rounding of Go's math.Pow10: a product or quotient of two of its tables."""
    many, few = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * many}") / float(f"1e{few}")
    return float(f"1e{32 * many}") * float(f"1e{few}") if exponent <= 308 else float("inf")


def _scaled(value: int, power: int) -> int | None:
    """``value * 10**power`` if that is an int64; the least one is not multiplied."""
    if power == 0 or value == 0:
        return value
    if power > _FACTORS or value == INT64.start:
        return None
    product: int = value * 10**power
    return product if product in INT64 else None


def _parse(text: str) -> Amount:
    found = _SYNTAX.fullmatch(text)
    if not found or not text:
        raise ValueError(f"{text!r} is no quantity; write a number with an optional suffix, such as 4Gi")
    digits, fraction, suffix = found[2].lstrip("0") or "0", found[3] or "", found[4]
    negative = found[1] == "-"
    if suffix in _BINARY:
        return _binary(text, negative, digits, fraction, _BINARY[suffix])
    if suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
    else:
        written = _EXPONENT.fullmatch(suffix)
        if not written or int(written[1]) not in INT64:
            raise ValueError(f"{text!r} is no quantity: unknown suffix {suffix!r}")
        exponent = (int(written[1]) + (1 << 31)) % (1 << 32) - (1 << 31)
    scale = exponent - len(fraction)
    value = -int(digits + fraction) if negative else int(digits + fraction)
    if len(digits) + len(fraction) <= _FACTORS and scale >= _NANO:
        return Amount(value, scale)
    _check_digits(text)
    return _nano(value, scale)


def _binary(text: str, negative: bool, digits: str, fraction: str, exponent: int) -> Amount:
    if not fraction and 15 - len(digits) - exponent * 3 // 10 - 1 >= 0:
        value = int(digits) << exponent
        return Amount(-value if negative else value)
    _check_digits(text)
    amount = _nano(int(digits + fraction) << exponent, -len(fraction))
    if amount.compare(Amount(INT64.stop - 1)) > 0:
        amount = Amount(INT64.stop - 1, small=False)
    return replace(amount, unscaled=-amount.unscaled) if negative else amount


def _check_digits(text: str) -> None:
    if not any(char.isdigit() for char in text.rstrip("eEinumkKMGTP")):
        raise ValueError(f"{text!r} is no quantity: it has no digits")
    if len(text) > _DIGITS:
        raise ValueError(f"a quantity of {len(text)} characters has too many digits")


def _nano(value: int, scale: int) -> Amount:
    """A decimal, rounded up to whole nano-units. What is far beyond any double keeps its exponent instead of digits."""
    if value == 0 or scale > 400:
        return Amount(value, scale, small=False)
    if scale >= _NANO:
        return Amount(value * 10 ** (scale - _NANO), _NANO, small=False)
    size = -(-abs(value) // 10 ** min(_NANO - scale, _DIGITS))
    return Amount(size if value > 0 else -size, _NANO, small=False)
