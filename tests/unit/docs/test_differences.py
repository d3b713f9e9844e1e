"""docs/differences.md names a test for every difference, and these tests exist."""

import ast
import re

import pytest

from tests.unit.docs.test_operating import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    module = ast.parse((ROOT / file).read_text())
    assert name in {one.name for one in module.body if isinstance(one, ast.FunctionDef)}


def test_every_difference_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| upstream |")]
    assert rows
    assert not [row for row in rows if "::test_" not in row]
