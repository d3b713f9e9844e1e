"""What is wrong on a node's disk at the moment when a program is killed."""

import json

import pytest

from driver.settings import Settings
from kubeletplugin.prepare.storage import ClaimStorage
from simulation.disk_checks import DiskChecks
from simulation.files import MemoryFiles

UID = "637e0edc-5b6e-4ae7-a620-81434fbaecc0"


class Node:
    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.found: list[str] = []
        settings = Settings()
        self.paths = ClaimStorage(self.files, settings).paths
        self.checks = DiskChecks("n1", self.files, settings, self.found)


def test_a_spec_that_mounts_a_missing_file_is_wrong() -> None:
    node = Node()
    mount = {"hostPath": f"{node.paths.metadata_root}/{UID}_r.json"}
    spec = {"devices": [{"containerEdits": {"mounts": [mount]}}]}
    node.files.write(node.paths.cdi_file(UID), json.dumps(spec).encode())
    node.checks.look()
    assert any("which are not there" in problem for problem in node.found)
    assert any("the checkpoint does not know its claim" in problem for problem in node.found)


@pytest.mark.parametrize("forgotten", ["sync", "sync_folder"])
def test_what_is_not_synced_when_its_writer_goes_on_is_wrong(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    monkeypatch.setattr(node.files.disk, forgotten, lambda path: None)
    node.files.write(f"{node.paths.metadata_root}/{UID}_r.json", b"{}")
    node.checks.program_waits()
    assert [f"{UID}_r.json is not synced" in problem for problem in node.found] == [True]


def test_what_a_killed_program_did_not_sync_is_not_held_against_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    with monkeypatch.context() as patch:
        patch.setattr(node.files.disk, "sync_folder", lambda path: None)
        node.files.write(f"{node.paths.metadata_root}/{UID}_r.json", b"{}")
    node.checks.program_starts()
    node.checks.program_waits()
    assert node.found == []
