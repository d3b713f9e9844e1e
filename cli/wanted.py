"""Which names of objects a word on the command line may be. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "NODE": ("", "nodes"),
    "NODE/CARD": ("", "cards"),
    "NODE[/CARD]": ("", "cards"),
    "CLAIM": ("", "claims"),
    "NAMESPACE": ("", "namespaces"),
    "pod/NAME": ("pod/", "pods"),
    "claim/NAME": ("claim/", "claims"),
    "card/NODE/CARD": ("card/", "cards"),
    "namespace/NAME": ("namespace/", "namespaces"),
}
"""As the help of commands writes what may stand somewhere: what it begins with, and the kind of objects."""


@dataclass(frozen=True, slots=True)
class WantedNames:
    """What is to be completed.

    Attributes:
        forms: those of ``FORMS`` that may stand there.
        current: the word so far.
        words: the words before it, of which the options count that say where to look.
    """

    forms: Sequence[str]
    current: str
    words: Sequence[str] = ()

    def option(self, *names: str) -> str:
        """Return the value of an option among the words; "" if it is not there."""
        found = ""
        for place, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                found = value if equals else next(iter(self.words[place + 1 :]), "")
        return found
