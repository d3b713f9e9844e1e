"""What holds of a machine's files and of those in memory alike; and what a killed writer or lost power leaves."""

import ctypes
import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from driver.disk import SystemDisk
from driver.files import Files, Loss, SystemFiles
from tests.simulation.files import MemoryDisk, MemoryFiles

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


def test_a_lock_is_known_as_held_while_it_is(place: Place) -> None:
    files, root = place
    path = f"{root}/card.lock"
    assert not files.is_locked(path)
    with files.lock(path):
        assert files.is_locked(path)
    assert not files.is_locked(path)
    with files.lock(path):
        pass


class Full(SystemDisk):
    """A disk without room for another file."""

    def create(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", f"{folder}/{prefix}")


def filled(files: Files, root: str) -> Files:
    """The same files, on a disk that is full now."""
    if isinstance(files, MemoryFiles):
        files.disk.full = root
        return files
    return Files(Full())


def test_what_is_reserved_is_enough_to_write_what_gets_no_longer_any_number_of_times(place: Place) -> None:
    files, root = place
    path = f"{root}/claims"
    files.write(path, b"x" * 9000)
    files.reserve(path, 10_000)
    files = filled(files, root)
    with pytest.raises(OSError, match="No space left"):
        files.write(path, b"new")
    for size in (9001, 9000, 8000, 8000, 10):
        files.write(path, b"y" * size, may_use_reserve=True)
        assert files.read(path) == b"y" * size
    other = f"{root}/other"
    with pytest.raises(OSError, match="No space left"):
        files.write(other, b"", may_use_reserve=True)
    assert files.read(other) is None


@pytest.mark.parametrize("power", ["stays", "lost"])
def test_a_write_to_what_is_reserved_that_is_killed_leaves_the_old_content_or_the_new(power: str) -> None:
    for calls in itertools.count():
        files = MemoryFiles()
        files.write("/d/a", b"old")
        files.reserve("/d/a", 100)
        files.disk.full = "/d"
        killed = _killed_before(files, calls, partial(files.write, "/d/a", b"new", may_use_reserve=True))
        if power == "lost":
            files.disk.lose_power()
        assert files.read("/d/a") in ((b"old", b"new") if killed else (b"new",))
        if not killed:
            return


def test_what_a_full_disk_refuses_names_the_file() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        SystemDisk().overwrite("/dev/full", b"new")


def test_files_of_a_labelled_folder_get_the_label_that_containers_may_read(tmp_path: Path) -> None:
    folder, file = tmp_path / "metadata", tmp_path / "metadata" / "uid_gpu.json"
    files = SystemFiles()
    files.let_containers_read(str(folder))
    files.write(str(file), b"1")
    files.let_containers_read(str(folder))
    if os.geteuid() != 0:
        pytest.skip("only root may set a label")
    for path in (folder, file):
        try:
            os.setxattr(path, "security.selinux", b"system_u:object_r:var_lib_t:s0\0")
        except OSError:
            pytest.skip("this file system has no labels")
    files.let_containers_read(str(folder))
    for path in (folder, file):
        assert os.getxattr(path, "security.selinux") == b"system_u:object_r:container_ro_file_t:s0\0"


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


class Killed(BaseException):
    pass


def _killed_before(files: MemoryFiles, calls: int, act: Callable[[], None]) -> bool:
    """Whether the program died before its call number ``calls``, rather than finishing ``act``."""
    left = calls

    def before(_operation: str, _path: str) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1

    files.disk.before = before
    try:
        act()
    except Killed:
        return True
    finally:
        files.disk.before = None
    return False


@pytest.mark.parametrize(
    ("may_lose", "power"), [("nothing", "stays"), ("nothing", "lost"), ("change", "stays"), ("content", "stays")]
)
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_write_that_is_killed_at_any_call_leaves_the_old_content_or_the_new(
    before: bytes | None, may_lose: Loss, power: str
) -> None:
    for calls in itertools.count():
        files = MemoryFiles()
        if before is not None:
            files.write("/d/a", before)
        killed = _killed_before(files, calls, partial(files.write, "/d/a", b"new", may_lose))
        if power == "lost":
            files.disk.lose_power()
        assert files.read("/d/a") in ((before, b"new") if killed else (b"new",))
        files.sweep("/d")
        assert files.unfinished("/d") == []
        if not killed:
            return


@pytest.mark.parametrize(
    ("may_lose", "left"), [("nothing", [b"new"]), ("change", [b"old", b"new"]), ("content", [b"old", b"new", b""])]
)
def test_a_loss_of_power_undoes_no_more_of_a_write_than_allowed(may_lose: Loss, left: list[bytes]) -> None:
    for folder_is_synced in (False, True):
        files = MemoryFiles()
        files.write("/d/a", b"old")
        files.write("/d/a", b"new", may_lose)
        assert files.read("/d/a") == b"new"
        if folder_is_synced:
            files.write("/d/b", b"")
        files.disk.lose_power()
        assert files.read("/d/a") in left


def test_what_is_removed_does_not_return_after_a_loss_of_power() -> None:
    files = MemoryFiles()
    files.write("/d/a", b"old")
    files.remove("/d/a")
    files.disk.lose_power()
    assert files.read("/d/a") is None


def test_a_failed_write_leaves_no_temporary_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    files, root = place

    def full(_disk: object, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(SystemDisk if isinstance(files, SystemFiles) else MemoryDisk, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(f"{root}/a", b"")
    assert (files.names(root), files.unfinished(root)) == ([], [])


def test_on_a_machine_a_file_and_every_new_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    SystemFiles().write(f"{tmp_path}/new/deep/a", b"")
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert [path.parent if path.suffix else path for path in synced] == [
        tmp_path,
        tmp_path / "new",
        tmp_path / "new/deep",
        tmp_path / "new/deep",
    ]
    assert synced[2].name.startswith(".a.")


@pytest.mark.parametrize(("may_lose", "syncs"), [("nothing", 2), ("change", 1), ("content", 0)])
def test_what_may_be_lost_is_not_waited_for(
    may_lose: Loss, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    SystemFiles().write(f"{tmp_path}/a", b"", may_lose)
    assert len(synced) == syncs


def test_a_file_that_may_be_lost_takes_the_place_of_another_without_a_wait(place: Place) -> None:
    files, root = place
    for content in (b"one", b"two", b"three"):
        files.write(f"{root}/a", content, "content", free_later=True)
        assert files.read(f"{root}/a") == content
    assert (files.names(root), len(files.unfinished(root))) == (["a"], 2)
    files.write(f"{root}/a", b"four", "content")
    assert (files.names(root), files.unfinished(root)) == (["a"], [])
    files.tidy()


@pytest.mark.parametrize("why", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_exchanges_no_names_is_written_all_the_same(
    why: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_one: str, _other: str) -> bool:
        ctypes.set_errno(why)
        return False

    monkeypatch.setattr("driver.disk._exchange", refused)
    for content in (b"one", b"two"):
        SystemFiles().write(f"{tmp_path}/a", content, "content")
        assert SystemFiles().read(f"{tmp_path}/a") == content
    assert not SystemFiles().unfinished(str(tmp_path))


def test_why_names_are_not_exchanged_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError, match="folder") as error:
        SystemDisk().exchange(f"{tmp_path}/a/b", f"{tmp_path}/folder")
    assert error.value.errno == errno.ENOTDIR


def test_a_folder_that_another_program_makes_at_the_same_time_is_no_fault(tmp_path: Path) -> None:
    class SharedDisk(SystemDisk):
        """The other program makes the next folder whenever this one has made one."""

        def sync_folder(self, path: str) -> None:
            (tmp_path / "new/deep").mkdir(parents=True, exist_ok=True)
            super().sync_folder(path)

    SharedDisk().make_folder(f"{tmp_path}/new/deep")
    assert (tmp_path / "new/deep").is_dir()


LOCKED = """
import sys
from driver.files import SystemFiles
with SystemFiles().lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_is_exclusive_across_processes_and_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", LOCKED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with path.open("a") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.kill()
    with SystemFiles().lock(str(path)):
        pass


COUNTED = """
import sys
from pathlib import Path
from driver.files import SystemFiles
files, count = SystemFiles(), Path(sys.argv[2])
for _ in range(200):
    with files.lock(sys.argv[1]):
        count.write_text(str(int(count.read_text()) + 1))
    files.remove_lock(sys.argv[1])
"""


def test_a_lock_that_its_holders_remove_stays_exclusive(tmp_path: Path) -> None:
    path, count = tmp_path / "lock", tmp_path / "count"
    count.write_text("0")
    programs = [subprocess.Popen([sys.executable, "-c", COUNTED, path, count]) for _ in range(3)]
    assert [program.wait() for program in programs] == [0, 0, 0]
    assert (count.read_text(), path.exists()) == ("600", False)


def test_a_lock_that_somebody_holds_is_not_removed(place: Place) -> None:
    files, root = place
    files.remove_lock(f"{root}/lock")
    with files.lock(f"{root}/lock"):
        files.remove_lock(f"{root}/lock")
        assert isinstance(files, MemoryFiles) or files.names(root) == ["lock"]
