"""One change is tried on the tests that run its lines."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutants.reach import statement_lines
from tests.mutants.trial import Change, FailingTests, Workshop

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """\
LIMIT = 3


def above(number):
    if number > LIMIT:
        return True
    return False


def unused():
    return (
        1
    )
"""
TESTS = """\
from controller.numbers import above


def test_above():
    assert above(5)


def test_below():
    assert not above(1)


def test_of_something_else():
    pass
"""


def test_a_change_is_told_as_the_lines_that_differ() -> None:
    change = Change("n", "p", "a\n  b\nc\n", "a\n  x\n  y\nc\n", ())
    assert change.line == 2
    assert change.lines == ("b", "x y")


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [(1, 1, [1]), (3, 3, [3]), (5, 5, [5]), (6, 6, [6]), (5, 6, [5, 6]), (12, 12, [11, 12, 13])],
)
def test_a_part_of_a_statement_is_run_with_the_whole_of_it_but_not_with_its_body(
    first: int, last: int, lines: list[int]
) -> None:
    assert list(statement_lines(SOURCE, first, last)) == lines


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the tests above, and with what pytest needs for changes."""
    root = tmp_path / "root"
    (root / "controller").mkdir(parents=True)
    (root / "controller/__init__.py").touch()
    (root / "controller/numbers.py").write_text(SOURCE)
    shutil.copytree(ROOT / "tests/mutants", root / "tests/mutants", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests/__init__.py").touch()
    shutil.copy(ROOT / "tests/conftest.py", root / "tests/conftest.py")
    (root / "tests/test_numbers.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_a_change_is_tried_on_the_tests_that_run_its_lines(tree: Path, tmp_path: Path) -> None:
    workshop = Workshop(tree, tmp_path / "copy", seconds=1, histories=0)
    reach = workshop.reach(["tests"], tmp_path)
    path = "controller/numbers.py"

    def verdict(old: str, new: str) -> str:
        return workshop.try_out(Change("", path, SOURCE, SOURCE.replace(old, new), ("tests",)), reach)

    name = "tests/test_numbers.py::test_"
    assert set(reach.tests(path, range(5, 6), ["tests"])) == {f"{name}above", f"{name}below"}
    assert reach.tests(path, range(6, 7), ["tests"]) == [f"{name}above"]
    assert reach.tests(path, range(11, 14), ["tests"]) == []
    assert len(reach.tests(path, range(1, 2), ["tests"])) == 3
    assert reach.tests(path, range(5, 6), ["elsewhere"]) == []
    assert verdict("return True", "return False") == "noticed"
    assert verdict("return True", "while True:\n            pass") == "noticed"
    assert verdict("LIMIT = 3", "LIMIT = 4") == "survived"
    assert verdict("1\n    )", "2\n    )") == "survived"
    assert verdict("not there", "") == "outdated"


def test_tests_that_fail_without_any_change_tell_nothing(tree: Path, tmp_path: Path) -> None:
    (tree / "tests/test_numbers.py").write_text(TESTS.replace("assert not", "assert"))
    workshop = Workshop(tree, tmp_path / "copy", seconds=60, histories=0)
    with pytest.raises(FailingTests, match="test_below"):
        workshop.reach(["tests"], tmp_path)


def test_the_first_test_that_fails_in_the_given_order_is_named(tree: Path, tmp_path: Path) -> None:
    workshop = Workshop(tree, tmp_path / "copy", seconds=60, histories=0)
    tests = [f"tests/test_numbers.py::test_{name}" for name in ("of_something_else", "below", "above")]
    workshop.expect_success(tests)

    def first(new: str) -> str:
        changed = Change("", "controller/numbers.py", SOURCE, SOURCE.replace("number > LIMIT", new), ())
        return workshop.first_failing(changed, tests)

    assert first("number < LIMIT") == tests[1]
    assert first("number >= LIMIT") == ""
    assert first("number > LIMIT") == ""
