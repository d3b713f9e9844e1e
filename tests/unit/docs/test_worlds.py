"""tests/README.md has the worlds that tests are written for: each of them exists, and none is missing."""

import re

import pytest

from tests.unit.docs.pages import ROOT, page
from tests.unit.docs.source_files import classes, written_files

PAGE = "tests/README.md"
ROWS = re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)` \|", page(PAGE), re.MULTILINE)
NAMED = set(re.findall(r"`(\w+)`", page(PAGE)))
LIKE_A_WORLD = re.compile(r"(Rig|World|Scene|Bench)$")


@pytest.mark.parametrize(("name", "module"), ROWS)
def test_a_world_of_the_table_is_in_its_module(name: str, module: str) -> None:
    assert name in classes(ROOT / module)


@pytest.mark.parametrize(
    ("name", "module"), re.findall(r"`(\w+)`(?:, `\w+`)* \(`([\w/]+\.py)`\)", page(PAGE)), ids=lambda value: value
)
def test_a_class_that_is_named_with_its_module_is_there(name: str, module: str) -> None:
    assert name in classes(ROOT / module)


def test_every_class_that_is_called_a_world_is_on_the_page() -> None:
    found = {name for path in written_files("tests") for name in classes(path) if LIKE_A_WORLD.search(name)}
    assert len(ROWS) > 10
    assert found <= NAMED, f"{PAGE} does not name {sorted(found - NAMED)}"


def test_a_name_stands_for_one_world() -> None:
    """Classes of the same name in two modules would be taken for each other."""
    worlds = dict(ROWS)
    twice = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in written_files("tests")
        for name in classes(path) & worlds.keys()
        if str(path.relative_to(ROOT)) != worlds[name]
    ]
    assert not twice, f"rename these classes, or take their names from {PAGE}: {twice}"
