"""What a rule finds in an object, and the findings on all objects. Pure.

However many objects there are and whatever is written in them, what is kept has a bound.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from cli.doctor.findings import Finding, ok
from driver.limits import bounded

MOST_NAMED: Final = 20
"""Objects that are named for one reason; the others are counted."""
_MOST_TEXT: Final = 120
"""Characters of a value that somebody else has written."""

Severity = Literal["warning", "failed"]
"""``failed``: the newer Kubernetes refuses it or does not get over it. ``warning``: it reads it otherwise."""


@dataclass(frozen=True, slots=True)
class Concern:
    """A value that the newer Kubernetes refuses, or reads otherwise."""

    status: Severity
    field: str
    value: str
    reason: str
    """What becomes of it. Equal reasons are counted together."""
    remedy: str


@dataclass(slots=True)
class _Reason:
    named: list[Finding] = field(default_factory=list)
    more: int = 0


class Concerns:
    """Gathers what the rules find, object by object."""

    def __init__(self) -> None:
        self._checked: dict[str, int] = {}
        self._found: dict[str, dict[tuple[Severity, str], _Reason]] = {}

    def add(self, check: str, subject: str, concerns: Iterable[Concern]) -> None:
        """Take what was found in one object. For each reason, its first field is named and the others are counted."""
        self._checked[check] = self._checked.get(check, 0) + 1
        own: dict[tuple[Severity, str], tuple[Concern, int]] = {}
        for concern in concerns:
            key = concern.status, concern.reason
            first, more = own.get(key, (concern, -1))
            own[key] = first, more + 1
        for key, (first, more) in own.items():
            reason = self._found.setdefault(check, {}).setdefault(key, _Reason())
            if len(reason.named) < MOST_NAMED:
                reason.named.append(_finding(check, subject, first, more))
            else:
                reason.more += 1

    def findings(self, checks: Iterable[str]) -> Iterator[Finding]:
        """All findings on these checks, in their order."""
        for check in checks:
            reasons = self._found.get(check, {})
            for (severity, why), reason in reasons.items():
                yield from reason.named
                if reason.more:
                    yield Finding(severity, check, f"{reason.more} more objects", why, reason.named[0].remedy)
            if not reasons:
                yield ok(check, f"{self._checked.get(check, 0)} objects", "nothing of them changes")


def _finding(check: str, subject: str, concern: Concern, more: int) -> Finding:
    others = f" (and {more} more fields)" if more else ""
    what = f"{bounded(concern.field, _MOST_TEXT)}: {bounded(concern.value, _MOST_TEXT)}{others}: {concern.reason}"
    return Finding(concern.status, check, bounded(subject, 2 * _MOST_TEXT), what, concern.remedy)
