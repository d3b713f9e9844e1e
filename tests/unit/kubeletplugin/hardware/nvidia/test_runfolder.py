"""Folders in which containers write are removed, whatever is in them, and nothing else is."""

import os
from pathlib import Path

import pytest

from kubeletplugin.hardware.nvidia.runfolder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "run"))


def test_a_folder_goes_with_all_in_it_and_what_its_links_lead_to_stays(run: RunFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = Path(run.make("mps", "card", "shm"))
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/a").write_text("the name of its folder")
    run.remove("mps", "card")
    assert run.names("mps") == ()
    assert (outside / "kept").exists()


def test_a_folder_of_any_depth_goes(run: RunFolder) -> None:
    place = os.open(run.make("mps", "card", "shm"), os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    run.remove("mps", "card")
    assert run.names("mps") == ()


def test_a_file_or_a_link_goes_and_what_is_absent_is_gone_already(run: RunFolder, tmp_path: Path) -> None:
    run.write("mps", "file", text="x")
    (tmp_path / "run/mps/link").symlink_to(tmp_path)
    for name in ("file", "link", "absent"):
        run.remove("mps", name)
    assert run.names("mps") == ()
    assert tmp_path.exists()
