"""Which tests can notice a change: those that run the changed lines, the quick ones first."""

import ast
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from coverage import CoverageData


class Reach:
    """What ``plugin.Recorder`` wrote.

    Args:
        root: of the tree in which the tests ran.
        folder: of the records.
    """

    def __init__(self, root: Path, folder: Path):
        self._root = root
        self._folder = folder

    def tests(self, path: str, lines: range, folders: Sequence[str]) -> list[str]:
        """The tests in ``folders`` that run one of the lines.

        For lines that run when the module is imported these are all tests, and for lines that never run none.
        """
        contexts = self._data.contexts_by_lineno(str(self._root / path))
        names = {name for line in lines for name in contexts.get(line, ())}
        if names == {""}:
            names = set(self._seconds)
        inside = [name for name in names if name.startswith(tuple(folders))]
        return sorted(inside, key=lambda name: (self._seconds[name], name))

    @cached_property
    def _data(self) -> CoverageData:
        data = CoverageData(str(self._folder / "lines"))
        data.read()
        return data

    @cached_property
    def _seconds(self) -> Mapping[str, float]:
        seconds: dict[str, float] = json.loads((self._folder / "seconds").read_text())
        return seconds


def statement_lines(source: str, first: int, last: int) -> range:
    """The lines ``first`` to ``last``, and those of the statement around the first; without its body if it has one."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or 0)
    ]
    if not around:
        return range(first, last + 1)
    inmost = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    body = getattr(inmost, "body", None)
    end = body[0].lineno - 1 if body else inmost.end_lineno or 0
    return range(inmost.lineno, max(last, end) + 1)
