"""What holds of a machine's files and of those in memory alike; and of what a killed writer leaves on a real disk."""

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driver.files import Files, SystemFiles
from simulation.files import MemoryFiles

Place = tuple[Files, str]


@pytest.fixture(params=["machine", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return (SystemFiles() if request.param == "machine" else MemoryFiles()), str(tmp_path)


def test_a_file_reads_back_as_written_until_it_is_removed(place: Place) -> None:
    files, root = place
    path = f"{root}/a/b"
    assert files.read(path) is None
    files.write(path, b"one")
    files.write(path, b"two")
    assert files.read(path) == b"two"
    files.remove(path)
    files.remove(path)
    assert files.read(path) is None


def test_names_lists_only_the_files_directly_in_the_directory(place: Place) -> None:
    files, root = place
    for path in ("cdi/b.json", "cdi/a.json", "cdi/deeper/c.json", "cdi2/d.json"):
        files.write(f"{root}/{path}", b"")
    assert files.names(f"{root}/cdi") == files.names(f"{root}/cdi/") == ["a.json", "b.json"]
    assert files.names(f"{root}/nowhere") == []


def test_sweeping_leaves_finished_files_alone(place: Place) -> None:
    files, root = place
    files.write(f"{root}/cdi/a.json", b"1")
    files.sweep(f"{root}/cdi")
    files.sweep(f"{root}/nowhere")
    assert files.names(f"{root}/cdi") == ["a.json"]


WRITER = """
import itertools, sys
from driver.files import SystemFiles
for number in itertools.count():
    SystemFiles().write(f"{sys.argv[1]}/ours-{number % 3}.json", b"x" * 100_000)
    print(flush=True)
"""


def test_a_killed_writer_leaves_whole_files_and_something_to_sweep(tmp_path: Path) -> None:
    (tmp_path / ".theirs.json.1.tmp").write_text("another program's")
    for attempt in itertools.count():
        with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            for _ in range(3 + attempt):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        assert {len(path.read_bytes()) for path in tmp_path.glob("ours-*")} == {100_000}
        if list(tmp_path.glob(".ours-*.tmp")) or attempt == 20:
            break
    SystemFiles().sweep(str(tmp_path), "ours-")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("ours-")) == [
        ".theirs.json.1.tmp"
    ]
