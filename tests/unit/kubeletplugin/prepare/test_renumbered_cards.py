"""Cards that get other numbers while claims have them, and power that is lost."""

import hashlib
import json
from dataclasses import replace

import pytest

from kubeletplugin.hardware.simulated import Profile, SimulatedHardware
from kubeletplugin.prepare.checkpoint import VERSION
from tests.unit.kubeletplugin.plugin_node import (
    CHECKPOINT,
    PluginNode,
    prepare,
    recover,
    refused,
    result,
)


def renumber(rig: PluginNode) -> None:
    """The node numbers its cards anew: each gets the number of the next one."""
    cards = rig.hardware.cards()
    shifted = [replace(card, index=(card.index + 1) % len(cards)) for card in cards]
    rig.hardware = SimulatedHardware(Profile(tuple(shifted)))


def test_a_running_claim_keeps_its_card_when_the_cards_are_numbered_anew() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0"), result("gpu-1-mig-1g-5gb-0", "part")])
    prepare(rig.plugin(), ref)
    spec = rig.spec(ref)
    renumber(rig)
    plugin = rig.plugin()
    recover(plugin)
    assert rig.spec(ref) == spec
    error = refused(plugin, ref)
    assert error.reason == "operator"
    assert "device 'gpu-0' was on card" in error.message
    assert "delete the pods that use the claim" in error.message
    assert rig.spec(ref) == spec
    assert plugin.unprepare([ref]) == {ref.uid: None}
    prepare(plugin, rig.claim("d", [result("gpu-0")]))


@pytest.mark.parametrize("wanted", ["gpu-0", "gpu-1", "gpu-1-mig-1g-5gb-0"])
def test_neither_the_card_of_a_running_claim_nor_its_number_is_given_to_another(wanted: str) -> None:
    rig = PluginNode()
    prepare(rig.plugin(), rig.claim("c", [result("gpu-0")]))
    renumber(rig)
    assert refused(rig.plugin(), rig.claim("d", [result(wanted)])).reason == "conflict"
    prepare(rig.plugin(), rig.claim("e", [result("gpu-2")]))


def test_after_a_reboot_a_claim_gets_the_card_that_has_the_number_now() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    spec = rig.spec(ref)
    renumber(rig)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    prepare(plugin, ref)
    assert rig.spec(ref) != spec
    assert str(rig.hardware.cards()[-1].uuid) in json.dumps(rig.spec(ref))
    prepare(plugin, rig.claim("d", [result("gpu-1")]))


def test_a_checkpoint_of_the_first_version_is_read_and_its_claims_keep_their_cards() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    header, _, body = (rig.files.read(CHECKPOINT) or b"").partition(b"\n")
    content = json.loads(body)
    del content["claims"][ref.uid]["cards"]
    old = json.dumps(content).encode()
    first = {**json.loads(header), "version": 1, "sha256": hashlib.sha256(old).hexdigest()}
    rig.files.write(CHECKPOINT, json.dumps(first).encode() + b"\n" + old)
    spec = rig.spec(ref)
    renumber(rig)
    plugin = rig.plugin()
    recover(plugin)
    assert rig.spec(ref) == spec
    assert json.loads((rig.files.read(CHECKPOINT) or b"").partition(b"\n")[0])["version"] == VERSION
    assert refused(plugin, ref).reason == "operator"


@pytest.mark.parametrize(("other", "waits"), [("gpu-1", False), ("gpu-1-mig-1g-5gb-6", True)])
def test_a_prepare_waits_for_the_disk_only_if_a_claim_has_something_on_the_hardware(other: str, waits: bool) -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    prepare(plugin, rig.claim("other", [result(other)]))
    operations: list[str] = []
    rig.files.disk.before = lambda operation, _: operations.append(operation)
    prepare(plugin, rig.claim("a", [result("gpu-0")]))
    assert "rename" in operations
    assert ("sync" in operations) == waits


def test_power_lost_takes_records_of_claims_without_actions_and_the_kubelet_asks_again() -> None:
    rig = PluginNode()
    refs = [rig.claim(name, [result(device)]) for name, device in (("a", "gpu-0"), ("b", "gpu-1"))]
    plugin = rig.plugin()
    first = [prepare(plugin, ref) for ref in refs]
    rig.files.disk.lose_power()
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert [prepare(plugin, ref) for ref in refs] == first
    assert rig.damaged_checkpoints() == []
