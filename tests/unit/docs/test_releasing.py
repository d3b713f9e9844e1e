"""The version is the same wherever the project names it, and each page of documentation is listed."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.docs.pages import PAGES, ROOT, page

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

NAMED = {
    "README.md": r"lode:(\d+\.\d+\.\d+)|newTag: (\d+\.\d+\.\d+)|image\.tag=(\d+\.\d+\.\d+)",
    "docs/operating.md": r"lode-(\d+\.\d+\.\d+)\.tgz",
    "Dockerfile": r'lode:(\d+\.\d+\.\d+)|image\.version="(\d+\.\d+\.\d+)"',
    "charts/lode/Chart.yaml": r"(?m)^(?:appV|v)ersion: (.+)$",
    "manifests/base/kustomization.yaml": r"app\.kubernetes\.io/version: (.+)",
    "manifests/controller/kustomization.yaml": r"app\.kubernetes\.io/version: (.+)",
    "uv.lock": r'name = "lode-dra"\nversion = "(.+)"',
}
"""Where the version is, besides pyproject.toml."""


@pytest.mark.parametrize("file", NAMED)
def test_a_file_names_the_version_of_pyproject(file: str) -> None:
    named = ["".join(it.groups(default="")) for it in re.finditer(NAMED[file], (ROOT / file).read_text())]
    assert named
    assert set(named) == {VERSION}


def test_the_script_that_sets_the_version_changes_every_file_that_names_it() -> None:
    script = (ROOT / ".ci/set-version").read_text()
    assert [file for file in NAMED if file not in script] == []


def test_the_changelog_has_what_changed_since_the_version_and_a_section_for_it() -> None:
    headings = re.findall(r"(?m)^## (.+)$", page("CHANGELOG.md"))
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} - \d{{4}}-\d\d-\d\d", headings[1])


def test_an_entry_of_the_changelog_is_one_line() -> None:
    lines = page("CHANGELOG.md").splitlines()
    longer = [line for line in lines if line.startswith("  ") or (line.startswith("- ") and len(line) > 120)]
    assert not longer, f"CHANGELOG.md: shorten {longer} to one line of 120 columns; the rest is for pages and commits"


def test_the_indexes_list_every_page_of_the_documentation() -> None:
    listed = {
        str(Path(index).parent / link)
        for index in ("docs/README.md", "docs/decisions/README.md")
        for link in re.findall(r"^- \[[^\]]*\]\(([^)#]+)\)", page(index), re.MULTILINE)
    }
    missing = {name for name in PAGES if name.startswith("docs/") and name != "docs/README.md"} - listed
    assert not missing, f"begin an item of docs/README.md or docs/decisions/README.md with a link to {sorted(missing)}"
