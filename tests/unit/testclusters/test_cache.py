"""The cache of testclusters: when a key changes, and when an entry is built."""

import shutil
from pathlib import Path

import pytest

from testclusters.cache import cached_folder, content_key


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "one" / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("text")
    return folder


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LODE_CACHE", str(folder))
    return folder


def fill(folder: Path) -> None:
    (folder / "program").write_text("built")


def test_a_key_does_not_depend_on_where_a_folder_is(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "two" / "tree"
    shutil.copytree(tree, copy)
    assert content_key(tree) == content_key(copy)
    assert content_key(tree / "sub" / "file") == content_key(copy / "sub" / "file")


def test_a_key_depends_on_content_name_and_mode(tree: Path) -> None:
    file = tree / "sub" / "file"
    keys = [content_key(tree)]
    file.write_text("other")
    keys.append(content_key(tree))
    file.chmod(0o755)
    keys.append(content_key(tree))
    file.rename(tree / "sub" / "renamed")
    keys.append(content_key(tree))
    assert len(set(keys)) == 4


def test_a_key_depends_on_where_a_part_ends() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")


def test_an_entry_is_built_once(root: Path) -> None:
    built: list[Path] = []

    def make(folder: Path) -> None:
        built.append(folder)
        fill(folder)

    folders = {cached_folder("tool", "0" * 16, make) for _ in range(2)}
    assert folders == {root / f"tool-{'0' * 16}"}
    assert (folders.pop() / "program").read_text() == "built"
    assert len(built) == 1


def test_a_failed_build_leaves_no_entry(root: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached_folder("tool", "0" * 16, fail)
    assert not (root / f"tool-{'0' * 16}").exists()
    assert (cached_folder("tool", "0" * 16, fill) / "program").exists()
