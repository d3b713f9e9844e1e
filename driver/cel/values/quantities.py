"""Quantities as CEL sees them, with Kubernetes' two representations, because CEL functions tell them apart.

If its text allows, a quantity is an int64 times a power of ten, else a decimal of any length. Only the first can be an
integer: ``quantity("1000m").isInteger()`` is false. Source: ``k8s.io/apimachinery/pkg/api/resource``.
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
_INT64_DIGITS = 18
"""Any number with so many decimal digits fits an int64."""
_NANO = -9
_MAX_DIGITS = 4096
"""The limit on the digits of a decimal. No capacity of a device needs a larger number."""


@dataclass(frozen=True, slots=True)
class CelQuantity:
    """``unscaled * 10**exponent``.

    Attributes:
        is_int64: whether it is an int64 times a power of ten, not a decimal.
        computed: whether it is a result of add or sub, which Kubernetes cannot compare as the right operand of ``==``.
    """

    unscaled: int
    exponent: int = 0
    is_int64: bool = True
    computed: bool = False

    @classmethod
    def parse(cls, text: str) -> "CelQuantity":
        """The quantity written in ``text``.

        Raises:
            ValueError: it is not a quantity.
        """
        return _parse(text)

    @classmethod
    def from_quantity(cls, quantity: Quantity) -> "CelQuantity":
        """A capacity of a device, in the representation of its canonical text."""
        return _parse(str(quantity))

    @property
    def integer(self) -> int | None:
        """The value if Kubernetes can read an int64 from this representation, else None."""
        if not self.is_int64 or self.exponent < 0:
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

    def compare(self, other: "CelQuantity") -> int:
        """-1, 0 or 1 if this is less than, equal to or more than ``other``."""
        if self.sign != other.sign or self.sign == 0:
            return (self.sign > other.sign) - (self.sign < other.sign)
        # Different magnitudes decide without computing digits, of which there may be too many.
        own, others = self._magnitude, other._magnitude
        if own != others:
            return self.sign if own > others else -self.sign
        lowest = min(self.exponent, other.exponent)
        a, b = self._at(lowest), other._at(lowest)
        return (a > b) - (a < b)

    @property
    def _magnitude(self) -> int:
        return len(str(abs(self.unscaled))) + self.exponent

    def _at(self, exponent: int) -> int:
        if self.exponent - exponent > _MAX_DIGITS:
            raise ValueError("a quantity has too many digits to compute with")
        return int(self.unscaled * 10 ** (self.exponent - exponent))

    def plus(self, other: "CelQuantity") -> "CelQuantity":
        """The sum.

        Raises:
            ValueError: it would have thousands of digits.
        """
        if self.is_int64 and other.is_int64:
            if other.unscaled == 0:
                return replace(self, computed=True)
            if self.unscaled == 0:
                return replace(other, computed=True)
            lowest = min(self.exponent, other.exponent)
            a, b = _scaled(self.unscaled, self.exponent - lowest), _scaled(other.unscaled, other.exponent - lowest)
            if a is not None and b is not None and a + b in INT64:
                return CelQuantity(a + b, lowest, computed=True)
        lowest = min(self.exponent, other.exponent)
        return CelQuantity(self._at(lowest) + other._at(lowest), lowest, is_int64=False, computed=True)

    def minus(self, other: "CelQuantity") -> "CelQuantity":
        """The difference. The lowest int64 is its own negative, as in 64-bit arithmetic.

        Raises:
            ValueError: it would have thousands of digits.
        """
        if not (self.is_int64 and other.is_int64):
            return self.plus(replace(other, unscaled=-other.unscaled))
        wrapped = other.unscaled if other.unscaled == INT64.start else -other.unscaled
        result = self.plus(replace(other, unscaled=wrapped))
        return result if result.is_int64 else self.plus(replace(other, unscaled=-other.unscaled, is_int64=False))


def _power(exponent: int) -> float:
    """Ten to a power with the rounding of Go's math.Pow10, which multiplies or divides entries of two tables."""
    blocks, rest = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * blocks}") / float(f"1e{rest}")
    return float(f"1e{32 * blocks}") * float(f"1e{rest}") if exponent <= 308 else float("inf")


def _scaled(value: int, power: int) -> int | None:
    """``value * 10**power`` if it is an int64, else None. Kubernetes does not multiply the lowest int64."""
    if power == 0 or value == 0:
        return value
    if power > _INT64_DIGITS or value == INT64.start:
        return None
    product: int = value * 10**power
    return product if product in INT64 else None


def _parse(text: str) -> CelQuantity:
    parts = _SYNTAX.fullmatch(text)
    if not parts or not text:
        raise ValueError(f"not a quantity: {text!r}; write a number with an optional suffix, such as 4Gi")
    digits, fraction, suffix = parts[2].lstrip("0") or "0", parts[3] or "", parts[4]
    negative = parts[1] == "-"
    if suffix in _BINARY:
        return _binary(text, negative, digits, fraction, _BINARY[suffix])
    if suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
    else:
        written = _EXPONENT.fullmatch(suffix)
        if not written or int(written[1]) not in INT64:
            raise ValueError(f"not a quantity: {text!r}; the suffix is not known: {suffix!r}")
        exponent = (int(written[1]) + (1 << 31)) % (1 << 32) - (1 << 31)
    scale = exponent - len(fraction)
    value = -int(digits + fraction) if negative else int(digits + fraction)
    if len(digits) + len(fraction) <= _INT64_DIGITS and scale >= _NANO:
        return CelQuantity(value, scale)
    _check_digits(text)
    return _nano(value, scale)


def _binary(text: str, negative: bool, digits: str, fraction: str, exponent: int) -> CelQuantity:
    if not fraction and 15 - len(digits) - exponent * 3 // 10 - 1 >= 0:
        value = int(digits) << exponent
        return CelQuantity(-value if negative else value)
    _check_digits(text)
    amount = _nano(int(digits + fraction) << exponent, -len(fraction))
    if amount.compare(CelQuantity(INT64.stop - 1)) > 0:
        amount = CelQuantity(INT64.stop - 1, is_int64=False)
    return replace(amount, unscaled=-amount.unscaled) if negative else amount


def _check_digits(text: str) -> None:
    if not any(char.isdigit() for char in text.rstrip("eEinumkKMGTP")):
        raise ValueError(f"not a quantity: {text!r}; it has no digits")
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a quantity has too many digits; its length in characters is {len(text)}")


def _nano(value: int, scale: int) -> CelQuantity:
    """A decimal, rounded up to whole nano-units. One far beyond any double keeps its exponent instead of its digits."""
    if value == 0 or scale > 400:
        return CelQuantity(value, scale, is_int64=False)
    if scale >= _NANO:
        return CelQuantity(value * 10 ** (scale - _NANO), _NANO, is_int64=False)
    size = -(-abs(value) // 10 ** min(_NANO - scale, _MAX_DIGITS))
    return CelQuantity(size if value > 0 else -size, _NANO, is_int64=False)
