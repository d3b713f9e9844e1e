"""Answers in use are files of one boot, and nobody waits for another's disk."""

from kubeletplugin.hardware.actions import PluginAllocation
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from tests.simulation.files import MemoryFiles

FOLDER = "/state/answers"
ACTION = PluginAllocation("example.com/card/a", "claim", "example.com/card", ("a",))
OTHER = PluginAllocation("example.com/card/b", "other", "example.com/card", ("b",))


def test_answers_of_an_earlier_boot_do_not_count_and_their_files_go() -> None:
    files = MemoryFiles()
    KeptAnswers(files, FOLDER, "boot-1").keep(ACTION, {"answer": "old"})
    kept = KeptAnswers(files, FOLDER, "boot-2")
    assert kept.get(ACTION) is None
    assert kept.all() == ()
    assert files.names(FOLDER) == []


def test_an_answer_of_this_boot_stays_beside_the_file_of_an_earlier_one() -> None:
    files = MemoryFiles()
    KeptAnswers(files, FOLDER, "boot-1").keep(ACTION, {"answer": "old"})
    kept = KeptAnswers(files, FOLDER, "boot-2")
    kept.keep(ACTION, {"answer": "new"})
    assert kept.all() == ((ACTION, {"answer": "new"}),)
    assert kept.get(ACTION) == {"answer": "new"}


def test_an_answer_that_is_kept_while_others_are_read_is_seen_by_the_next_question() -> None:
    files = MemoryFiles()
    kept = KeptAnswers(files, FOLDER, "boot-1")
    kept.keep(ACTION, {"answer": "first"})

    def keep_another(operation: str, path: str) -> None:
        if operation == "read":
            files.disk.before = None
            kept.keep(OTHER, {"answer": "second"})  # what another thread does meanwhile: it does not wait

    files.disk.before = keep_another
    kept.all()
    assert {action.claim for action, _ in kept.all()} == {"claim", "other"}


def test_an_answer_that_nobody_can_read_is_dropped_with_its_claim() -> None:
    files = MemoryFiles()
    kept = KeptAnswers(files, FOLDER, "boot-1")
    kept.keep(ACTION, {"answer": "first"})
    (name,) = files.names(FOLDER)
    files.write(f"{FOLDER}/{name}", b'{"bootId": "boot-1", "action": {"kind": "ofALaterVersion"}}')
    assert KeptAnswers(files, FOLDER, "boot-1").all() == ()
    assert files.names(FOLDER) == [name]
    kept.drop(ACTION)
    assert files.names(FOLDER) == []


def test_a_file_whose_content_was_lost_with_the_power_goes_though_it_names_no_boot() -> None:
    files = MemoryFiles()
    KeptAnswers(files, FOLDER, "boot-1").keep(ACTION, {"answer": "first"})
    (name,) = files.names(FOLDER)
    files.write(f"{FOLDER}/{name}", b"")
    assert KeptAnswers(files, FOLDER, "boot-2").all() == ()
    assert files.names(FOLDER) == []
