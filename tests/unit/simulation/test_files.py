import pytest

from tests.simulation.files import MemoryDisk, MemoryFiles


class Killed(BaseException):
    pass


def test_a_program_killed_before_a_call_leaves_what_it_wrote_before() -> None:
    calls: list[str] = []

    def before(operation: str, _path: str) -> None:
        calls.append(operation)
        if operation == "rename" and calls.count("rename") == 2:
            files.disk.before = die
            raise Killed

    def die(_operation: str, _path: str) -> None:
        raise Killed

    files = MemoryFiles(before)
    files.write("/d/a", b"first")
    with pytest.raises(Killed):
        files.write("/d/b", b"second")
    files.disk.before = None
    assert (files.read("/d/a"), files.read("/d/b")) == (b"first", None)
    assert calls == ["create", "sync", "rename", "sync_folder", "create", "sync", "rename"]
    assert files.unfinished("/d") == [".b.2.tmp"]


def test_a_lock_is_free_again_after_its_holder_was_killed() -> None:
    files = MemoryFiles()
    with pytest.raises(Killed), files.lock("/lock"):
        raise Killed
    with files.lock("/lock"), files.lock("/another"):
        pass


def test_taking_a_lock_twice_is_an_error_instead_of_waiting_for_ever() -> None:
    files = MemoryFiles()
    with files.lock("/lock"), pytest.raises(RuntimeError, match="/lock"), files.lock("/lock"):
        pass


def test_a_reboot_empties_what_is_below_the_directory_and_nothing_else() -> None:
    files = MemoryFiles()
    for path in ("/var/run/cdi/a", "/var/run/b", "/var/running", "/var/lib/c"):
        files.write(path, b"x")
    files.disk.forget("/var/run")
    files.disk.lose_power()
    assert [p for p in ("/var/run/cdi/a", "/var/run/b", "/var/running", "/var/lib/c") if files.read(p)] == [
        "/var/running",
        "/var/lib/c",
    ]


def test_a_name_that_is_not_synced_is_lost_with_the_power() -> None:
    disk = MemoryDisk()
    disk.sync(disk.create("/d", "a", "", b"content"))
    disk.lose_power()
    assert disk.names("/d") == []


def test_a_content_that_is_not_synced_is_lost_with_the_power() -> None:
    disk = MemoryDisk()
    path = disk.create("/d", "a", "", b"content")
    disk.sync_folder("/d")
    disk.lose_power()
    assert disk.read(path) == b""


def test_a_file_that_is_removed_without_a_sync_returns_after_a_loss_of_power() -> None:
    disk = MemoryDisk()
    path = disk.create("/d", "a", "", b"content")
    disk.sync(path)
    disk.sync_folder("/d")
    disk.rename(path, "/other/b")
    disk.unlink("/other/b")
    disk.lose_power()
    assert (disk.read(path), disk.read("/other/b")) == (b"content", None)
