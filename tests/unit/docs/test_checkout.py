"""Tests and benchmarks read the checkout, and what the environment names, and no folder beside it."""

import re
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT

_CLIMBS = re.compile(r"__file__\)(?:\.resolve\(\))?((?:\.parent\b)+(?!s)|\.parents\[(\d+)\])")
FOLDERS = ("tests", "benchmarks", "testclusters", "docsite", "charts")


def climbs_out(text: str, file: Path) -> list[str]:
    """The folders outside the checkout that a file names by the place at which it is itself."""
    found = re.findall(r"\bROOT\.parent\b", text)
    for climb, number in _CLIMBS.findall(text):
        folder = file.parents[int(number) if number else climb.count(".parent") - 1]
        if not folder.is_relative_to(ROOT):
            found.append(str(folder))
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_names_a_folder_outside_the_checkout(folder: str) -> None:
    wrong = {file: climbs_out(file.read_text(), file) for file in (ROOT / folder).rglob("*.py")}
    assert {str(file): folders for file, folders in wrong.items() if folders} == {}


def test_a_folder_outside_the_checkout_is_found() -> None:
    file = ROOT / "tests" / "unit" / "test_a.py"
    assert climbs_out("Path(__file__).parents[2]", file) == []
    assert climbs_out("Path(__file__).parents[3]", file) == [str(ROOT.parents[0])]
    assert climbs_out("Path(__file__).parent.parent.parent.parent", file) == [str(ROOT.parents[0])]
