"""What ``make mutants`` changes, and where."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import derived_changes
from tests.mutants.operators import edits
from tests.mutants.suites import suite_of

ROOT = Path(__file__).resolve().parents[3]
MADE = {
    "if a and b:\n    pass": {"if (not (a and b)):\n    pass", "if a or b:\n    pass"},
    "x = not a": {"x = (a)"},
    "x = a < b": {"x = a <= b"},
    "x = a not in b": {"x = a in b"},
    "x = (a, b, c)": {"x = (b, c)", "x = (a, c)", "x = (a, b)"},
    "x = {'ä': y, 'b': z}": {"x = {'b': z}", "x = {'ä': y}"},
    "x = f(a, key=b)": {"x = f(a)"},
    "x = a + 1": {"x = a - 1", "x = a + 2"},
    "x = min(a, b)": {"x = max(a, b)"},
    "self.x = a": {"pass"},
    "def f() -> None:\n    a\n    b\n    c = d": {"def f() -> None:\n    a\n    b\n    return\n    c = d"},
    'def f(x: tuple[int, str]) -> int:\n    """A docstring, with and."""': set(),
    "raise ValueError(f'{a + 1}')": set(),
    "self._log.info('text', key=1)": set(),
}


@pytest.mark.parametrize("source", MADE)
def test_each_operator_changes_what_a_test_could_notice_and_nothing_else(source: str) -> None:
    found = {edit.apply(source) for edit in edits(source)}
    expressions = {text for text in found if "pass\n" in text or text.endswith("    pass\n    c = d")}
    assert found - expressions == MADE[source]


@pytest.mark.parametrize("path", ["controller/state/handlers.py", "kubeletplugin/publish/slices.py", "driver/files.py"])
def test_every_change_of_a_file_is_python_and_differs(path: str) -> None:
    source = (ROOT / path).read_text()
    changed = [edit.apply(source) for edit in edits(source)]
    assert len(changed) > 20
    for text in changed:
        ast.parse(text)
        assert text != source


def test_a_draw_stays_the_same_where_the_source_does(tmp_path: Path) -> None:
    def drawn(source: str) -> set[str]:
        file = tmp_path / "driver/files.py"
        file.parent.mkdir(exist_ok=True)
        file.with_name("disk.py").write_text("")
        file.write_text(source)
        return {" ".join(change.lines) for change in derived_changes(7, 10, root=tmp_path)}

    lines = [f"x{number} = {number} + 1" for number in range(40)]
    some, more = drawn("\n".join(lines)), drawn("\n".join([*lines[:20], "y = 7", *lines[20:]]))
    assert len(some) == 10
    assert len(some & more) >= 9


def test_the_tests_of_the_closest_folder_have_to_notice_a_change() -> None:
    assert suite_of("driver/wire/claims.py")[0] == "tests/unit/driver"
    assert suite_of("driver/files.py")[0] == "tests/unit/driver/test_files.py"
    with pytest.raises(KeyError, match="SUITES"):
        suite_of("docs/architecture.md")
