"""What a starting plugin finds, and what it makes of it."""

import json

import pytest

from driver.errors import OperatorFault
from driver.kube.api import Unavailable
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.rig import CDI, CHECKPOINT, PLUGIN, Rig, prepare, refused, result


def damage(rig: Rig) -> bytes:
    data = rig.files.read(CHECKPOINT)
    assert data
    damaged = data.replace(b"completed", b"complexed")
    rig.files.write(CHECKPOINT, damaged)
    return damaged


def test_an_empty_node_needs_nothing() -> None:
    rig = Rig()
    rig.files.disk.before = None
    rig.plugin(Unsteady(rig.api, failures=1000)).recover()
    assert rig.files.read(CHECKPOINT) is None


def test_files_of_no_claim_are_removed_and_those_of_others_left_alone() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    kept = rig.claim_files() | {f"{CDI}/nvidia.yaml", f"{CDI}/other.dev-claim_7.json", f"{CDI}/lode.dev-metadata.json"}
    for path in (*kept - rig.claim_files(), f"{CDI}/lode.dev-claim_7.json", f"{PLUGIN}/dra-device-metadata/7_gpu.json"):
        rig.files.write(path, b"{}")
    rig.plugin().recover()
    assert rig.claim_files() == kept


def test_a_claim_gone_since_before_the_reboot_is_forgotten() -> None:
    rig = Rig()
    gone, kept = rig.claim("gone", [result("gpu-0")]), rig.claim("kept", [result("gpu-1")])
    plugin = rig.plugin()
    plugin.prepare([gone, kept])
    rig.release(gone)
    rig.reboot()
    plugin = rig.plugin()
    plugin.recover()
    assert set(plugin.prepared()) == {kept.uid}
    assert len(rig.claim_files()) == 2


def test_a_claim_gone_from_the_api_since_the_boot_is_left_to_the_kubelet() -> None:
    rig = Rig()
    gone = rig.claim("gone", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, gone)
    rig.release(gone)
    rig.plugin().recover()
    assert set(plugin.prepared()) == {gone.uid}
    assert plugin.unprepare([gone]) == {gone.uid: None}
    assert rig.claim_files() == set()


def test_without_an_answer_from_the_api_nothing_is_forgotten_and_the_plugin_starts() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.release(ref)
    rig.reboot()
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    plugin.recover()
    assert set(plugin.prepared()) == {ref.uid}


def test_a_damaged_checkpoint_is_kept_aside_and_made_anew_from_the_claims() -> None:
    rig = Rig()
    refs = [rig.claim("a", [result("gpu-0")]), rig.claim("b", [result("gpu-1")])]
    gone = rig.claim("gone", [result("gpu-2")])
    before = rig.plugin().prepare([*refs, gone])
    rig.release(gone)
    damaged = damage(rig)
    plugin = rig.plugin()
    plugin.recover()
    assert plugin.prepared() == {ref.uid: before[ref.uid] for ref in refs}
    (copy,) = [name for name in rig.files.names(PLUGIN) if name.startswith("checkpoint.json.corrupt-")]
    assert rig.files.read(f"{PLUGIN}/{copy}") == damaged
    assert refused(plugin, rig.claim("d", [result("gpu-0")])).reason == "conflict"
    assert plugin.unprepare([*refs, gone]) == {ref.uid: None for ref in (*refs, gone)}
    assert rig.claim_files() == set()


def test_a_checkpoint_damaged_while_the_plugin_runs_is_made_anew_too() -> None:
    rig = Rig()
    ref = rig.claim("a", [result("gpu-0")])
    plugin = rig.plugin()
    first = prepare(plugin, ref)
    damage(rig)
    assert refused(plugin, rig.claim("b", [result("gpu-0")])).reason == "conflict"
    assert prepare(plugin, ref) == first


def test_a_damaged_checkpoint_after_a_reboot_holds_nothing_back() -> None:
    rig = Rig()
    ref = rig.claim("a", [result("gpu-0")])
    first = prepare(rig.plugin(), ref)
    damage(rig)
    rig.reboot()
    plugin = rig.plugin()
    plugin.recover()
    assert plugin.prepared() == {}
    assert prepare(plugin, ref) == first


def test_a_damaged_checkpoint_waits_for_the_api_and_touches_nothing_meanwhile() -> None:
    rig = Rig()
    ref = rig.claim("a", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    files = rig.claim_files()
    damage(rig)
    plugin = rig.plugin(Unsteady(rig.api, failures=1))
    with pytest.raises(Unavailable):
        plugin.recover()
    assert rig.claim_files() == files
    plugin.recover()
    assert set(plugin.prepared()) == {ref.uid}


def test_a_checkpoint_of_a_newer_version_is_left_as_it_is() -> None:
    rig = Rig()
    ref = rig.claim("a", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    data = rig.files.read(CHECKPOINT)
    assert data
    first, _, rest = data.partition(b"\n")
    newer = json.dumps({**json.loads(first), "version": 2}).encode() + b"\n" + rest
    rig.files.write(CHECKPOINT, newer)
    files, plugin = rig.claim_files(), rig.plugin()
    with pytest.raises(OperatorFault, match="written by a newer kubelet plugin: 2"):
        plugin.recover()
    assert refused(plugin, ref).reason == "operator"
    failure = plugin.unprepare([ref])[ref.uid]
    assert failure is not None
    assert failure.reason == "operator"
    assert (rig.claim_files(), rig.files.read(CHECKPOINT)) == (files, newer)


def test_a_claim_whose_card_was_taken_out_does_not_keep_the_plugin_from_starting() -> None:
    rig = Rig("a100x4")
    lost, kept = rig.claim("lost", [result("gpu-3")]), rig.claim("kept", [result("gpu-0")])
    rig.plugin().prepare([lost, kept])
    rig.hardware = Rig("t4x2").hardware
    rig.reboot()
    plugin = rig.plugin()
    plugin.recover()
    assert "does not have the device: 'gpu-3'" in refused(plugin, lost).message
    assert plugin.unprepare([lost]) == {lost.uid: None}
    assert set(plugin.prepared()) == {kept.uid}
