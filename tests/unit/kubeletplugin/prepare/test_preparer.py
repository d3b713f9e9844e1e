"""What a kubelet can rely on, whatever happened before."""

import hashlib
import json
from collections.abc import Mapping

import pytest

from driver.errors import TransientFault
from driver.kube.api import RESOURCE_CLAIMS
from kubeletplugin.hardware import Card, Edits, Handle, Use
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.prepare import PrepareResult
from kubeletplugin.prepare.preparer import RETRY_TIMEOUT_SECONDS
from tests.simulation.files import MemoryFiles
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    CHECKPOINT,
    NODE,
    PluginNode,
    prepare,
    recover,
    refused,
    result,
)


def test_after_a_reboot_the_cdi_spec_is_written_again_and_the_answer_is_the_same() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    first, spec = prepare(rig.plugin(), ref), rig.spec(ref)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert prepare(plugin, ref) == first
    assert rig.spec(ref) == spec


def test_a_lost_or_altered_cdi_spec_is_restored_by_prepare_and_by_a_restart() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    path, spec = f"{CDI}/lode.dev-claim_{ref.uid}.json", rig.spec(ref)
    for restore in (lambda plugin: prepare(plugin, ref), recover):
        rig.files.remove(path)
        restore(rig.plugin())
        assert rig.spec(ref) == spec
        rig.files.write(path, b"{}")
        restore(rig.plugin())
        assert rig.spec(ref) == spec


def test_a_claim_allocated_anew_gets_its_new_devices_and_nothing_of_the_old() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0", "a/x"), result("gpu-1", "b")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    claim = rig.api.update(RESOURCE_CLAIMS, claim, "status")
    rig.allocate(claim, [result("gpu-2", "b")])
    assert [device.device for device in prepare(plugin, ref).devices] == ["gpu-2"]
    assert len(rig.claim_files()) == 2
    prepare(plugin, rig.claim("d", [result("gpu-0")]))


def test_a_short_silence_of_the_api_is_waited_out() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(Unsteady(rig.api, failures=6)), ref)
    assert 0 < rig.clock.monotonic() < RETRY_TIMEOUT_SECONDS


def test_a_long_silence_ends_within_the_kubelets_patience_and_blames_nobody() -> None:
    rig = PluginNode()
    refs = [rig.claim(name, [result(f"gpu-{index}")]) for index, name in enumerate("abc")]
    answers = rig.plugin(Unsteady(rig.api, failures=1000)).prepare(refs)
    assert {getattr(answer, "reason", "") for answer in answers.values()} == {"transient"}
    assert rig.clock.monotonic() <= RETRY_TIMEOUT_SECONDS


def test_a_claim_given_up_while_it_is_being_prepared_stays_given_up() -> None:
    """A pod is deleted while it starts: the kubelet withdraws its call, and unprepares without waiting for its end."""
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    withdrawn: list[float] = []

    def delete_pod(_: float) -> None:
        if not withdrawn:
            withdrawn.append(rig.clock.monotonic())
            assert rig.plugin().unprepare([ref]) == {ref.uid: None}

    rig.clock.slept = delete_pod
    answer = rig.plugin(Unsteady(rig.api, failures=3)).prepare([ref], lambda: not withdrawn)[ref.uid]
    assert getattr(answer, "reason", "") == "transient"
    assert rig.plugin().prepared() == {}
    assert rig.claim_files() == set()
    assert rig.clock.monotonic() == withdrawn[0], "nothing is tried for a kubelet that waits no more"


@pytest.mark.parametrize("looks", range(5))
def test_of_a_call_withdrawn_at_any_moment_an_unprepare_leaves_nothing(looks: int) -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    left = iter([True] * looks)
    answer = rig.plugin().prepare([ref], lambda: next(left, False))[ref.uid]
    assert isinstance(answer, PrepareResult) == (ref.uid in rig.plugin().prepared())
    assert isinstance(answer, PrepareResult) or rig.claim_files() == set()
    rig.plugin().unprepare([ref])
    assert (rig.plugin().prepared(), rig.claim_files()) == ({}, set())


@pytest.mark.parametrize("file", ["dra-device-metadata/", "cdi/", "checkpoint.json"])
def test_a_full_disk_is_the_operators_to_mend_and_loses_nothing(file: str) -> None:
    rig = PluginNode()
    held, ref = rig.claim("held", [result("gpu-1")]), rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), held)
    before = rig.claim_files()

    def full(operation: str, path: str) -> None:
        if operation == "create" and file in path:
            raise OSError(28, "No space left on device", path)

    rig.files.disk.before = full
    error = refused(rig.plugin(), ref)
    assert (error.reason, "No space left" in error.message) == ("operator", True)
    rig.files.disk.before = None
    assert (set(rig.plugin().prepared()), rig.claim_files()) == ({held.uid}, before)
    prepare(rig.plugin(), ref)


class Blinking(SimulatedHardware):
    """Hardware that does not answer the question of this number."""

    def __init__(self, question: int):
        super().__init__(load_profile("a100x4", MemoryFiles()), NODE)
        self._left = question

    def cards(self) -> tuple[Card, ...]:
        self._answer()
        return super().cards()

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        self._answer()
        return super().edits(use, handles)

    def _answer(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise TransientFault("the driver is busy")


@pytest.mark.parametrize("question", range(1, 6))
def test_hardware_that_fails_once_is_asked_again(question: int) -> None:
    rig = PluginNode()
    rig.hardware = Blinking(question)
    prepare(rig.plugin(), rig.claim("c", [result("gpu-0", "a"), result("gpu-1", "b")]))
    assert rig.clock.monotonic() < 1


def test_hardware_is_asked_without_the_lock() -> None:
    rig = PluginNode()
    held, ref = rig.claim("held", [result("gpu-1")]), rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), held)

    class Busy(Blinking):
        """While the hardware is asked, another pod ends."""

        def _answer(self) -> None:
            assert other.unprepare([held]) == {held.uid: None}

    other = rig.plugin()
    rig.hardware = Busy(0)
    prepare(rig.plugin(), ref)
    assert set(other.prepared()) == {ref.uid}


def test_fields_of_a_newer_version_do_not_outlive_the_devices_they_are_about() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    header, _, body = (rig.files.read(CHECKPOINT) or b"").partition(b"\n")
    content = json.loads(body)
    content["claims"][ref.uid]["instances"] = [7]
    newer = json.dumps(content).encode()
    line = {**json.loads(header), "sha256": hashlib.sha256(newer).hexdigest()}
    rig.files.write(CHECKPOINT, json.dumps(line).encode() + b"\n" + newer)
    prepare(rig.plugin(), ref)
    assert b"instances" in (rig.files.read(CHECKPOINT) or b"")
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    rig.allocate(rig.api.update(RESOURCE_CLAIMS, claim, "status"), [result("gpu-3")])
    prepare(rig.plugin(), ref)
    assert b"instances" not in (rig.files.read(CHECKPOINT) or b"")


def test_two_instances_share_what_they_know() -> None:
    rig = PluginNode()
    old, new = rig.plugin(), rig.plugin()
    ref = rig.claim("c", [result("gpu-0")])
    first = prepare(old, ref)
    assert new.prepared() == {ref.uid: first}
    assert new.unprepare([ref]) == {ref.uid: None}
    assert old.prepared() == {}
    assert rig.files.read(CHECKPOINT) is not None


def test_a_plugin_that_stops_leaves_a_checkpoint_if_and_only_if_it_has_claims() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.plugin().leave()
    assert set(rig.plugin().prepared()) == {ref.uid}
    assert rig.plugin().unprepare([ref]) == {ref.uid: None}
    rig.plugin().leave()
    assert rig.files.disk.content() == {}
    prepare(rig.plugin(), ref)
