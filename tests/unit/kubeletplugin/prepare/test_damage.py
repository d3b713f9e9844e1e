"""A full disk, and checkpoints that are damaged or of another version, on a node with partitions."""

import hashlib
import json

import pytest

from kubeletplugin.prepare import ClaimRef, Preparer
from tests.unit.kubeletplugin.faults import Killed
from tests.unit.kubeletplugin.plugin_node import (
    CHECKPOINT,
    PLUGIN,
    SHARE_A,
    SHARE_B,
    PluginNode,
    prepare,
    recover,
    refused,
    release,
    result,
    share,
    unprepare,
)
from tests.unit.kubeletplugin.prepare.partitions import MIG_5, MIG_6, Dying, make_foreign, records, sharing


def full_of_claims(rig: PluginNode) -> tuple[Preparer, list[ClaimRef]]:
    """A node with claims of all kinds whose disk gets full."""
    refs = [
        rig.claim("mig", [result(MIG_6)]),
        rig.claim("other", [result("gpu-0-mig-2g-10gb-2")]),
        rig.claim("mps", [share("gpu-1-share", SHARE_A)], [sharing("mps")]),
        rig.claim("plain", [share("gpu-1-share", SHARE_B)], [sharing("mps")]),
    ]
    plugin = rig.plugin()
    for ref in refs:
        prepare(plugin, ref)
    release(rig, plugin, 1)
    rig.files.disk.full = PLUGIN
    return plugin, refs


def test_on_a_full_disk_every_pod_can_end_and_what_its_claims_had_is_released(rig: PluginNode) -> None:
    plugin, refs = full_of_claims(rig)
    for ref in refs:
        unprepare(plugin, ref)
        release(rig, plugin, 1)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())
    answer = refused(plugin, rig.claim("next", [result("gpu-0")]))
    assert answer.reason == "operator"
    assert "No space left on device: '/var/lib/kubelet/plugins/lode.dev/" in answer.message
    assert answer.message.endswith("free some room there")
    rig.files.disk.full = ""
    prepare(plugin, rig.claim("later", [result("gpu-0")]))


def test_on_a_full_disk_a_plugin_starts_gives_up_what_was_begun_and_ends_what_is_prepared(rig: PluginNode) -> None:
    _, refs = full_of_claims(rig)
    rig.files.disk.full = ""
    begun = rig.claim("begun", [result(MIG_5)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([begun])
    rig.files.disk.full = PLUGIN
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin, 1)
    assert set(plugin.prepared()) == {ref.uid for ref in refs}
    unprepare(plugin, *refs)
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())


def test_a_damaged_checkpoint_is_rebuilt_on_a_full_disk(rig: PluginNode) -> None:
    _, refs = full_of_claims(rig)
    rig.files.disk.full = ""
    rig.files.write(CHECKPOINT, b"damaged")
    rig.files.disk.full = PLUGIN
    plugin = rig.plugin()
    recover(plugin)
    assert set(plugin.prepared()) == {ref.uid for ref in refs}
    unprepare(plugin, *refs)
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())


def test_a_plugin_that_stops_without_claims_leaves_nothing_that_was_reserved(rig: PluginNode) -> None:
    plugin, refs = full_of_claims(rig)
    unprepare(plugin, *refs)
    release(rig, plugin)
    plugin.leave()
    assert rig.files.names(PLUGIN) == []


def test_a_damaged_checkpoint_is_rebuilt_with_what_the_claims_have_on_the_hardware(rig: PluginNode) -> None:
    foreign = make_foreign(rig, 0)
    ref = rig.claim("c", [result(MIG_6)])
    before = prepare(rig.plugin(), ref)
    stored = records(rig)
    data = rig.files.read(CHECKPOINT)
    assert data
    rig.files.write(CHECKPOINT, data[:-9])
    plugin = rig.plugin()
    recover(plugin)
    assert records(rig) == stored
    assert prepare(plugin, ref) == before
    unprepare(plugin, ref)
    release(rig, plugin)
    assert foreign in rig.store.load().existing
    assert "mig:gpu-0:1g.5gb:6" not in rig.existing()


def test_a_damaged_checkpoint_does_not_make_a_half_prepared_partition_somebody_elses(rig: PluginNode) -> None:
    foreign = make_foreign(rig, 0)
    ref = rig.claim("c", [result(MIG_6)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([ref])
    rig.files.write(CHECKPOINT, b"damaged")
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert "mig:gpu-0:1g.5gb:6" not in rig.existing()
    assert foreign in rig.store.load().existing
    prepare(plugin, ref)
    assert "mig:gpu-0:1g.5gb:6" in rig.existing()


@pytest.mark.parametrize("content", [b"damaged", b""])
def test_where_what_claims_have_is_not_known_either_everything_is_left_as_it_is(
    rig: PluginNode, content: bytes
) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([ref])
    rig.files.write(CHECKPOINT, b"damaged")
    rig.files.write(f"{PLUGIN}/actions.json", content)
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert "mig:gpu-0:1g.5gb:6" in rig.existing()


def test_what_claims_may_have_is_forgotten_with_the_last_of_them(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    assert "actions.json" in rig.files.names(PLUGIN)
    unprepare(plugin, ref)
    release(rig, plugin)
    assert "actions.json" not in rig.files.names(PLUGIN)


def test_a_checkpoint_of_version_2_is_read_and_its_claims_go_as_they_came(rig: PluginNode) -> None:
    refs = [rig.claim("a", [result("gpu-1")]), rig.claim("b", [share("gpu-0-share", SHARE_A)], [sharing("none")])]
    plugin = rig.plugin()
    before = {ref.uid: prepare(plugin, ref) for ref in refs}
    as_version_2(rig)
    plugin = rig.plugin()
    recover(plugin)
    assert plugin.prepared() == before
    assert {ref.uid: prepare(plugin, ref) for ref in refs} == before
    unprepare(plugin, *refs)
    assert (records(rig), rig.claim_files()) == ({}, set())


def as_version_2(rig: PluginNode) -> None:
    """Rewrite the checkpoint as the version before this one wrote it."""
    data = rig.files.read(CHECKPOINT)
    assert data
    raw = json.loads(data.partition(b"\n")[2])
    for claim in raw["claims"].values():
        assert claim.pop("steps") == []
        claim["allocation"]["devices"].pop("config", None)
    body = json.dumps(raw).encode() + b"\n"
    header = {"kind": "LodeCheckpoint", "version": 2, "sha256": hashlib.sha256(body).hexdigest()}
    rig.files.write(CHECKPOINT, json.dumps(header).encode() + b"\n" + body)
