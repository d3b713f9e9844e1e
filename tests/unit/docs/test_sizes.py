"""The house's limits on what a reader has to take in at once."""

import ast
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT
from tests.unit.docs.source_files import FOLDERS, tree, written_files

LINES = 600
"""Of a file, besides its imports."""
NAME = 90
"""Characters of a test's name."""


def lines_besides_imports(path: Path) -> int:
    imports = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
    of_imports = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
    return len(path.read_text().splitlines()) - of_imports


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_has_at_most_600_lines_besides_its_imports(folder: str) -> None:
    sizes = {str(path.relative_to(ROOT)): lines_besides_imports(path) for path in written_files(folder)}
    assert sizes
    long = {path: lines for path, lines in sizes.items() if lines > LINES}
    assert not long, f"split these files by topic: {long}"


def test_names_of_tests_can_be_read_at_a_glance() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in written_files("tests")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > NAME
    ]
    assert not long, f"shorten the names to {NAME} characters"
