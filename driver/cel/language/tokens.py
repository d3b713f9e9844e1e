"""Text of a CEL expression to tokens, with their positions (https://github.com/google/cel-spec, syntax)."""

import re
from dataclasses import dataclass
from typing import Literal

from driver.cel.errors import SelectorError
from driver.cel.values.runtime import UInt

TokenKind = Literal["op", "ident", "escaped", "literal", "end"]

_SPACE = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*)+")
_NUMBER = re.compile(
    r"(?:\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0x[0-9a-fA-F]+[uU]?|\d+[uU]?)", re.A
)
_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)
_ESCAPED = re.compile(r"`([A-Za-z0-9_.\-/ ]+)`", re.A)
_QUOTE = re.compile(r"([bB]?[rR]?)(\"\"\"|'''|\"|')")
_ORDINARY = re.compile(r"[^\\\"'\r\n]+")
"""A part of a string without escapes, line ends or quotes: it stands for itself in every kind of string."""
_OPERATORS = re.compile(r"&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]")
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "?": 63, '"': 34, "'": 39, "`": 96}
_CODE = re.compile(r"x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})")
_KEYWORD_VALUES = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``text`` is the name or operator; ``value`` is the value of a literal."""

    kind: TokenKind
    text: str
    position: int
    value: object = None


def tokenize(source: str) -> list[Token]:
    """The tokens of ``source``; the last one is of kind ``end``.

    Raises:
        SelectorError: a character or literal is not CEL.
    """
    tokens: list[Token] = []
    position = 0
    while True:
        if space := _SPACE.match(source, position):
            position = space.end()
        if position >= len(source):
            return [*tokens, Token("end", "", position)]
        token, position = _next(source, position)
        tokens.append(token)


def _next(source: str, position: int) -> tuple[Token, int]:
    if quote := _QUOTE.match(source, position):
        return _string(source, position, quote)
    if number := _NUMBER.match(source, position):
        return Token("literal", number[0], position, _number(source, position, number[0])), number.end()
    if ident := _IDENT.match(source, position):
        name = ident[0]
        if name in _KEYWORD_VALUES:
            return Token("literal", name, position, _KEYWORD_VALUES[name]), ident.end()
        return Token("op" if name == "in" else "ident", name, position), ident.end()
    if escaped := _ESCAPED.match(source, position):
        return Token("escaped", escaped[1], position), escaped.end()
    if operator := _OPERATORS.match(source, position):
        return Token("op", operator[0], position), operator.end()
    raise SelectorError(source, position, f"unexpected character {source[position]!r}")


def _number(source: str, position: int, text: str) -> object:
    """The value of a number. Integers have no sign yet: the parser adds it, and then checks the range."""
    if text[-1] in "uU":
        value = int(text[:-1], 0 if text[:2] == "0x" else 10)
        if value >= 1 << 64:
            raise SelectorError(source, position, f"does not fit an unsigned 64-bit integer: {text}")
        return UInt(value)
    if text[:2] == "0x":
        return int(text, 16)
    if text.isdigit():
        return int(text) if len(text) < 40 else 1 << 100  # out of range anyway; int() of a long text is slow
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise SelectorError(source, position, f"does not fit a double: {text}")
    return number


def _string(source: str, position: int, quote: re.Match[str]) -> tuple[Token, int]:
    prefix, mark = quote[1].lower(), quote[2]
    raw, binary = "r" in prefix, "b" in prefix
    parts: list[str] = []
    i = quote.end()
    while not source.startswith(mark, i):
        if i >= len(source) or (len(mark) == 1 and source[i] in "\r\n"):
            raise SelectorError(source, position, "this string has no closing quote")
        if run := _ORDINARY.match(source, i):
            parts.append(_plain(run[0], binary))
            i = run.end()
            continue
        if source[i] == "\r":
            parts.append("\n")
            i += 2 if source.startswith("\n", i + 1) else 1
            continue
        if source[i] != "\\" or raw:
            parts.append(_plain(source[i], binary))
            i += 1
            continue
        text, i = _escape(source, i, binary)
        parts.append(text)
    text = "".join(parts)
    value: object = text.encode("latin-1") if binary else text
    return Token("literal", source[position : i + len(mark)], position, value), i + len(mark)


def _plain(text: str, binary: bool) -> str:
    return text.encode("utf-8").decode("latin-1") if binary else text


def _escape(source: str, position: int, binary: bool) -> tuple[str, int]:
    char = source[position + 1 : position + 2]
    if char in _ESCAPES and char:
        return chr(_ESCAPES[char]), position + 2
    code = _CODE.match(source, position + 1)
    if not code:
        raise SelectorError(source, position, f"unknown escape \\{char}")
    digits = next(group for group in code.groups() if group is not None)
    number = int(digits, 8 if code[5] else 16)
    if binary and (code[3] or code[4]):
        raise SelectorError(source, position, "a byte string cannot hold \\u escapes")
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise SelectorError(source, position, f"not a Unicode character: \\{code[0]}")
    return chr(number), code.end()
