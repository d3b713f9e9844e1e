"""What the tests of a suite came to, from the reports of their runners, and what differs between two runs. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


class NotPlayed(Exception):
    """A suite cannot be played; the message says why, and what to do."""


@dataclass(frozen=True)
class Outcome:
    """What one test came to."""

    state: str
    """`PASSED`, `FAILED` or `SKIPPED`."""
    reason: str = ""
    """The first line of what the test says about it; "" if it passed."""


Outcomes = Mapping[str, Outcome]
"""By the full names of the tests. Those that were not chosen are not in it."""


def of_ginkgo(report: Sequence[Mapping[str, Any]]) -> Outcomes:
    """What a report of ginkgo (``--json-report``) says."""
    return dict(_specs(report))


def _specs(report: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Outcome]]:
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            said = (spec.get("Failure") or {}).get("Message", "").strip()
            if spec["LeafNodeType"] != "It":
                if spec["State"] != PASSED:  # what is done before all tests
                    yield spec["LeafNodeType"], Outcome(FAILED, _first_line(said))
            elif spec["State"] == PASSED:
                yield _name(spec), Outcome(PASSED)
            elif spec["State"] not in (SKIPPED, "pending"):
                yield _name(spec), Outcome(FAILED, _first_line(said))
            elif said:  # without a word it was not chosen
                yield _name(spec), Outcome(SKIPPED, _first_line(said))


def _name(spec: Mapping[str, Any]) -> str:
    return " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec["LeafNodeText"]])


def _first_line(text: str) -> str:
    """The first line that says something."""
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and line != "FATAL ERROR:"), "")


def of_go_test(lines: Iterable[str]) -> Outcomes:
    """What ``go test -json`` prints; a test that has parts is left out, unless it fails by itself."""
    ended: dict[str, str] = {}
    printed: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test", "")
        if event["Action"] == "output" and name:
            printed.setdefault(name, []).append(event["Output"].strip())
        elif event["Action"] in ("pass", "fail", "skip") and name:
            ended[name] = event["Action"]
    failed_parts = {name.rpartition("/")[0] for name, action in ended.items() if "/" in name and action == "fail"}
    parents = {name.rpartition("/")[0] for name in ended if "/" in name}
    return {
        name: Outcome(
            {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}[action], _complaint(printed.get(name, ()), action)
        )
        for name, action in ended.items()
        if name not in parents or (action == "fail" and name not in failed_parts)
    }


def _complaint(printed: Sequence[str], action: str) -> str:
    """The last line that the test itself printed; "" if it passed."""
    own = [line for line in printed if line and not line.startswith(("===", "---"))]
    return own[-1] if own and action != "pass" else ""


@dataclass(frozen=True)
class Comparison:
    """A suite without Lode, and with it."""

    suite: str
    without_lode: Outcomes
    with_lode: Outcomes

    @property
    def differing(self) -> Sequence[str]:
        """The tests that do not come to the same, sorted; the reason does not count."""
        return sorted(
            name
            for name in self.without_lode.keys() | self.with_lode.keys()
            if _state(self.without_lode, name) != _state(self.with_lode, name)
        )

    @property
    def failing(self) -> Sequence[str]:
        """The tests that fail both times, sorted."""
        return sorted(
            name
            for name in self.with_lode
            if {_state(self.without_lode, name), _state(self.with_lode, name)} == {FAILED}
        )

    def row(self) -> str:
        """A row of the table for all suites."""
        counts = [
            str(_count(run, state))
            for run in (self.without_lode, self.with_lode)
            for state in (PASSED, FAILED, SKIPPED)
        ]
        return f"| {self.suite} | {' | '.join(counts)} | {len(self.differing)} |"


HEAD: Final = (
    "| suite | passed without Lode | failed | skipped by themselves | passed with Lode | failed | skipped "
    "by themselves | differ |\n|---|---|---|---|---|---|---|---|"
)
"""The head of the table whose rows are `Comparison.row`."""


def details(comparison: Comparison) -> str:
    """What differs, and what fails both times, each with its reason; "" if nothing does."""
    differing = [
        f"| {name} | {_said(comparison.without_lode, name)} | {_said(comparison.with_lode, name)} |"
        for name in comparison.differing
    ]
    failing = [f"| {name} | {_cell(comparison.with_lode[name].reason)} |" for name in comparison.failing]
    parts = []
    if differing:
        parts.append("\n".join(["| test | without Lode | with Lode |", "|---|---|---|", *differing]))
    if failing:
        parts.append("\n".join(["| fails both times | with |", "|---|---|", *failing]))
    return "\n\n".join(parts)


def row_of(name: str, outcome: Outcome) -> str:
    """A row of a table with one run."""
    reason = f": {_cell(outcome.reason)}" if outcome.reason else ""
    return f"| {name} | {outcome.state}{reason} |"


def _state(run: Outcomes, name: str) -> str:
    return run[name].state if name in run else "not run"


def _said(run: Outcomes, name: str) -> str:
    reason = _cell(run[name].reason) if name in run else ""
    return f"{_state(run, name)}: {reason}" if reason else _state(run, name)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _count(run: Outcomes, state: str) -> int:
    return sum(outcome.state == state for outcome in run.values())
