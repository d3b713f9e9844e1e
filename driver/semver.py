"""Semantic versions (semver.org 2.0.0), as resource.k8s.io/v1 and CEL define them. Pure."""

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, Final

_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SYNTAX = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
)
_MAX_NUMBER = (1 << 64) - 1


MAX_DIGITS: Final = 18
"""The most digits of a number in a version that the API server takes since Kubernetes 1.38."""


def is_semver(text: str) -> bool:
    """True if the API server accepts ``text`` as the version of an attribute: three numbers without leading zeros.

    The API server sets no bound on the numbers before Kubernetes 1.38. ``Semver.parse`` and ``numbers_fit`` do.
    """
    return _SYNTAX.fullmatch(text) is not None


def numbers_fit(text: str) -> bool:
    """True if no number of a semantic version has more than ``MAX_DIGITS`` digits. Build metadata has no numbers."""
    numbers, _, prerelease = text.partition("+")[0].partition("-")
    parts = (*numbers.split("."), *prerelease.split("."))
    return not any(part.isdigit() and len(part) > MAX_DIGITS for part in parts)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version. Build metadata does not affect comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()
    rank: tuple[Any, ...] = field(init=False, repr=False)
    """The sort key."""

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """The version written in ``text``.

        Raises:
            ValueError: ``text`` is not a semantic version, or a number in it exceeds 64 bits, which the library of
                Kubernetes (github.com/blang/semver) refuses.
        """
        parts = _SYNTAX.fullmatch(text)
        if parts is None:
            raise ValueError(f"not a semantic version such as 1.2.3: {text!r}")
        pre = tuple(_identifier(part) for part in parts[4].split(".")) if parts[4] else ()
        numbers = int(parts[1]), int(parts[2]), int(parts[3])
        if max(*numbers, *(number for _, number, _ in pre)) > _MAX_NUMBER:
            raise ValueError(f"not a semantic version with numbers of at most 64 bits: {text!r}")
        return cls(*numbers, pre)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", (self.major, self.minor, self.patch, not self.pre, self.pre))

    def __eq__(self, other: object) -> bool:
        return self.rank == other.rank if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: "Semver") -> bool:
        return self.rank < other.rank

    def __hash__(self) -> int:
        return hash(self.rank)


def _identifier(part: str) -> tuple[int, int, str]:
    """The sort key of a pre-release identifier: numbers first, by value; then text."""
    return (0, int(part), "") if part.isdigit() else (1, 0, part)
