"""docs/differences.md names a test for every difference, and these tests exist."""

import ast
import re

import pytest

from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/differences.md")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
DIFFERENCES = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    module = ast.parse((ROOT / file).read_text())
    assert name in {function.name for function in module.body if isinstance(function, ast.FunctionDef)}


def test_every_difference_names_a_test() -> None:
    differences = [part for part in DIFFERENCES if "- Upstream:" in part or "- Lode:" in part]
    assert differences
    assert len(differences) == len(re.findall(r"^### ", PAGE, re.MULTILINE))
    parts = ("- Upstream: ", "- Lode: ", "- Tests:")
    assert not [entry for entry in differences if [entry.count(part) for part in parts] != [1, 1, 1]]
    assert not [entry for entry in differences if not re.search(r"- Tests:\s+`tests/[\w/]+\.py::test_", entry)]
