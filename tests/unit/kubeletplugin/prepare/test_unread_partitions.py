"""A device that may be a partition of a card which could not be read is neither given up nor given away."""

from dataclasses import replace

import pytest

from kubeletplugin.hardware import Card, Hardware
from kubeletplugin.offers import offer_of
from kubeletplugin.prepare import PrepareError, PrepareResult
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.plugin_node import CDI, SHARE_A, PluginNode, prepare, recover, result, share

WHY = "nvmlDeviceGetMigMode: unknown error (code 999)"


class HalfRead(HardwareDecorator):
    """Hardware that could not read the partitions of its first card."""

    def __init__(self, hardware: Hardware):
        super().__init__(hardware)
        self.unread = True

    def cards(self) -> tuple[Card, ...]:
        first, *others = super().cards()
        return (replace(first, scheme=None, partitions_unread=WHY) if self.unread else first, *others)


@pytest.fixture
def rig() -> PluginNode:
    return PluginNode()


def test_a_running_claim_is_restored_once_its_card_is_read(rig: PluginNode) -> None:
    claim = rig.claim("mine", [result("gpu-0-mig-1g-5gb-6")])
    prepare(rig.plugin(), claim)
    spec = rig.spec(claim)
    rig.files.remove(f"{CDI}/lode.dev-claim_{claim.uid}.json")
    hardware = HalfRead(rig.hardware)
    plugin = rig.plugin(hardware=hardware)
    recover(plugin)
    assert plugin.unrestored == {claim.uid}
    again = plugin.prepare([claim])[claim.uid]
    assert isinstance(again, PrepareError)
    assert "code 999" in again.message
    assert "delete the pod" not in again.message
    hardware.unread = False
    plugin.restore_rest()
    assert plugin.unrestored == frozenset()
    assert rig.spec(claim) == spec


@pytest.mark.parametrize("device", ["gpu-0", "gpu-0-share"])
def test_the_card_of_a_claim_with_an_unknown_partition_is_not_given_to_another(rig: PluginNode, device: str) -> None:
    claim = rig.claim("mine", [result("gpu-0-mig-1g-5gb-6")])
    prepare(rig.plugin(), claim)
    plugin = rig.plugin(hardware=HalfRead(rig.hardware))
    other = rig.claim("other", [result(device)])
    refused = plugin.prepare([other])[other.uid]
    assert isinstance(refused, PrepareError)
    assert "team/mine" in refused.message
    elsewhere = rig.claim("elsewhere", [result("gpu-1")])
    assert isinstance(plugin.prepare([elsewhere])[elsewhere.uid], PrepareResult)


class Unmeasured(HardwareDecorator):
    """Hardware that could not read the memory of its first card."""

    unread = True

    def cards(self) -> tuple[Card, ...]:
        first, *others = super().cards()
        return (replace(first, memory_mib=0, memory_unread=WHY) if self.unread else first, *others)


def test_a_share_of_a_card_whose_memory_was_not_read_is_neither_given_up_nor_given_away(rig: PluginNode) -> None:
    claim = rig.claim("mine", [share("gpu-0-share", SHARE_A)])
    prepare(rig.plugin(), claim)
    spec = rig.spec(claim)
    rig.files.remove(f"{CDI}/lode.dev-claim_{claim.uid}.json")
    hardware = Unmeasured(rig.hardware)
    plugin = rig.plugin(hardware=hardware)
    recover(plugin)
    assert plugin.unrestored == {claim.uid}
    whole = rig.claim("whole", [result("gpu-0")])
    for wanted in (claim, whole):
        refused = plugin.prepare([wanted])[wanted.uid]
        assert isinstance(refused, PrepareError)
        assert ("code 999" if wanted is claim else "team/mine") in refused.message
    card = hardware.cards()[0]
    assert "whole" in offer_of(card, hardware.observe(card), plugin.recorded()).withheld
    hardware.unread = False
    plugin.restore_rest()
    assert (plugin.unrestored, rig.spec(claim)) == (frozenset(), spec)
