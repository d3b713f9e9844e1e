"""``make mutants``: makes small changes one after another, and lists those that no test notices.

Exit status 0 if every change is noticed or explained, 1 if one is not, 2 if the tests fail without any change.
"""

import argparse
import os
import queue
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.mutants.operators import edits
from tests.mutants.suites import suite_of
from tests.mutants.trial import Change, Verdict, Workshop

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PACKAGES = (
    "controller",
    "kubeletplugin/prepare",
    "kubeletplugin/publish",
    "driver/files.py",
    "driver/kube",
    "driver/wire",
)
"""What decides and writes."""
LEFT_OUT = ("controller/selectors", "controller/__main__.py")
"""The selectors are held to recorded answers of Kubernetes; the main module is run by tests of whole programs."""


def written_changes(root: Path = ROOT) -> Iterator[Change]:
    """The changes written by hand. One that does not fit its file exactly once is left as it is: outdated."""
    for entry in _data("written.yaml"):
        path, old, new = entry["file"], entry["old"].rstrip("\n"), entry["new"].rstrip("\n")
        file = root / path
        source = file.read_text() if file.exists() else ""
        changed = source.replace(old, new) if source.count(old) == 1 else source
        tests = tuple(entry.get("tests") or (suite_of(path) if file.exists() else ()))
        yield Change(entry["name"], path, source, changed, tests)


def derived_changes(seed: int, count: int, root: Path = ROOT) -> list[Change]:
    """``count`` changes drawn by seed from all that the operators make."""
    found = []
    for path in _sources(root):
        source = (root / path).read_text()
        found += [(path, source, edit) for edit in edits(source)]
    drawn = random.Random(seed).sample(found, min(count, len(found)))
    drawn.sort(key=lambda item: (item[0], item[2].start))
    return [Change(edit.operator, path, source, edit.apply(source), suite_of(path)) for path, source, edit in drawn]


def _sources(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        files = [root / package] if package.endswith(".py") else sorted((root / package).rglob("*.py"))
        names = [file.relative_to(root).as_posix() for file in files]
        yield from (name for name in names if not name.startswith(LEFT_OUT))


def _data(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((HERE / name).read_text()) or []


def _try_all(changes: Sequence[Change], options: argparse.Namespace) -> list[tuple[Change, Verdict]]:
    explained = {(entry["file"], entry["before"], entry["after"]) for entry in _data("survivors.yaml")}
    with tempfile.TemporaryDirectory(prefix="lode-mutants-") as folder, ThreadPoolExecutor(options.workers) as pool:
        workshops: queue.SimpleQueue[Workshop] = queue.SimpleQueue()
        for number in range(options.workers):
            copy = Path(folder, str(number))
            workshops.put(Workshop(ROOT, copy, options.seconds, options.histories))

        def try_out(change: Change) -> tuple[Change, Verdict]:
            workshop = workshops.get()
            try:
                verdict = workshop.try_out(change)
            finally:
                workshops.put(workshop)
            line, before, after = change.lines if verdict != "outdated" else (0, "", "")
            if verdict == "survived" and (change.path, before, after) in explained:
                verdict = "explained"
            print(f"{verdict:<10} {change.path}:{line}  {change.name}", flush=True)
            if verdict == "survived":
                print(f"             - {before}\n             + {after}", flush=True)
            return change, verdict

        first = workshops.get()
        if failure := first.failure(sorted({test for change in changes for test in change.tests})):
            print(f"{failure}\nthe tests fail without any change", file=sys.stderr)
            sys.exit(2)
        workshops.put(first)
        return list(pool.map(try_out, changes))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of derived changes")
    parser.add_argument("--count", type=int, default=60, help="derived changes")
    parser.add_argument("--written", action="store_true", help="only the changes written by hand")
    parser.add_argument("--only", default="", help="only changes whose path or name contains this text")
    parser.add_argument("--tests", nargs="*", help="run these tests for every change, for example the histories alone")
    parser.add_argument("--histories", type=int, default=30, help="seeded histories to play")
    parser.add_argument("--seconds", type=float, default=900, help="most time for the tests of one change")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    changes = [*written_changes(), *([] if options.written else derived_changes(options.seed, options.count))]
    changes = [change for change in changes if options.only in f"{change.path} {change.name}"]
    if options.tests:
        changes = [Change(c.name, c.path, c.before, c.after, tuple(options.tests)) for c in changes]
    results = _try_all(changes, options)
    totals = Counter(verdict for _, verdict in results)
    print(", ".join(f"{totals[verdict]} {verdict}" for verdict in ("noticed", "explained", "survived", "outdated")))
    return 1 if totals["survived"] or totals["outdated"] else 0


if __name__ == "__main__":
    sys.exit(main())
