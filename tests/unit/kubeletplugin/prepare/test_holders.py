"""Devices of one card that exclude each other: who holds them, who waits, and for whom."""

from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS
from driver.settings import Settings
from kubeletplugin.prepare.preparer import RETRY_TIMEOUT_SECONDS
from kubeletplugin.prepare.retiring import LOOK_SECONDS
from tests.unit.kubeletplugin.plugin_node import (
    SHARE_A,
    SHARE_B,
    PluginNode,
    prepare,
    refused,
    result,
    share,
)


@pytest.mark.parametrize(
    ("holder", "wanted"),
    [
        (result("gpu-0"), result("gpu-0")),
        (result("gpu-0"), share("gpu-0-share", SHARE_A)),
        (share("gpu-0-share", SHARE_A), result("gpu-0")),
        (result("gpu-0"), result("gpu-0-mig-1g-5gb-0")),
        (result("gpu-0-mig-1g-5gb-0"), result("gpu-0")),
        (share("gpu-0-share", SHARE_A), result("gpu-0-mig-3g-20gb-4")),
        (result("gpu-0-mig-3g-20gb-0"), result("gpu-0-mig-1g-5gb-2")),
        (share("gpu-0-share", SHARE_A), share("gpu-0-share", SHARE_A)),
        (result("gpu-0-share"), share("gpu-0-share", SHARE_A)),
    ],
)
def test_what_excludes_each_other_on_one_card_is_never_prepared_twice(holder: Any, wanted: Any) -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    first, second = rig.claim("first", [holder]), rig.claim("second", [wanted])
    prepare(plugin, first)
    error = refused(plugin, second)
    assert error.reason == "conflict"
    assert "hold its devices: ResourceClaim team/first" in error.message
    assert set(plugin.prepared()) == {first.uid}
    assert rig.clock.monotonic() == 0
    plugin.unprepare([first])
    prepare(plugin, second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (share("gpu-0-share", SHARE_A), share("gpu-0-share", SHARE_B)),
        (result("gpu-0-mig-3g-20gb-0"), result("gpu-0-mig-1g-5gb-4")),
        (result("gpu-0"), result("gpu-1")),
        (result("gpu-0"), result("gpu-0", adminAccess=True)),
        (result("gpu-0", adminAccess=True), result("gpu-0")),
        (result("gpu-0", adminAccess=True), result("gpu-0-mig-1g-5gb-0")),
    ],
)
def test_what_goes_together_is_prepared_side_by_side(one: Any, other: Any) -> None:
    rig = PluginNode()
    rig.allow_admin_access()
    for name, held in (("one", one), ("other", other)):
        prepare(rig.plugin(), rig.claim(name, [held]))


def test_three_partitions_that_fit_in_pairs_only_are_not_all_prepared() -> None:
    rig = PluginNode("ascend310px4")
    plugin = rig.plugin()
    for slot in range(3):
        prepare(plugin, rig.claim(f"c{slot}", [result(f"npu-0-vir02-{slot}")]))
    error = refused(plugin, rig.claim("c3", [result("npu-0-vir04-3c-0")]))
    assert all(f"team/c{slot}" in error.message for slot in range(3))


def test_a_narrower_offer_does_not_lose_what_was_allocated_before() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    rig.settings = Settings.model_validate({"kubeletplugin": {"offer": ["share"]}})
    prepare(rig.plugin(), ref)
    error = refused(rig.plugin(), rig.claim("d", [share("gpu-0-share", SHARE_A)]))
    assert error.reason == "conflict"


def test_a_claim_gone_since_before_the_reboot_makes_way() -> None:
    rig = PluginNode()
    old = rig.claim("old", [result("gpu-0")])
    prepare(rig.plugin(), old)
    rig.release(old)
    rig.reboot()
    plugin = rig.plugin()
    new = rig.claim("new", [result("gpu-0")])
    prepare(plugin, new)
    assert set(plugin.prepared()) == {new.uid}
    assert rig.clock.monotonic() == 0


def test_a_claim_gone_from_the_api_but_not_given_up_by_the_kubelet_is_waited_for() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    old = rig.claim("old", [result("gpu-0")])
    prepare(plugin, old)
    rig.release(old)
    new = rig.claim("new", [result("gpu-0")])
    error = refused(plugin, new)
    assert (error.reason, "their containers may still run" in error.message) == ("conflict", True)
    assert RETRY_TIMEOUT_SECONDS - 2 <= rig.clock.monotonic() <= RETRY_TIMEOUT_SECONDS
    assert set(plugin.prepared()) == {old.uid}
    rig.clock.slept = lambda _: plugin.unprepare([old])
    prepare(plugin, new)


def test_devices_of_a_claim_that_is_gone_are_given_to_nobody_until_its_containers_have_stopped() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    old = rig.claim("old", [result("gpu-0"), result("gpu-1", "other")])
    prepare(plugin, old)
    rig.release(old)
    assert plugin.retiring.releasing(rig.hardware.cards()) == frozenset()
    refused(plugin, rig.claim("new", [result("gpu-0")]))
    assert plugin.retiring.releasing(rig.hardware.cards()) == {"gpu-0", "gpu-1"}
    plugin.unprepare([old])
    assert plugin.retiring.releasing(rig.hardware.cards()) == frozenset()


def test_another_instance_that_gives_up_the_claim_frees_its_devices() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    old = rig.claim("old", [result("gpu-0")])
    prepare(plugin, old)
    rig.release(old)
    refused(plugin, rig.claim("new", [result("gpu-0")]))
    rig.plugin().unprepare([old])
    rig.clock.advance(LOOK_SECONDS)
    plugin.retiring.step()
    assert plugin.retiring.releasing(rig.hardware.cards()) == frozenset()


def test_shares_are_prepared_only_as_far_as_the_card_goes() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    prepare(plugin, rig.claim("one", [share("gpu-0-share", SHARE_A, "30Gi")]))
    error = refused(plugin, rig.claim("other", [share("gpu-0-share", SHARE_B, "11Gi")]))
    assert error.reason == "conflict"
    prepare(plugin, rig.claim("small", [share("gpu-0-share", SHARE_B, "10Gi")]))


def test_a_share_waits_for_containers_of_a_share_that_is_gone_and_not_for_live_ones() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    live = rig.claim("live", [share("gpu-0-share", SHARE_A, "10Gi")])
    old = rig.claim("old", [share("gpu-0-share", SHARE_B, "30Gi")])
    prepare(plugin, live)
    prepare(plugin, old)
    rig.release(old)
    new = rig.claim("new", [share("gpu-0-share", SHARE_B.replace("1", "2"), "30Gi")])
    error = refused(plugin, new)
    assert "their containers may still run" in error.message
    assert old.name in error.message
    assert live.name not in error.message
    rig.clock.slept = lambda _: plugin.unprepare([old])
    prepare(plugin, new)
    assert set(plugin.prepared()) == {live.uid, new.uid}


def test_a_share_that_is_gone_since_before_the_reboot_makes_way_and_a_live_one_stays() -> None:
    rig = PluginNode()
    live = rig.claim("live", [share("gpu-0-share", SHARE_A, "10Gi")])
    old = rig.claim("old", [share("gpu-0-share", SHARE_B, "30Gi")])
    prepare(rig.plugin(), live)
    prepare(rig.plugin(), old)
    rig.release(old)
    rig.reboot()
    new = rig.claim("new", [share("gpu-0-share", SHARE_B.replace("1", "2"), "30Gi")])
    prepare(rig.plugin(), new)
    assert set(rig.plugin().prepared()) == {live.uid, new.uid}


def test_a_claim_judged_gone_and_prepared_anew_meanwhile_is_kept() -> None:
    rig = PluginNode("t4x4")
    old = rig.claim("old", [share("gpu-0-share", SHARE_A)])
    prepare(rig.plugin(), old)
    rig.reboot()
    tenant = rig.claim("tenant", [share("gpu-0-share", SHARE_B)])
    plugin = rig.plugin()
    prepare(plugin, tenant)
    claim = rig.api.get(RESOURCE_CLAIMS, "old", "team")
    claim["status"] = {}
    rig.api.update(RESOURCE_CLAIMS, claim, "status")
    rig.release(tenant)

    def meanwhile(_: float) -> None:
        if tenant.uid in plugin.prepared():
            rig.allocate(rig.api.get(RESOURCE_CLAIMS, "old", "team"), [result("gpu-1")])
            prepare(rig.plugin(), old)
            plugin.unprepare([tenant])

    new = rig.claim("new", [result("gpu-0")])
    rig.clock.slept = meanwhile
    prepare(plugin, new)
    assert set(plugin.prepared()) == {old.uid, new.uid}
    assert refused(plugin, rig.claim("thief", [result("gpu-1")])).reason == "conflict"
