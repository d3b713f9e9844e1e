"""``"%d of %s".format([1, "x"])``: the directives, the types they take and the text they produce.

Fixed and scientific notation are those of the locale en_US: digits in groups of three, and 1.5×10⁰³.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault
from driver.cel.library.strings import from_double
from driver.cel.values.runtime import Overloads, TypeValue, keys, type_name

_TEXTS = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"})
_TIMES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
TAKES: Final[Mapping[str, frozenset[str]]] = {
    "s": _TEXTS | _TIMES,
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}
"""The types that each directive takes. The only strings for %f and %e are names of numbers that are not finite."""

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DIRECTIVE = re.compile(r"%(?:\.(?P<precision>[0-9]+))?(?P<letter>[sdfebxXo])|(?P<percent>%%)|(?P<plain>[^%]+)", re.S)
_DEFAULT_PRECISION = 6
_INT_MAX = (1 << 63) - 1
_EXACT = 1100
"""Above the number of digits after the point of any double."""
_WIDEST = 1_000_000
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_ESCAPES = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\", 34: '\\"'}
_MARKS = '"\\'


@dataclass(frozen=True, slots=True)
class Directive:
    """The place of an argument in a format."""

    letter: str
    precision: int = _DEFAULT_PRECISION


def parse(text: str) -> Iterator[str | Directive]:
    """The parts of a format, from left to right.

    Raises:
        ValueError: the text after a percent sign is not a directive.
    """
    position = 0
    while position < len(text):
        token = _DIRECTIVE.match(text, position)
        if not token:
            raise ValueError(f"not a directive such as %s, %d or %.2f in a format: {text[position : position + 8]!r}")
        position = token.end()
        if token["plain"] is not None:
            yield token["plain"]
        elif token["percent"]:
            yield "%"
        else:
            yield Directive(token["letter"], _precision(token["precision"]))


def _precision(digits: str | None) -> int:
    if digits is None:
        return _DEFAULT_PRECISION
    if len(digits.lstrip("0")) > 19 or int(digits) > _INT_MAX:
        raise ValueError(f"a precision in a format is too large: {digits[:20]}")
    return int(digits)


def _format(budget: CostBudget, text: str, args: list[Any]) -> str:
    budget.spend(len(text) // 10)
    parts: list[str] = []
    size = used = 0
    try:
        for part in parse(text):
            if isinstance(part, Directive):
                if used >= len(args):
                    raise ValueError(missing_argument(len(args)))
                parts.append(_formatted(budget, part, args[used]))
                used += 1
            else:
                parts.append(part)
            size += len(parts[-1])
            budget.grow(size)
    except ValueError as error:
        raise SelectorFault(str(error)) from None
    return "".join(parts)


def missing_argument(count: int) -> str:
    """The error of a format with more directives than ``count`` arguments."""
    return f"not enough arguments for the format: {count}"


def wrong_type(letter: str, name: str) -> str:
    """The error of a directive that does not take values of the type ``name``."""
    return f"%{letter} in a format takes {', '.join(sorted(TAKES[letter]))}; not {name}"


def _formatted(budget: CostBudget, directive: Directive, value: Any) -> str:
    letter, name = directive.letter, type_name(value)
    if name not in TAKES[letter] or (letter in "fe" and name == "string" and value not in _SPECIAL):
        raise ValueError(wrong_type(letter, name))
    match letter:
        case "s":
            return _text(budget, value)
        case "d":
            return str(int(value))
        case "b":
            return format(int(value), "b")
        case "o":
            return format(int(value), "o")
        case "x" | "X":
            return _hex(value, letter)
    number = _SPECIAL[value] if isinstance(value, str) else value or 0.0  # the sign of a zero is not shown
    return _fixed(number, directive.precision) if letter == "f" else _scientific(number, directive.precision)


def _hex(value: Any, letter: str) -> str:
    if isinstance(value, int):
        return format(int(value), letter)
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return raw.hex().upper() if letter == "X" else str(raw.hex())


def _symbol(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"


def _fixed(value: float, precision: int) -> str:
    if not math.isfinite(value):
        return _symbol(value)
    digits = f"{value:,.{min(precision, _EXACT)}f}"
    if precision < 256:
        return digits
    whole, _, fraction = digits.partition(".")  # Go keeps the minimum number of digits in eight bits
    fraction = fraction.rstrip("0").ljust(precision % 256, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _scientific(value: float, width: int) -> str:
    """Scientific notation, always with six digits: cel-go uses the precision as the width."""
    if math.isfinite(value):
        mantissa, _, exponent = f"{value:.6e}".partition("e")
        text = f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"
    else:
        text = _symbol(value)
    return text.rjust(min(width, _WIDEST))


def _text(budget: CostBudget, value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return from_double(value)
        case bytes():
            return _decoded(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join([_inside(budget, item) for item in value])}]"
        case dict():
            return _map(budget, value)
        case int():
            return str(int(value))
    return str(value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8 cannot be formatted as text") from None


def _inside(budget: CostBudget, value: Any) -> str:
    """A value inside a list or map, in the syntax of CEL."""
    budget.spend(1)
    name = type_name(value)
    if name not in TAKES["s"]:
        raise ValueError(wrong_type("s", name))
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(_decoded(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else f'"{from_double(value)}"'
    if name in _TIMES:
        return f'{"timestamp" if name.endswith("Timestamp") else "duration"}("{value}")'
    return _text(budget, value)


def _map(budget: CostBudget, value: Any) -> str:
    pairs = []
    for key, item in zip(keys(value), value.values(), strict=True):
        name = type_name(key)
        if name not in ("string", "bool", "int", "uint"):
            raise ValueError(f"a key of a map cannot be formatted: {name}")
        pairs.append((_inside(budget, key), _inside(budget, item)))
    return "{" + ", ".join([f"{key}:{item}" for key, item in sorted(pairs, key=lambda pair: pair[0])]) + "}"


def quoted(text: str) -> str:
    """``text`` in double quotes, with escapes for characters that cannot be printed."""
    return f'"{"".join([char if char.isprintable() and char not in _MARKS else _code(char) for char in text])}"'


def _code(char: str) -> str:
    code = ord(char)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _quote(budget: CostBudget, text: str) -> str:
    budget.grow(2 * len(text))
    return '"' + text.translate(_ESCAPES) + '"'


FUNCTIONS: Mapping[str, Overloads] = {
    "format": {("string", "list"): _format},
    "strings.quote": {("string",): _quote},
}
