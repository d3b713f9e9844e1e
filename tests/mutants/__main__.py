"""``make mutants``: makes small changes one after another, and lists those that no test notices.

Exit status 0 if every change is noticed or explained, 1 if one is not, 2 if the tests fail without any change.
"""

import argparse
import hashlib
import os
import queue
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.mutants import alone
from tests.mutants.alone import HISTORIES, History
from tests.mutants.operators import edits
from tests.mutants.suites import suite_of
from tests.mutants.trial import Change, FailingTests, Verdict, Workshop

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PACKAGES = (
    "controller",
    "kubeletplugin/prepare",
    "kubeletplugin/publish",
    "driver/disk.py",
    "driver/files.py",
    "driver/kube",
    "driver/wire",
)
"""What decides and writes."""
UNNOTICED, UNDONE = "written.yaml", "undone.yaml"
WRITTEN = (UNNOTICED, UNDONE)
"""The lists of changes written by hand."""
LEFT_OUT = ("controller/__main__.py",)
"""The main module is run by tests of whole programs."""


def written_changes(name: str, root: Path = ROOT) -> Iterator[Change]:
    """The changes of one of ``WRITTEN``. One that does not fit its file exactly once is left as it is: outdated."""
    for entry in _data(name):
        path, old, new = entry["file"], entry["old"].rstrip("\n"), entry["new"].rstrip("\n")
        file = root / path
        source = file.read_text() if file.exists() else ""
        changed = source.replace(old, new) if source.count(old) == 1 else source
        tests = tuple(entry.get("tests") or (suite_of(path) if file.exists() else ()))
        yield Change(entry["name"], path, source, changed, tests)


def recorded_histories() -> dict[str, History]:
    """By the name of a change written by hand, the history that notices it by itself."""
    entries = _data(UNNOTICED)
    return {one["name"]: History(one[kind], kind) for one in entries for kind in HISTORIES if kind in one}


def derived_changes(seed: int, count: int, only: str = "", root: Path = ROOT) -> list[Change]:
    """``count`` changes drawn by seed from all that the operators make, whose path or name contains ``only``.

    The draw depends on each change alone, so it stays the same where the source stays the same.
    """
    found = []
    for path in _sources(root):
        source = (root / path).read_text()
        for edit in edits(source):
            if only not in f"{path} {edit.operator}":
                continue
            lot = f"{seed} {path} {edit.operator} {edit.around(source)} {edit.replacement}"
            found.append((hashlib.sha256(lot.encode()).digest(), path, source, edit))
    drawn = sorted(found, key=lambda item: item[0])[:count]
    drawn.sort(key=lambda item: (item[1], item[3].start))
    return [Change(edit.operator, path, source, edit.apply(source), suite_of(path)) for _, path, source, edit in drawn]


def _sources(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        files = [root / package] if package.endswith(".py") else sorted((root / package).rglob("*.py"))
        names = [file.relative_to(root).as_posix() for file in files]
        yield from (name for name in names if not name.startswith(LEFT_OUT))


def _data(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((HERE / name).read_text()) or []


def _try_all(changes: Sequence[Change], options: argparse.Namespace) -> Iterator[Verdict]:
    explained = {(entry["file"], entry["before"], entry["after"]) for entry in _data("survivors.yaml")}
    with tempfile.TemporaryDirectory(prefix="lode-mutants-") as folder, ThreadPoolExecutor(options.workers) as pool:
        workshops: queue.SimpleQueue[Workshop] = queue.SimpleQueue()
        for number in range(options.workers):
            workshops.put(Workshop(ROOT, Path(folder, str(number)), options.seconds, options.histories))

        def try_out(change: Change) -> Verdict:
            workshop = workshops.get()
            try:
                verdict = workshop.try_out(change, reach)
            finally:
                workshops.put(workshop)
            return "explained" if verdict == "survived" and (change.path, *change.lines) in explained else verdict

        first = workshops.get()
        tests = sorted({test for change in changes for test in change.tests})
        reach = first.reach(tests, Path(folder))
        workshops.put(first)
        for change, verdict in zip(changes, pool.map(try_out, changes), strict=True):
            _tell(change, verdict)
            yield verdict


def _tell(change: Change, verdict: Verdict) -> None:
    print(f"{verdict:<10} {change.path}:{change.line}  {change.name}", flush=True)
    if verdict == "survived":
        before, after = change.lines
        print(f"             - {before}\n             + {after}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of derived changes")
    parser.add_argument("--count", type=int, default=100, help="derived changes")
    parser.add_argument("--written", action="store_true", help="only the changes written by hand")
    parser.add_argument("--only", default="", help="only changes whose path or name contains this text")
    parser.add_argument("--alone", action="store_true", help="which written changes do seeded histories notice alone?")
    parser.add_argument("--search", type=int, default=0, help="with --alone: how many histories to look for one in")
    parser.add_argument("--tests", nargs="*", help="run these tests for every change")
    parser.add_argument("--histories", type=int, default=30, help="seeded histories to play")
    parser.add_argument("--seconds", type=float, default=120, help="most time of the processor for one test")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    lists = (UNNOTICED,) if options.alone else WRITTEN
    changes = [change for name in lists for change in written_changes(name)]
    changes = [change for change in changes if options.only in f"{change.path} {change.name}"]
    if not options.written and not options.alone:
        changes += derived_changes(options.seed, options.count, options.only)
    if options.tests:
        changes = [Change(c.name, c.path, c.before, c.after, tuple(options.tests)) for c in changes]
    try:
        if options.alone:
            alone.tell(changes, recorded_histories(), ROOT, options.search, options.seconds)
            return 0
        totals = Counter(_try_all(changes, options))
    except FailingTests as failure:
        print(failure, file=sys.stderr)
        return 2
    print(", ".join(f"{totals[verdict]} {verdict}" for verdict in ("noticed", "explained", "survived", "outdated")))
    return 1 if totals["survived"] or totals["outdated"] else 0


if __name__ == "__main__":
    sys.exit(main())
