"""Names of templates that stand for a whole request, such as ``lode-adopt.hami.n2-m3000-c30.t-a100``. Pure.

Grammar::

    name    = "lode-adopt." source "." amounts { "." word }
    amounts = amount { "-" amount }           in the order of the source's table
    amount  = token number                    a token is of letters and digits and ends in a letter
    word    = key [ "-" text ]                the value of an annotation or label; without a text it is empty
    key     = letter [ letter ] [ chip ]      a chip begins with a digit
    text    = { letter | digit | "-" escape } lower case

The source ``plain`` has ``"n" number "-" text`` for each resource instead of the amounts; the text is the device class.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from driver.errors import Fault, InvalidInput
from driver.names import DEFAULT_DRIVER

ADOPTED: Final = "lode-adopt."
"""With what the names of templates begin that stand for requests of other systems."""
WORDS: Final = "lode."
"""With what the names of templates begin that people write."""
NAMESPACE_LABEL: Final = f"{DEFAULT_DRIVER}/adopt-"
"""With what the labels of namespaces begin whose pods are adopted; the source follows."""
LONGEST_NAME: Final = 253
"""Characters of a name (RFC 1123 subdomain)."""
PLAIN: Final = "plain"

ESCAPES: Final[Mapping[str, str]] = {
    "-": "d",
    " ": "s",
    ",": "c",
    "_": "u",
    ".": "p",
    "/": "f",
    ":": "o",
    "+": "a",
}
"""The letter after a hyphen for each character that a label of a name cannot have. The hyphen is the first."""
_UNESCAPED: Final = {f"-{letter}": character for character, letter in ESCAPES.items()}

_V = TypeVar("_V")

_AMOUNT = re.compile(r"([a-z](?:[a-z0-9]*[a-z])?)([0-9]{1,10})")
_WORD = re.compile(r"([a-z]{1,2}(?:[0-9][a-z0-9]*)?)(?:-(.+))?")
_PLAIN = re.compile(r"n([0-9]{1,10})-(.+)")
_ESCAPED = re.compile(r"-.|[a-z0-9]")


@dataclass(frozen=True, slots=True)
class AdoptedName:
    """A request of another system, as the name of a template says it.

    Attributes:
        amounts: by the token of the resource; for ``plain``, by the device class.
        words: the values of annotations and labels by their key in the source's table, in lower case.
    """

    source: str
    amounts: Mapping[str, int]
    words: Mapping[str, str]

    def __str__(self) -> str:
        """The name."""
        if self.source == PLAIN:
            amounts = ".".join(f"n{amount}-{escaped(name)}" for name, amount in self.amounts.items())
        else:
            amounts = "-".join(f"{token}{amount}" for token, amount in self.amounts.items())
        words = [f"{key}-{escaped(text)}" if text else key for key, text in self.words.items()]
        return ADOPTED + ".".join([self.source, amounts, *words])


def is_on_demand(name: str) -> bool:
    """Return whether a template of this name is made by the controller, for pods that name it."""
    return name.startswith((ADOPTED, WORDS))


def escaped(text: str) -> str:
    """Return a text as a label of a name, in lower case.

    >>> escaped("Tesla V100-SXM2")
    'tesla-sv100-dsxm2'
    """
    text = text.lower()
    for character, letter in ESCAPES.items():
        text = text.replace(character, f"-{letter}")
    return text


def can_be_named(text: str) -> bool:
    """Return whether a text has only characters that a name can have, escaped."""
    return re.fullmatch(r"[A-Za-z0-9 ,_./:+-]*", text) is not None


def unescaped(text: str) -> str:
    """Return the text of a label of a name.

    Raises:
        ValueError: the label is not an escaped text.
    """
    parts = _ESCAPED.findall(text)
    if "".join(parts) != text or any(len(part) > 1 and part not in _UNESCAPED for part in parts):
        raise ValueError(text)
    return "".join(_UNESCAPED.get(part, part) for part in parts)


def read_name(name: str) -> AdoptedName:
    """Return the request that a name stands for.

    Raises:
        InvalidInput: the name does not follow the grammar. Only the policies that adopt pods make such names.
    """
    source, _, rest = name.removeprefix(ADOPTED).partition(".")
    labels = rest.split(".")
    try:
        if not name.startswith(ADOPTED):
            raise ValueError(name)
        if source == PLAIN:
            return AdoptedName(source, _unique(map(_plain, labels)), {})
        amounts = _unique(map(_amount, labels[0].split("-")))
        return AdoptedName(source, amounts, _unique(map(_word, labels[1:])))
    except ValueError as problem:
        remedy = f"{str(problem)[:64]!r} is not understood; remove the label, or write a ResourceClaimTemplate"
        raise InvalidInput(f"ResourceClaimTemplate {name[:LONGEST_NAME]}", [Fault("metadata.name", remedy)]) from None


def _unique(pairs: Iterable[tuple[str, _V]]) -> dict[str, _V]:
    found: dict[str, _V] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} twice")
        found[key] = value
    return found


def _amount(label: str) -> tuple[str, int]:
    if not (match := _AMOUNT.fullmatch(label)):
        raise ValueError(label)
    return match[1], int(match[2])


def _plain(label: str) -> tuple[str, int]:
    if not (match := _PLAIN.fullmatch(label)):
        raise ValueError(label)
    return unescaped(match[2]), int(match[1])


def _word(label: str) -> tuple[str, str]:
    if not (match := _WORD.fullmatch(label)):
        raise ValueError(label)
    return match[1], unescaped(match[2] or "")
