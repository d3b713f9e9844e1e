"""What is wrong on a node's disk at the moment when a program is killed."""

import json

import pytest

from driver.settings import Settings
from kubeletplugin.hardware.actions import MigMode
from kubeletplugin.prepare import ClaimRef
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim, Step, encode
from kubeletplugin.prepare.plan import NO_FABRIC, ClaimPlan
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from tests.simulation.disk_checks import DiskChecks
from tests.simulation.files import MemoryFiles

UID = "637e0edc-5b6e-4ae7-a620-81434fbaecc0"


class Node:
    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.found: list[str] = []
        settings = Settings()
        storage = ClaimStorage(self.files, settings)
        self.paths, self.checkpoint, self.folder = storage.paths, storage.checkpoint_path, plugin_directory(settings)
        self.checks = DiskChecks("n1", self.files, settings, self.found)


def test_a_spec_that_mounts_a_missing_file_is_wrong() -> None:
    node = Node()
    mount = {"hostPath": f"{node.paths.metadata_root}/{UID}_r.json"}
    spec = {"devices": [{"containerEdits": {"mounts": [mount]}}]}
    node.files.write(node.paths.cdi_file(UID), json.dumps(spec).encode())
    node.checks.look()
    assert ["which are not there" in problem for problem in node.found] == [True]


def test_a_file_without_a_claim_is_wrong_when_its_writer_goes_on() -> None:
    node = Node()
    paths = [node.paths.cdi_file(UID), f"{node.paths.metadata_root}/{UID}_r.json"]
    for path in paths:
        node.files.write(path, b'{"devices": []}', "content")
    node.checks.look()
    assert node.found == []
    node.checks.program_waits()
    assert ["the checkpoint does not know its claim" in problem for problem in node.found] == [True, True]


def prepared(uid: str, *steps: Step) -> PreparedClaim:
    return PreparedClaim(ClaimPlan(ClaimRef("default", uid, uid), (), "", NO_FABRIC), "completed", "boot", steps=steps)


ON_HARDWARE = prepared("on-hardware", Step(MigMode("GPU-0")))


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ([], [prepared("a")], False),
        ([prepared("a")], [prepared("a"), prepared("b")], False),
        ([ON_HARDWARE], [ON_HARDWARE, prepared("b")], False),
        ([prepared("a")], [], False),
        ([prepared("a"), ON_HARDWARE], [ON_HARDWARE], False),
        ([], [ON_HARDWARE], True),
        ([ON_HARDWARE], [], True),
        ([ON_HARDWARE], [prepared("on-hardware")], True),
    ],
)
def test_only_claims_with_nothing_on_the_hardware_may_be_lost_with_the_power_or_come_back(
    before: list[PreparedClaim], after: list[PreparedClaim], wrong: bool
) -> None:
    node = Node()
    first, then = (Checkpoint({claim.plan.ref.uid: claim for claim in claims}) for claims in (before, after))
    node.files.write(node.checkpoint, encode(first))
    node.files.write(node.checkpoint, encode(then), "change")
    node.checks.program_waits()
    assert ["checkpoint.json is not synced" in problem for problem in node.found] == [True] * wrong


@pytest.mark.parametrize("forgotten", ["sync", "sync_folder"])
def test_what_is_not_synced_when_its_writer_goes_on_is_wrong(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    monkeypatch.setattr(node.files.disk, forgotten, lambda path: None)
    node.files.write(f"{node.folder}/actions.json", b"{}")
    node.checks.program_waits()
    assert ["actions.json is not synced" in problem for problem in node.found] == [True]


def test_what_a_killed_program_did_not_sync_is_not_held_against_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    with monkeypatch.context() as patch:
        patch.setattr(node.files.disk, "sync_folder", lambda path: None)
        node.files.write(f"{node.folder}/actions.json", b"{}")
        node.files.write(f"{node.paths.metadata_root}/{UID}_r.json", b"{}")
    node.checks.program_starts()
    node.checks.program_waits()
    assert node.found == []
