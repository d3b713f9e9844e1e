"""The table of changes that seeded histories notice by themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import UNNOTICED, WRITTEN, recorded_histories, written_changes
from tests.mutants.alone import HISTORIES, History, tell
from tests.mutants.trial import Change, FailingTests

ROOT = Path(__file__).resolve().parents[3]
HISTORIES_OF_TESTS = 500
SOURCE = "LIMIT = 3\n"
TESTS = """\
import os

import pytest

from controller.numbers import LIMIT


@pytest.mark.parametrize("seed", range(int(os.environ["LODE_HISTORIES"])))
def test_invariants_hold_through_a_seeded_history(seed):
    assert (seed > LIMIT) == (seed > 3)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose history n fails if n is between the limit and 3."""
    root = tmp_path / "root"
    files = {
        "controller/__init__.py": "",
        "controller/numbers.py": SOURCE,
        "tests/__init__.py": "",
        "tests/system/__init__.py": "",
        "tests/system/test_histories.py": TESTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(ROOT / "tests/mutants", root / "tests/mutants", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests/conftest.py", root / "tests/conftest.py")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def change(limit: int) -> Change:
    path = "controller/numbers.py"
    return Change(f"limit {limit}", path, SOURCE, SOURCE.replace("3", str(limit)), ())


def test_the_recorded_history_comes_first_and_then_those_that_are_searched(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell([change(1), change(0)], {"limit 1": History(3)}, tree, search=6, seconds=60)
    assert capsys.readouterr().out.splitlines() == [
        "     3  limit 1",
        "     1  limit 0",
        "noticed by histories alone: 2 of 2",
    ]


def test_only_recorded_histories_are_played_unless_others_are_searched(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell([change(2), change(0)], {"limit 2": History(9)}, tree, search=0, seconds=60)
    assert capsys.readouterr().out.splitlines() == [
        "     -  limit 2",
        "     -  limit 0",
        "noticed by histories alone: 0 of 2",
    ]


def test_a_recorded_history_that_fails_anyway_says_nothing(tree: Path) -> None:
    (tree / "controller/numbers.py").write_text("LIMIT = 2\n")
    with pytest.raises(FailingTests, match=r"fails without any change: .*\[3\]"):
        tell([change(1)], {"limit 1": History(3)}, tree, search=0, seconds=60)


def test_at_least_half_of_the_written_changes_have_a_history_that_notices_them() -> None:
    names, recorded = {change.name for change in written_changes(UNNOTICED)}, recorded_histories()
    assert recorded.keys() <= names
    assert 2 * len(recorded) >= len(names)
    assert all(0 <= history.seed < HISTORIES_OF_TESTS for history in recorded.values())


@pytest.mark.parametrize("kind", HISTORIES)
def test_there_is_a_test_for_each_kind_of_history(kind: str) -> None:
    file, _, test = History(3, kind).test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_every_written_change_fits_its_file() -> None:
    changes = [change for name in WRITTEN for change in written_changes(name)]
    assert [(change.path, change.name) for change in changes if change.before == change.after] == []
