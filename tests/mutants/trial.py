"""One change, made in a copy of the tree, and the tests run on it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.mutants.reach import Reach, statement_lines

Verdict = Literal["noticed", "survived", "explained", "outdated"]
_FEW: Final = 10
_LONGEST_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file."""

    name: str
    path: str
    """Relative to the root of the repository."""
    before: str
    after: str
    """The whole text of the file; equal to ``before`` if the change does not fit the file any more."""
    tests: tuple[str, ...]

    @property
    def line(self) -> int:
        """The number of the first line that differs."""
        return self._difference[0] + 1

    @property
    def lines(self) -> tuple[str, str]:
        """The lines that differ, before and after."""
        _, before, after = self._difference
        return _joined(before), _joined(after)

    @property
    def statement(self) -> range:
        """The numbers of the lines that differ, and of the rest of their statement."""
        first, before, _ = self._difference
        return statement_lines(self.before, first + 1, first + len(before))

    @property
    def _difference(self) -> tuple[int, Sequence[str], Sequence[str]]:
        old, new = self.before.splitlines(), self.after.splitlines()
        first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
            last += 1
        return first, old[first : len(old) - last], new[first : len(new) - last]


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines)


class FailingTests(Exception):
    """The tests fail without any change."""


class Workshop:
    """A copy of the tree in which one change at a time is tried.

    Args:
        folder: an empty folder for the copy.
        seconds: how much time of the processor one test may take; a change that makes it run on and on is noticed.
        histories: how many seeded histories the tests play.
    """

    def __init__(self, root: Path, folder: Path, seconds: float, histories: int):
        self._root = folder / "tree"
        self._order = folder / "order"
        self._running = folder / "running"
        self._seconds = seconds
        self._histories = histories
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():
                (self._root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self._root / name)

    def reach(self, tests: Sequence[str], folder: Path) -> Reach:
        """Run the tests on the tree as it is, and note in the folder which lines each runs.

        Raises:
            FailingTests: one of them fails; nothing can be said about changes.
        """
        if failure := self._failure(f"--reach-folder={folder}", *tests):
            raise FailingTests(f"the tests fail without any change:\n{failure}")
        return Reach(self._root, folder)

    def try_out(self, change: Change, reach: Reach) -> Verdict:
        """Make the change, run the tests that reach it until one fails, and undo it."""
        if change.after == change.before:
            return "outdated"
        tests = reach.tests(change.path, change.statement, change.tests)
        with self._changed(change):
            # Most changes are noticed by one of the first tests, and pytest reads the files of all that it is given.
            noticed = any(self._fails(some) for some in (tests[:_FEW], tests[_FEW:]) if some)
        return "noticed" if noticed else "survived"

    def expect_success(self, tests: Sequence[str]) -> None:
        """Run the tests on the tree as it is.

        Raises:
            FailingTests: one of them fails.
        """
        if tests and self._fails(tests):
            raise FailingTests(f"this test fails without any change: {self._running.read_text()}")

    def first_failing(self, change: Change, tests: Sequence[str]) -> str:
        """The first of the tests that fails with the change, in this order; "" if none does."""
        if change.after == change.before or not tests:
            return ""
        # An import may fail before any test runs.
        self._running.write_text(tests[0])
        with self._changed(change):
            return self._running.read_text() if self._fails(tests) else ""

    def _fails(self, tests: Sequence[str]) -> bool:
        self._order.write_text(json.dumps(tests))
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        # On a busy machine, the time that passes says nothing about a test; it only ends one that waits for ever.
        options = (f"--cpu-seconds={self._seconds}", f"--timeout={_LONGEST_SECONDS}", f"--running-file={self._running}")
        return bool(self._failure(*options, f"--order-file={self._order}", *files))

    def _failure(self, *arguments: str) -> str:
        """What pytest printed last if a test failed or the process was killed, else ""."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.plugin", "--hypothesis-profile=mutants", "--hypothesis-seed=0", *arguments]
        histories = str(self._histories)
        kinds = ("LODE_HISTORIES", "LODE_PREEMPTION_HISTORIES", "LODE_NAMING_HISTORIES")
        environment = {**os.environ, **dict.fromkeys(kinds, histories)}
        done = subprocess.run(command, cwd=self._root, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        return "\n".join(done.stdout.splitlines()[-20:]) or done.stderr or f"pytest ended with {done.returncode}"

    @contextmanager
    def _changed(self, change: Change) -> Iterator[None]:
        path = self._root / change.path
        self._write(path, change.after)
        try:
            yield
        finally:
            self._write(path, change.before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python takes compiled code for current if size and time in seconds of its source are equal.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
