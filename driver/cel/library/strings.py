"""The functions on strings. Positions count characters. Regular expressions are RE2, which takes linear time.

Only home of ``re2``.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import re2

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault, no_overload
from driver.cel.values.runtime import INT_MAX, INT_MIN, UINT_MAX, Overloads, UInt

_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680"
    + "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DIGITS, _HEX = r"\d+(?:_\d+)*", "[0-9a-f]+(?:_[0-9a-f]+)*"
_DOUBLE = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|inf|infinity)|nan", re.A | re.I
)
_HEX_DOUBLE = re.compile(rf"[+-]?0x(?:_?{_HEX}\.?(?:{_HEX})?|\.{_HEX})p[+-]?{_DIGITS}", re.A | re.I)
_ONE_BYTE = re.compile(r"(?:[^\\]|\\Q(?:(?!\\E).)*(?:\\E|$)|\\[^CQ])*\\C.*", re.S)
_PATTERN_MEMORY = 1 << 20
"""The limit on the bytes of a compiled pattern: enough for any that a person writes, and compiled in milliseconds."""
_VISITS_OF_A_MATCH = 8
"""Elements that one of many matches counts as."""
_WIDTHS = (1,) * 12 + (2, 2, 3, 4)
"""The bytes of a UTF-8 character by the upper four bits of its first byte."""
_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}
_UPPER = {ord(c): c.upper() for c in "abcdefghijklmnopqrstuvwxyz"}
_LOWER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def compile_regex(pattern: str) -> Any:
    """The compiled RE2 pattern.

    Raises:
        ValueError: RE2 does not accept it.
    """
    if _ONE_BYTE.fullmatch(pattern):
        raise ValueError(f"not a regular expression: {pattern!r}; \\C is not allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise ValueError(f"not an RE2 regular expression: {pattern!r}: {reason}") from None


def _regex(budget: CostBudget, pattern: str, text: str) -> Any:
    """The compiled pattern; what it takes to compile it and to search ``text`` for it is counted."""
    budget.prepare(pattern)
    try:
        regex = compile_regex(pattern)
    except ValueError as error:
        budget.prepared(None)
        raise SelectorFault(str(error)) from None
    budget.prepared(regex.programsize)
    budget.search(len(text), regex.programsize)
    return regex


def _matches(budget: CostBudget, text: str, pattern: str) -> bool:
    return _regex(budget, pattern, text).search(text) is not None


def _find(budget: CostBudget, text: str, pattern: str) -> str:
    match = _regex(budget, pattern, text).search(text)
    return match[0] if match else ""


def _find_all(budget: CostBudget, text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches from left to right, without empty matches directly after another match."""
    regex, raw = _regex(budget, pattern, text), text.encode("utf-8", "surrogateescape")
    result: list[str] = []
    position, last = 0, -1
    while position <= len(raw) and len(result) != limit:
        match = regex.search(raw, position)
        if not match:
            break
        start, end = match.span()
        budget.spend(_VISITS_OF_A_MATCH + (end - position) // 10)
        budget.search(end - position, regex.programsize)
        if start != end or start != last:
            result.append(raw[start:end].decode("utf-8", "surrogateescape"))
        last = end
        position = end if end > position else position + (_WIDTHS[raw[position] >> 4] if position < len(raw) else 1)
    return result


def _out_of_range(index: int) -> SelectorFault:
    return SelectorFault(f"index out of range: {index}")


def _char_at(_: CostBudget, text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(_: CostBudget, text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if part == "":
        return min(offset, len(text))
    return text.find(part, offset)


def _last_index_of(_: CostBudget, text: str, part: str, offset: int | None = None) -> int:
    if offset is not None and offset < 0:
        raise _out_of_range(offset)
    if part == "":
        return len(text) if offset is None else min(offset, len(text))
    if offset is None:
        return text.rfind(part)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(budget: CostBudget, text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    budget.grow(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def _split(budget: CostBudget, text: str, separator: str, limit: int = -1) -> list[str]:
    budget.spend(len(text) // 10)
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(_: CostBudget, text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if start < 0 or start > len(text):
        raise _out_of_range(start)
    if not 0 <= stop <= len(text):
        raise _out_of_range(stop)
    if start > stop:
        raise SelectorFault(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _join(budget: CostBudget, parts: list[Any], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise no_overload("join")
    budget.grow(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _per_character(change: Callable[[str], Any]) -> Callable[[CostBudget, str], Any]:
    def run(budget: CostBudget, text: str) -> Any:
        budget.spend(len(text) // 10)
        return change(text)

    return run


def to_int(_: CostBudget, text: str) -> int:
    """``int("42")``.

    Raises:
        SelectorFault: it is not a 64-bit integer.
    """
    if not _INTEGER.fullmatch(text) or len(text) > 64 or not INT_MIN <= int(text) <= INT_MAX:
        raise SelectorFault(f"cannot convert {text[:40]!r} to int")
    return int(text)


def to_uint(_: CostBudget, text: str) -> UInt:
    """``uint("42")``.

    Raises:
        SelectorFault: it is not an unsigned 64-bit integer.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 64 or int(text) > UINT_MAX:
        raise SelectorFault(f"cannot convert {text[:40]!r} to uint")
    return UInt(text)


def to_double(_: CostBudget, text: str) -> float:
    """``double("1.5")``.

    Raises:
        SelectorFault: it is not a number.
    """
    bare = text.replace("_", "")
    try:
        if _HEX_DOUBLE.fullmatch(text):
            return float.fromhex(bare)
        if _DOUBLE.fullmatch(text) and ("n" in bare.lower() or not math.isinf(float(bare))):
            return float(bare)
    except OverflowError:
        pass
    raise SelectorFault(f"cannot convert {text[:40]!r} to double")


def to_bool(_: CostBudget, text: str) -> bool:
    """``bool("true")``.

    Raises:
        SelectorFault: it is neither true nor false.
    """
    if text not in _TRUE | _FALSE:
        raise SelectorFault(f"cannot convert {text[:40]!r} to bool")
    return text in _TRUE


def from_double(value: float) -> str:
    """A double as text, as in Go: the shortest digits that identify it, with an exponent below 1e-4 and from 1e6."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    digits = digits.rstrip("0") or "0"
    if -4 <= power < 6:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        left, right = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
        return sign + left + (f".{right}" if right else "")
    tail = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power >= 0 else '-'}{abs(power):02d}"


def from_bytes(_: CostBudget, value: bytes) -> str:
    """``string(b"x")``.

    Raises:
        SelectorFault: the bytes are not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SelectorFault("invalid UTF-8 in bytes, cannot convert to string") from None


_S, _SS, _SI = ("string",), ("string", "string"), ("string", "int")

FUNCTIONS: Mapping[str, Overloads] = {
    "matches": {_SS: _matches},
    "find": {_SS: _find},
    "findAll": {_SS: _find_all, (*_SS, "int"): _find_all},
    "startsWith": {_SS: lambda _, a, b: a.startswith(b)},
    "endsWith": {_SS: lambda _, a, b: a.endswith(b)},
    "contains": {_SS: lambda _, a, b: b in a},
    "charAt": {_SI: _char_at},
    "replace": {("string",) * 3: _replace, (*("string",) * 3, "int"): _replace},
    "split": {_SS: _split, (*_SS, "int"): _split},
    "substring": {_SI: _substring, (*_SI, "int"): _substring},
    "join": {("list",): _join, ("list", "string"): _join},
    "lowerAscii": {_S: _per_character(lambda text: text.translate(_LOWER))},
    "upperAscii": {_S: _per_character(lambda text: text.translate(_UPPER))},
    "trim": {_S: _per_character(lambda text: text.strip(_SPACES))},
}
INDEXES: Mapping[str, Overloads] = {
    "indexOf": {_SS: _index_of, (*_SS, "int"): _index_of},
    "lastIndexOf": {_SS: _last_index_of, (*_SS, "int"): _last_index_of},
}
