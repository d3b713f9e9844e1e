"""What is counted of the product, on a few lines."""

from pathlib import Path

import pytest

from benchmarks.counts import REFUSING, Source, ambiguous, methods, refusing, sources

FILE = Source(
    "controller/a.py",
    '''"""A module.

Two lines of it.
"""

# Why.
class NoFit:
    """Says no."""

    limit = 3
    """An attribute."""

    def of(self) -> str:
        return "a text"


class _Hidden: ...
''',
)


def test_lines_are_code_comments_or_docstrings() -> None:
    assert (FILE.code, FILE.comments, len(FILE.docstrings)) == (5, 1, 6)


@pytest.mark.parametrize(
    "name", ["NoFit", "GangRefusal", "OutOfSteps", "NodeReasons", "Wait", "NotEvicted", "TooCostly"]
)
def test_a_name_with_a_word_of_refusing_refuses(name: str) -> None:
    assert REFUSING.search(name)


@pytest.mark.parametrize("name", ["Node", "NoteTaker", "NodePools", "Default", "Waiting", "PodWaits", "Reasonable"])
def test_other_names_do_not(name: str) -> None:
    assert not REFUSING.search(name)


def test_classes_and_methods_are_found_by_name() -> None:
    other = Source("driver/b.py", "class NoFit: ...\nclass _Hidden: ...\n")
    assert refusing([FILE, other]) == ["NoFit"]
    assert ambiguous([FILE, other]) == {"NoFit": ["controller/a.py", "driver/b.py"]}
    assert methods([FILE])["of"] == ["NoFit"]


def test_generated_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    for name in ("a.py", "a_pb2.py", "a_pb2_grpc.py"):
        (tmp_path / "driver" / name).write_text("x = 1\n")
    assert [file.path for file in sources(["driver"], tmp_path)] == ["driver/a.py"]
