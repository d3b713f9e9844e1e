"""What a starting plugin finds, and what it makes of it."""

import hashlib
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from driver.errors import OperatorFault, TransientFault
from driver.kube.api import RESOURCE_CLAIMS, ApiCall
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.simulated import Profile, SimulatedHardware
from kubeletplugin.prepare import ClaimRef
from kubeletplugin.prepare.checkpoint import CorruptCheckpoint
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    CHECKPOINT,
    NODE,
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


class Silent(SimulatedHardware):
    """Hardware that must not be asked, or does not answer."""

    def __init__(self) -> None:
        super().__init__(Profile(()))

    def cards(self) -> tuple[Card, ...]:
        raise TransientFault("the driver is not loaded")


def damage(rig: PluginNode) -> bytes:
    data = rig.files.read(CHECKPOINT)
    assert data
    damaged = data.replace(b"completed", b"complexed")
    rig.files.write(CHECKPOINT, damaged)
    return damaged


def test_an_empty_node_needs_nothing() -> None:
    rig = PluginNode()
    rig.files.disk.before = None
    recover(rig.plugin(Unsteady(rig.api, failures=1000)))
    assert rig.files.read(CHECKPOINT) is None


def test_files_of_no_claim_are_removed_and_those_of_others_left_alone() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    kept = rig.claim_files() | {f"{CDI}/nvidia.yaml", f"{CDI}/other.dev-claim_7.json", f"{CDI}/lode.dev-metadata.json"}
    for path in (*kept - rig.claim_files(), f"{CDI}/lode.dev-claim_7.json", f"{PLUGIN}/dra-device-metadata/7_gpu.json"):
        rig.files.write(path, b"{}")
    recover(rig.plugin())
    assert rig.claim_files() == kept


def test_a_claim_gone_since_before_the_reboot_is_forgotten() -> None:
    rig = PluginNode()
    gone, kept = rig.claim("gone", [result("gpu-0")]), rig.claim("kept", [result("gpu-1")])
    plugin = rig.plugin()
    plugin.prepare([gone, kept])
    rig.release(gone)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert set(plugin.prepared()) == {kept.uid}
    assert len(rig.claim_files()) == 2


def test_a_claim_gone_from_the_api_since_the_boot_is_left_to_the_kubelet() -> None:
    rig = PluginNode()
    gone = rig.claim("gone", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, gone)
    rig.release(gone)
    recover(rig.plugin())
    assert set(plugin.prepared()) == {gone.uid}
    assert plugin.unprepare([gone]) == {gone.uid: None}
    assert rig.claim_files() == set()


def test_without_an_answer_from_the_api_nothing_is_forgotten_and_the_plugin_starts() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.release(ref)
    rig.reboot()
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    recover(plugin)
    assert set(plugin.prepared()) == {ref.uid}


def test_a_damaged_checkpoint_is_kept_aside_and_made_anew_from_the_files() -> None:
    rig = PluginNode()
    rig.allow_admin_access()
    refs = [
        rig.claim("a", [result("gpu-0", "main/first"), share("gpu-3-share", SHARE_A, request="part")]),
        rig.claim("b", [result("gpu-1")]),
        rig.claim("watcher", [result("gpu-1", adminAccess=True)]),
        rig.claim("gone", [result("gpu-2")]),
    ]
    before = rig.plugin().prepare(refs)
    files = rig.claim_files()
    rig.release(refs[-1])
    damaged = damage(rig)
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    rig.hardware = Silent()
    plugin.tidy()
    assert plugin.prepared() == before
    assert rig.claim_files() == files
    rig.hardware = PluginNode().hardware
    plugin = rig.plugin()
    (copy,) = [name for name in rig.files.names(PLUGIN) if name.startswith("checkpoint.json.corrupt-")]
    assert rig.files.read(f"{PLUGIN}/{copy}") == damaged
    assert refused(plugin, rig.claim("d", [result("gpu-0")])).reason == "conflict"
    assert "their containers may still run" in refused(plugin, rig.claim("e", [result("gpu-2")])).message
    assert plugin.unprepare(refs) == {ref.uid: None for ref in refs}
    assert rig.claim_files() == set()


def test_a_checkpoint_damaged_while_the_plugin_runs_is_made_anew_too() -> None:
    rig = PluginNode()
    ref = rig.claim("a", [result("gpu-0")])
    plugin = rig.plugin()
    first = prepare(plugin, ref)
    damage(rig)
    assert refused(plugin, rig.claim("b", [result("gpu-0")])).reason == "conflict"
    assert prepare(plugin, ref) == first


def test_a_damaged_checkpoint_after_a_reboot_holds_nothing_back() -> None:
    rig = PluginNode()
    ref = rig.claim("a", [result("gpu-0")])
    first = prepare(rig.plugin(), ref)
    damage(rig)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert plugin.prepared() == {}
    assert prepare(plugin, ref) == first


@pytest.mark.parametrize("damaged", ["record", "spec"])
@pytest.mark.parametrize("api", ["silent", "answers", "has another allocation"])
def test_a_claim_without_a_record_keeps_its_devices_and_no_other_claim_from_being_served(
    damaged: str, api: str
) -> None:
    rig = PluginNode()
    ref, other = (
        rig.claim("a", [share("gpu-0-share", SHARE_A), result("gpu-2", "b")]),
        rig.claim("o", [result("gpu-1")]),
    )
    plugin = rig.plugin()
    first = prepare(plugin, ref)
    prepare(plugin, other)
    path = f"{CDI}/lode.dev-claim_{ref.uid}.json"
    spec = {**rig.spec(ref), "annotations": {"lode.dev/claim-record": "half"}}
    rig.files.write(path, json.dumps(spec).encode() if damaged == "record" else b"{}")
    left = rig.files.read(path)
    if api == "has another allocation":
        reallocate(rig, ref, [result("gpu-3")])
    damage(rig)
    plugin = rig.plugin(Unsteady(rig.api, failures=1000 if api == "silent" else 0))
    recover(plugin)
    assert set(plugin.prepared()) == {ref.uid, other.uid}
    assert api == "answers" or rig.files.read(path) == left
    assert plugin.unprepare([other]) == {other.uid: None}
    answering = rig.plugin()
    assert refused(answering, rig.claim("d", [result("gpu-2")])).reason == "conflict"
    assert refused(answering, rig.claim("e", [result("gpu-0")])).reason == "conflict"
    prepare(answering, rig.claim("f", [share("gpu-0-share", SHARE_B, memory="1Gi")]))
    if api != "has another allocation":
        assert prepare(answering, ref) == first
        assert rig.spec(ref)["annotations"] != spec["annotations"]
    assert answering.unprepare([ref]) == {ref.uid: None}


def reallocate(rig: PluginNode, ref: ClaimRef, results: list[dict[str, Any]]) -> None:
    claim = rig.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
    claim["status"] = {}
    rig.allocate(rig.api.update(RESOURCE_CLAIMS, claim, "status"), results)


def test_a_missing_checkpoint_is_made_anew_from_the_files_like_a_damaged_one() -> None:
    rig = PluginNode()
    deleted, mig = rig.claim("deleted", [result("gpu-0")]), rig.claim("mig", [result("gpu-1-mig-1g-5gb-6")])
    before = rig.plugin().prepare([deleted, mig])
    files, existing = rig.claim_files(), rig.existing()
    rig.files.remove(CHECKPOINT)
    rig.release(deleted)
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    recover(plugin)
    release(rig, plugin, 1)
    assert (plugin.prepared(), rig.claim_files(), rig.existing()) == (before, files, existing)
    assert refused(rig.plugin(), rig.claim("d", [result("gpu-0")])).reason == "conflict"
    unprepare(plugin, deleted, mig)
    release(rig, plugin)
    assert (plugin.prepared(), rig.claim_files(), rig.existing()) == ({}, set(), [])


def test_without_a_checkpoint_what_was_half_made_is_undone() -> None:
    rig = PluginNode()
    mig = rig.claim("mig", [result("gpu-1-mig-1g-5gb-6")])
    prepare(rig.plugin(), mig)
    for path in (CHECKPOINT, *rig.claim_files()):
        rig.files.remove(path)
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert (plugin.prepared(), rig.claim_files(), rig.existing()) == ({}, set(), [])


def test_a_record_that_cannot_be_read_is_made_anew_and_the_others_stay_as_they_are() -> None:
    rig = PluginNode()
    refs = [rig.claim(name, [result(f"gpu-{index}")]) for index, name in enumerate("abc")]
    before = rig.plugin().prepare(refs)
    header, _, body = (rig.files.read(CHECKPOINT) or b"").partition(b"\n")
    content = json.loads(body)
    content["claims"][refs[0].uid]["state"] = "floating"
    content["claims"][refs[1].uid]["later"] = "a field of a newer version"
    text = json.dumps(content).encode()
    header = json.dumps({**json.loads(header), "sha256": hashlib.sha256(text).hexdigest()}).encode()
    rig.files.write(CHECKPOINT, header + b"\n" + text)
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    recover(plugin)
    assert plugin.prepared() == before
    stored = json.loads((rig.files.read(CHECKPOINT) or b"").partition(b"\n")[2])["claims"]
    assert stored[refs[1].uid]["later"] == "a field of a newer version"


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_checkpoint_of_an_idle_node_is_rebuilt_and_that_is_said_once(how: str) -> None:
    rig = PluginNode()
    ref = rig.claim("a", [result("gpu-0")])
    plugin = rig.plugin()
    first = prepare(plugin, ref)
    if how == "damaged":
        damage(rig)
    else:
        rig.files.remove(CHECKPOINT)
    with pytest.raises(CorruptCheckpoint):
        plugin.recorded()
    with capture_logs() as lines:
        release(rig, plugin)
        assert plugin.recorded().devices == {"gpu-0"}
        assert plugin.prepared() == {ref.uid: first}
    assert [line["event"] for line in lines] == ["checkpoint is damaged", "damaged checkpoint rebuilt"]


def test_what_keeps_the_checkpoint_from_being_read_is_said_once() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    prepare(plugin, rig.claim("a", [result("gpu-0")]))

    def unreadable(operation: str, path: str) -> None:
        if operation == "read" and path == CHECKPOINT:
            raise OSError(5, "Input/output error", path)

    rig.files.disk.before = unreadable
    with capture_logs() as lines:
        release(rig, plugin)
    assert [line["event"] for line in lines] == ["checkpoint cannot be read"]


def test_a_checkpoint_of_a_newer_version_is_left_as_it_is() -> None:
    rig = PluginNode()
    ref = rig.claim("a", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    data = rig.files.read(CHECKPOINT)
    assert data
    first, _, rest = data.partition(b"\n")
    newer = json.dumps({**json.loads(first), "version": 99}).encode() + b"\n" + rest
    rig.files.write(CHECKPOINT, newer)
    files, plugin = rig.claim_files(), rig.plugin()
    with pytest.raises(OperatorFault, match="written by a newer kubelet plugin: 99"):
        recover(plugin)
    assert refused(plugin, ref).reason == "operator"
    failure = plugin.unprepare([ref])[ref.uid]
    assert failure is not None
    assert failure.reason == "operator"
    assert (rig.claim_files(), rig.files.read(CHECKPOINT)) == (files, newer)
    rig.files.write(CHECKPOINT, data)  # the newer version runs again, and the node is drained
    again = rig.plugin()
    unprepare(again, ref)
    again.leave()
    recover(plugin)
    prepare(plugin, ref)


def test_a_claim_whose_card_was_taken_out_does_not_keep_the_plugin_from_starting() -> None:
    rig = PluginNode("a100x4")
    lost, kept = rig.claim("lost", [result("gpu-3")]), rig.claim("kept", [result("gpu-0")])
    rig.plugin().prepare([lost, kept])
    rig.hardware = PluginNode("t4x2").hardware
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert "does not have the device: 'gpu-3'" in refused(plugin, lost).message
    assert plugin.unprepare([lost]) == {lost.uid: None}
    assert set(plugin.prepared()) == {kept.uid}


class Late(SimulatedHardware):
    """A card of it is there only after the cards were read for the first time, as one that a device plugin serves."""

    def __init__(self, rig: PluginNode):
        super().__init__(rig.profile, NODE, store=rig.store)
        self._reads = 0

    def cards(self) -> tuple[Card, ...]:
        self._reads += 1
        return super().cards()[1:] if self._reads == 1 else super().cards()


def test_a_card_that_comes_while_its_claim_is_restored_does_not_keep_the_plugin_from_starting() -> None:
    rig = PluginNode()
    claim = rig.claim("c", [result("gpu-0-mig-1g-5gb-6")])
    prepare(rig.plugin(), claim)
    rig.reboot()
    plugin = rig.plugin(hardware=Late(rig))
    recover(plugin)
    prepare(plugin, claim)
    assert claim.uid in plugin.prepared()


def test_unprepare_and_the_first_step_of_a_start_need_neither_hardware_nor_api() -> None:
    rig = PluginNode()
    ref = rig.claim("a", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.hardware = Silent()
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    plugin.tidy()
    assert plugin.unprepare([ref]) == {ref.uid: None}
    assert rig.claim_files() == set()
    assert rig.clock.monotonic() == 0


def test_a_claim_found_stale_and_prepared_again_meanwhile_stays() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.reboot()
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    claim = rig.api.update(RESOURCE_CLAIMS, claim, "status")

    class Late(Unsteady):
        """The claim is allocated anew and prepared as soon as the plugin has read it."""

        def call(self, call: ApiCall) -> Any:
            found = super().call(call)
            rig.allocate(claim, [result("gpu-1")])
            prepare(rig.plugin(), ref)
            return found

    plugin = rig.plugin(Late(rig.api, failures=0))
    recover(plugin)
    assert [device.device for device in plugin.prepared()[ref.uid].devices] == ["gpu-1"]
    assert len(rig.claim_files()) == 2
