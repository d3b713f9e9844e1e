import pytest

from simulation.files import MemoryFiles


class Killed(BaseException):
    pass


def test_a_program_killed_before_a_call_leaves_what_it_wrote_before() -> None:
    calls: list[tuple[str, str]] = []

    def before(operation: str, path: str) -> None:
        calls.append((operation, path))
        if len(calls) == 4:
            raise Killed

    files = MemoryFiles(before)
    files.write("/d/a", b"first")
    with pytest.raises(Killed):
        files.write("/d/b", b"second")
    files.before = None
    assert (files.read("/d/a"), files.read("/d/b")) == (b"first", None)
    assert calls == [("write", "/d/a"), ("replace", "/d/a"), ("write", "/d/b"), ("replace", "/d/b")]
    assert files.unfinished("/d") == [".b.tmp"]


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
    files.forget("/var/run")
    assert [p for p in ("/var/run/cdi/a", "/var/run/b", "/var/running", "/var/lib/c") if files.read(p)] == [
        "/var/running",
        "/var/lib/c",
    ]
