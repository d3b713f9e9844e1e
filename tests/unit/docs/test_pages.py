"""What holds for every page: its lines are short, and what it names exists."""

import re
from collections.abc import Iterator

import pytest

from tests.unit.docs.pages import PAGES, ROOT, page

WIDTH = 120
PATH = re.compile(
    r"`((?:\.ci|benchmarks|cli|controller|docs|driver|kubeletplugin|manifests|memoryapi|simulation|testclusters|tests)"
    r"/[\w./<>*-]*)"
)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside code blocks and tables, with their numbers."""
    code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.startswith("|"):
            yield number, line


@pytest.mark.parametrize("path", PAGES)
def test_lines_of_prose_are_at_most_120_columns_wide(path: str) -> None:
    """Except lines of a single word, such as the name of a test, which cannot be wrapped."""
    wide = [number for number, line in prose(page(path)) if len(line) > WIDTH and len(line.split()) > 1]
    assert not wide, f"{path}: wrap the lines {wide} at {WIDTH} columns"


@pytest.mark.parametrize("path", PAGES)
def test_files_and_folders_that_a_page_names_exist(path: str) -> None:
    names = {name for name in PATH.findall(page(path)) if "<" not in name}
    missing = sorted(name for name in names if not list(ROOT.glob(name.rstrip("/"))))
    assert not missing, f"{path} names files that do not exist: {missing}"


@pytest.mark.parametrize("path", PAGES)
def test_a_relative_link_leads_to_a_file(path: str) -> None:
    folder = (ROOT / path).parent
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page(path)) if "://" not in link]
    broken = [link for link in links if link and not (folder / link).exists()]
    assert not broken, f"{path}: correct the links {broken}, which lead to no file"


@pytest.mark.parametrize("path", PAGES)
def test_a_make_target_that_a_page_names_exists(path: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"```.*?```|`[^`\n]+`", page(path), re.DOTALL)
    named = {target for text in code for target in re.findall(r"\bmake ([a-z0-9-]+)", text)}
    assert named <= targets, f"{path} names targets that do not exist: {sorted(named - targets)}"
