"""One change, made in a copy of the tree, and the tests run on it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["noticed", "survived", "explained", "outdated"]


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
    def lines(self) -> tuple[int, str, str]:
        """The number of the first line that differs, and the lines that differ, before and after."""
        old, new = self.before.splitlines(), self.after.splitlines()
        first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
            last += 1
        return first + 1, _joined(old[first : len(old) - last]), _joined(new[first : len(new) - last])


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines)


class Workshop:
    """A copy of the tree in which one change at a time is tried.

    Args:
        folder: an empty folder for the copy.
        seconds: how long the tests of one change may take; a change that makes them hang is noticed.
        histories: how many seeded histories the tests play.
    """

    def __init__(self, root: Path, folder: Path, seconds: float, histories: int):
        self._root = folder
        self._seconds = seconds
        self._histories = histories
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)

    def failure(self, tests: Sequence[str]) -> str:
        """The last lines of what the tests print if they fail, or take too long, on the tree as it is; else ""."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["--hypothesis-profile=mutants", "--hypothesis-seed=0", *tests]
        environment = {**os.environ, "LODE_HISTORIES": str(self._histories)}
        try:
            done = subprocess.run(
                command, cwd=self._root, env=environment, timeout=self._seconds, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {self._seconds:.0f} s"
        return "" if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-20:]) or done.stderr

    def try_out(self, change: Change) -> Verdict:
        """Make the change, run its tests, and undo it."""
        if change.after == change.before:
            return "outdated"
        with self._changed(change):
            return "noticed" if self.failure(change.tests) else "survived"

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
