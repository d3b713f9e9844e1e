"""What a card is not offered as is not prepared either, though it was allocated before the card's mode changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from driver.kinds import Offer
from kubeletplugin.hardware import Card, CardState
from kubeletplugin.hardware.simulated import SimulatedHardware
from tests.unit.kubeletplugin.plugin_node import (
    NODE,
    SHARE_A,
    PluginNode,
    Result,
    prepare,
    recover,
    refused,
    result,
    share,
)

WHY = "the mode is wrong; set it right"
CALL = "DCMI: dcmi_get_device_share_enable: timeout (code -8006)"


class Moded(SimulatedHardware):
    """Cards whose modes exclude offers, or do not say whether they do."""

    excluded: Mapping[Offer, str] = {}
    unread: Mapping[Offer, str] = {}

    def observe(self, card: Card) -> CardState:
        return replace(super().observe(card), excluded=self.excluded, unread=self.unread)


class ModedNode(PluginNode):
    """A ``PluginNode`` with such cards."""

    def __init__(self, profile: str) -> None:
        super().__init__(profile)
        self.moded = Moded(self.profile, NODE, store=self.store)
        self.hardware = self.moded


USES: Sequence[tuple[str, Offer, Result]] = [
    ("a100x4", "whole", result("gpu-0")),
    ("a100x4", "share", share("gpu-0-share", SHARE_A)),
    ("a100x4", "partitions", result("gpu-0-mig-1g-5gb-3")),
    ("t4x2", "share", share("gpu-0-share", SHARE_A)),
    ("ascend310px4", "share", share("npu-0-share", SHARE_A)),
    ("ascend310px4", "partitions", result("npu-0-vir04-0")),
]


@pytest.mark.parametrize(("profile", "offer", "device"), USES)
def test_what_a_mode_excludes_is_refused_with_the_remedy_until_the_mode_is_right(
    profile: str, offer: Offer, device: Result
) -> None:
    node = ModedNode(profile)
    plugin, ref = node.plugin(), node.claim("c", [device])
    node.moded.excluded = {offer: WHY}
    answer = refused(plugin, ref)
    assert answer.reason == "operator"
    assert WHY in answer.message
    assert node.existing() == []
    node.moded.excluded = {}
    prepare(plugin, ref)


@pytest.mark.parametrize(("profile", "offer", "device"), USES)
def test_what_a_mode_may_exclude_that_is_not_known_is_tried_again(profile: str, offer: Offer, device: Result) -> None:
    node = ModedNode(profile)
    plugin, ref = node.plugin(), node.claim("c", [device])
    node.moded.unread = {offer: CALL}
    answer = refused(plugin, ref)
    assert answer.reason == "transient"
    assert CALL in answer.message
    assert node.existing() == []
    node.moded.unread = {}
    prepare(plugin, ref)


@pytest.mark.parametrize(("profile", "offer", "device"), USES)
def test_what_a_mode_excludes_otherwise_is_prepared(profile: str, offer: Offer, device: Result) -> None:
    node = ModedNode(profile)
    others: Sequence[Offer] = ("whole", "share", "partitions")
    node.moded.excluded = {other: WHY for other in others if other != offer}
    prepare(node.plugin(), node.claim("c", [device]))


@pytest.mark.parametrize(("profile", "offer", "device"), [use for use in USES if use[0] != "a100x4"])
def test_a_claim_that_is_prepared_stays_so_until_the_node_restarts(profile: str, offer: Offer, device: Result) -> None:
    node = ModedNode(profile)
    plugin, ref = node.plugin(), node.claim("c", [device])
    prepare(plugin, ref)
    node.moded.excluded = {offer: WHY}
    prepare(plugin, ref)
    node.reboot()
    again = node.plugin()
    before = node.existing()
    recover(again)
    assert node.existing() == before, "nothing is made in the wrong mode"
    assert WHY in refused(again, ref).message
    node.moded.excluded = {}
    prepare(again, ref)
