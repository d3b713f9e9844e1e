"""A claim that the kubelet has forgotten is given up by hand, but never while a container may use it."""

import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.errors import OperatorFault
from driver.files import SystemFiles
from driver.settings import Settings
from kubeletplugin.prepare import ClaimRef
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.release import Process, main, processes_of, release
from tests.unit.kubeletplugin.plugin_node import (
    CHECKPOINT,
    METADATA,
    PLUGIN,
    PluginNode,
    prepare,
    recover,
    refused,
    result,
    unprepare,
)

KUBELET = Process(7, "kubelet", "22 1 0:21 / /proc rw,nosuid - proc proc rw\n")
STATE = "/var/lib/kubelet/dra_manager_state"
EXIT = {"x86_64": 60, "aarch64": 93}
"""The number of exit(2), which ends one thread."""


def container(ref: ClaimRef, name: str = "{uid}_gpu.json") -> Process:
    """A process in a container of a pod with the claim; ``/var`` is a file system of its own."""
    source = f"{METADATA.removeprefix('/var')}/{name.format(uid=ref.uid)}"
    mount = f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/{ref.name}/gpu/lode.dev-metadata.json"
    return Process(4711, "train", f"{KUBELET.mounts}97 80 8:2 {source} {mount} ro,relatime - ext4 /dev/sda2 rw\n")


def forgotten() -> tuple[PluginNode, ClaimRef]:
    rig = PluginNode()
    ref = rig.claim("old", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.release(ref)
    return rig, ref


def test_the_devices_of_a_claim_given_up_can_be_used_again() -> None:
    rig, ref = forgotten()
    kept = rig.claim("kept", [result("gpu-1")])
    prepare(rig.plugin(), kept)
    new = rig.claim("new", [result("gpu-0")])
    assert refused(rig.plugin(), new).reason == "conflict"
    assert release(rig.files, rig.settings, ref.uid, [KUBELET, container(kept)], "kubelet") == str(ref)
    assert set(rig.plugin().prepared()) == {kept.uid}
    assert not [path for path in rig.claim_files() if ref.uid in path]
    prepare(rig.plugin(), new)


@pytest.mark.parametrize(
    "name", ["{uid}_gpu.json", "{uid}_gpu.json//deleted", ".{uid}_gpu.json.7-3.tmp", ".{uid}_gpu.json.7-3.tmp//deleted"]
)
def test_it_is_refused_while_a_container_has_a_file_of_the_claim(name: str) -> None:
    rig, ref = forgotten()
    with pytest.raises(OperatorFault, match="containers still use it; stop the processes 4711"):
        release(rig.files, rig.settings, ref.uid, [container(ref, name), KUBELET], "kubelet")
    assert set(rig.plugin().prepared()) == {ref.uid}


def test_a_mounted_file_is_known_as_the_claims_however_often_it_is_written_anew(
    tmp_path: Path,
) -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    folders = {"kubeletRoot": str(tmp_path / "kubelet"), "cdiRoot": str(tmp_path / "cdi")}
    settings = Settings.model_validate({"kubeletplugin": folders})
    storage = ClaimStorage(SystemFiles(), settings)
    path = storage.paths.metadata_file(ref, "gpu")
    storage.write(ref.uid, {path: b"as the first version wrote it"})
    with Path(path).open() as mounted:
        for content in (b"as the second did", b"as the third did"):
            storage.write(ref.uid, {path: content})
            name = Path(f"/proc/self/fd/{mounted.fileno()}").readlink().name.replace(" (deleted)", "//deleted")
            assert container(ref, name).has_file_of(ref.uid), name


def test_it_is_refused_while_the_kubelet_knows_the_claim() -> None:
    rig, ref = forgotten()
    rig.files.write(STATE, f'{{"Data": "[{{ClaimUID: {ref.uid}}}]"}}'.encode())
    with pytest.raises(OperatorFault, match="the kubelet knows it"):
        release(rig.files, rig.settings, ref.uid, [KUBELET], "kubelet")
    assert set(rig.plugin().prepared()) == {ref.uid}


def test_it_is_refused_where_the_processes_of_the_node_are_not_visible() -> None:
    rig, ref = forgotten()
    with pytest.raises(OperatorFault, match="kubectl debug node"):
        release(rig.files, rig.settings, ref.uid, [Process(1, "lode", "")], "kubelet")
    assert set(rig.plugin().prepared()) == {ref.uid}


def test_what_a_claim_has_on_a_card_that_was_taken_out_is_forgotten_when_an_operator_says_so() -> None:
    rig = PluginNode("ascend310px4")
    ref = rig.claim("old", [result("npu-0-vir01-0")])
    prepare(rig.plugin(), ref)
    unprepare(rig.plugin(), ref)
    with pytest.raises(OperatorFault, match=r"is given up already.*--card-is-gone"):
        release(rig.files, rig.settings, ref.uid, [KUBELET], "kubelet")
    release(rig.files, rig.settings, ref.uid, [KUBELET], "kubelet", card_is_gone=True)
    rig.plugin().leave()
    assert rig.files.names(PLUGIN) == []


def test_a_damaged_checkpoint_is_for_the_plugin_to_rebuild_first() -> None:
    rig, ref = forgotten()
    rig.files.remove(CHECKPOINT)
    with pytest.raises(OperatorFault, match=r"is missing, though .* let the plugin run on this node"):
        release(rig.files, rig.settings, ref.uid, [KUBELET], "kubelet")
    recover(rig.plugin())
    release(rig.files, rig.settings, ref.uid, [KUBELET], "kubelet")


def test_processes_are_looked_at_under_the_lock() -> None:
    rig, ref = forgotten()

    def processes() -> Iterator[Process]:
        with pytest.raises(RuntimeError, match="lock is held"):
            rig.plugin().unprepare([ref])
        yield KUBELET

    release(rig.files, rig.settings, ref.uid, processes(), "kubelet")


def test_of_an_unknown_claim_it_says_which_are_prepared() -> None:
    rig, ref = forgotten()
    with pytest.raises(OperatorFault, match=rf"is not prepared on this node; prepared are: {ref.uid} \(team/old\)"):
        release(rig.files, rig.settings, "11111111-2222-4333-8444-555555555555", [KUBELET], "kubelet")


def test_processes_are_read_from_proc_and_those_that_have_ended_are_left_out(tmp_path: Path) -> None:
    for pid, name in ((7, "kubelet"), (10, "train")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "mountinfo").write_text(KUBELET.mounts)
    (tmp_path / "8").mkdir()
    (tmp_path / "sys").mkdir()
    assert list(processes_of(tmp_path)) == [KUBELET, Process(10, "train", KUBELET.mounts)]
    (tmp_path / "10" / "mountinfo").unlink()
    (tmp_path / "10" / "mountinfo").mkdir()
    with pytest.raises(OperatorFault, match="process 10: its mounts cannot be read"):
        list(processes_of(tmp_path))


FIRST_THREAD_ENDS = """
import ctypes, sys, threading, time
threading.Thread(target=lambda: (time.sleep(0.1), print(flush=True), sys.stdin.read())).start()
ctypes.CDLL(None).syscall({exit}, 0)
"""


@pytest.mark.parametrize(("program", "is_shown"), [("print(flush=True)", False), (FIRST_THREAD_ENDS, True)])
def test_of_a_process_that_nobody_has_waited_for_only_the_threads_that_run_have_mounts(
    program: str, is_shown: bool, tmp_path: Path
) -> None:
    text = program.replace("{exit}", str(EXIT[platform.machine()]))
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        (tmp_path / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        assert process.stdout is not None
        process.stdout.readline()
        while not Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].startswith(" Z"):
            time.sleep(0.01)
        shown = [each for each in processes_of(tmp_path) if each.mounts]
        assert [each.pid for each in shown] == ([process.pid] if is_shown else [])
        assert all("/proc" in each.mounts for each in shown)


def test_as_a_command_it_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-claim", "--root", str(tmp_path)]) == 1
    assert "claim no-such-claim: is not prepared on this node; prepared are: none" in capsys.readouterr().err
    assert (tmp_path / Settings().kubeletplugin.kubelet_root.strip("/") / "plugins/lode.dev").is_dir()
    assert main(["uid", "--settings", str(tmp_path / "missing")]) == 2
