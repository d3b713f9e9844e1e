"""A card that could not be read is not one that the node does not have: its claims wait, and what they have stays."""

import pytest

from kubeletplugin.hardware import Action, Card, CardGone, Handle, Hardware
from kubeletplugin.prepare import PrepareError
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.plugin_node import (
    PluginNode,
    prepare,
    recover,
    refused,
    release,
    result,
    unprepare,
)

WHY = "card 0: nvmlDeviceGetUUID: unknown error (code 999)"
MIG = "gpu-0-mig-1g-5gb-6"


class LeftOut(HardwareDecorator):
    """Hardware whose first card is gone, or could not be read when its program started."""

    def __init__(self, hardware: Hardware):
        super().__init__(hardware)
        self.why: tuple[str, ...] = (WHY,)

    def cards(self) -> tuple[Card, ...]:
        return super().cards()[1:] if self.why else super().cards()

    def unread_cards(self) -> tuple[str, ...]:
        return self.why

    def release(self, action: Action, handle: Handle | None) -> None:
        if self.why:
            raise CardGone(f"card {action.card} is not there")
        super().release(action, handle)


@pytest.fixture
def rig() -> PluginNode:
    return PluginNode()


@pytest.mark.parametrize("device", ["gpu-0", "gpu-0-share", MIG])
def test_a_claim_for_a_card_that_was_not_read_waits_and_says_why(rig: PluginNode, device: str) -> None:
    hardware = LeftOut(rig.hardware)
    plugin = rig.plugin(hardware=hardware)
    claim = rig.claim("mine", [result(device)])
    answer = refused(plugin, claim)
    assert answer.reason == "transient"
    assert WHY in answer.message
    elsewhere = rig.claim("elsewhere", [result("gpu-1")])
    prepare(plugin, elsewhere)


def test_a_running_claim_is_restored_once_its_card_is_read(rig: PluginNode) -> None:
    claim = rig.claim("mine", [result(MIG)])
    prepare(rig.plugin(), claim)
    spec, path = rig.spec(claim), f"/var/run/cdi/lode.dev-claim_{claim.uid}.json"
    rig.files.remove(path)
    hardware = LeftOut(rig.hardware)
    plugin = rig.plugin(hardware=hardware)
    recover(plugin)
    assert plugin.unrestored == {claim.uid}
    hardware.why = ()
    plugin.restore_rest()
    assert rig.spec(claim) == spec


def test_a_device_that_the_node_does_not_have_is_refused_though_another_card_was_not_read(rig: PluginNode) -> None:
    plugin = rig.plugin(hardware=LeftOut(rig.hardware))
    answer = plugin.prepare([claim := rig.claim("mine", [result("gpu-1-mig-9g-5gb-0")])])[claim.uid]
    assert isinstance(answer, PrepareError)
    assert answer.reason == "invalid"


def test_what_a_claim_made_after_a_reboot_is_not_given_up_with_a_card_that_was_not_read(rig: PluginNode) -> None:
    claim = rig.claim("mine", [result(MIG)])
    prepare(rig.plugin(), claim)
    rig.reboot()
    recover(rig.plugin())
    assert rig.existing() == ["mig:gpu-0:1g.5gb:6", "migmode:gpu-0"]
    hardware = LeftOut(rig.hardware)
    plugin = rig.plugin(hardware=hardware)
    recover(plugin)
    unprepare(plugin, claim)
    release(rig, plugin)
    assert rig.existing()
    assert plugin.retiring.reasons
    hardware.why = ()
    release(rig, plugin)
    assert rig.existing() == []
