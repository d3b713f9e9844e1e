"""The table of a run: of each kind of fault, how often it came, how long recovery took, what was found. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.chaos.schedule import LEAST_TIMES, Fault, Kind

HEAD: Final = (
    "| fault | times | s until all is as it should be, median | worst | not within the bound | findings |\n"
    "|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Played:
    """A fault that was done, and what came of it."""

    fault: Fault
    began: float
    """Seconds since the start of the run."""
    recovered: float | None
    """Seconds from the end of the fault until everything was as it should be; None if it was not within the bound."""
    findings: Sequence[str] = ()
    failure: str = ""
    """Why the fault could not be done; "" if it was."""


def table(played: Sequence[Played], kinds: Collection[Kind] = tuple(Kind)) -> str:
    """The table in Markdown, with a row for each of these kinds, also for those that did not come."""
    return "\n".join([HEAD, *(_row(kind, [it for it in played if it.fault.kind == kind]) for kind in kinds)])


def _row(kind: Kind, played: Sequence[Played]) -> str:
    done = [it for it in played if not it.failure]
    times = [it.recovered for it in done if it.recovered is not None]
    middle, worst = (f"{median(times):.0f}", f"{max(times):.0f}") if times else ("", "")
    late = len(done) - len(times)
    findings = len([one for it in played for one in it.findings])
    return f"| {kind} | {len(done)} | {middle} | {worst} | {late} | {findings} |"


def lacking(played: Sequence[Played], kinds: Collection[Kind] = tuple(Kind)) -> Iterator[str]:
    """Those of these kinds that were done too rarely for a run to count, each with the reasons."""
    for kind in kinds:
        times = sum(it.fault.kind == kind and not it.failure for it in played)
        if times < LEAST_TIMES:
            reasons = sorted({it.failure for it in played if it.fault.kind == kind and it.failure})
            yield f"{kind}: {times} times of {LEAST_TIMES}" + "".join(f"; {reason}" for reason in reasons)


def findings(played: Sequence[Played]) -> Iterator[str]:
    """What was found, each line with the time and the fault."""
    for it in played:
        for one in it.findings:
            yield f"- at {it.began:.0f} s, after {it.fault}: {one}"
