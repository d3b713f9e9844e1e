"""Folders of processes: those that live keep theirs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testclusters.folders import OwnFolder


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_folders_that_are_made_at_the_same_time_all_stay() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: OwnFolder.make("plane-"), range(200)))
    lost = [folder.path for folder in made if not folder.path.exists()]
    for folder in made:
        folder.remove()
    assert lost == []


def test_the_folder_of_a_dead_process_is_removed_by_the_next(temporary_folder: Path) -> None:
    dead = temporary_folder / "plane-dead"
    (dead / "data").mkdir(parents=True)
    (dead / "owner").touch()
    living = OwnFolder.make("plane-")
    assert not dead.exists()
    assert living.path.exists()
    living.remove()


def test_removing_a_folder_again_does_nothing() -> None:
    folder = OwnFolder.make("plane-")
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
