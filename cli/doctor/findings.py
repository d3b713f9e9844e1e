"""Findings of checks, and their output. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from cli.tables import table

Status = Literal["ok", "warning", "failed", "unknown"]
"""``warning``: works now, but is likely not meant. ``unknown``: the check could not be made."""
SHOWN: Final = 5
"""Most names in one finding."""
_HEADER: Final = ("STATUS", "CHECK", "SUBJECT", "FOUND")


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of one thing. Whatever is not ok has a remedy."""

    status: Status
    check: str
    subject: str
    message: str
    remedy: str = ""


def ok(check: str, subject: str, message: str) -> Finding:
    """A check without a problem."""
    return Finding("ok", check, subject, message)


def some(names: Sequence[str], separator: str = ", ") -> str:
    """The first names of many, and how many more there are."""
    rest = len(names) - SHOWN
    return separator.join(names[:SHOWN]) + (f"{separator}and {rest} more" if rest > 0 else "")


def passed(findings: Iterable[Finding]) -> bool:
    """Whether every check was made, and none failed."""
    return all(finding.status in ("ok", "warning") for finding in findings)


def text(findings: Sequence[Finding]) -> str:
    """A table of the findings, and below it the remedies."""
    lines = [table(_HEADER, [(f.status, f.check, f.subject, f.message) for f in findings])]
    lines += [f"{f.check}, {f.subject}: {f.remedy}" for f in findings if f.remedy]
    return "\n".join(lines)


def to_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings."""
    return {"passed": passed(findings), "findings": [asdict(finding) for finding in findings]}
