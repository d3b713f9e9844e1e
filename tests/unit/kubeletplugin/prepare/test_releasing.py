"""What claims had is released when they are given up: in time, in order, and only when nothing uses it any more."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from kubeletplugin.hardware import Action, Card, CardState, Handle, Use
from kubeletplugin.hardware.simulated import SimulatedHardware
from kubeletplugin.hardware.simulated.profile import Profile
from kubeletplugin.prepare.preparer import RETRY_TIMEOUT_SECONDS
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    PluginNode,
    prepare,
    recover,
    refused,
    release,
    result,
    unprepare,
)
from tests.unit.kubeletplugin.prepare.partitions import MIG_6, ONE, Watched, records


class Dead(HardwareDecorator):
    """Hardware that answers no question about a card."""

    def observe(self, card: Card) -> CardState:
        raise TransientFault("the hardware does not answer")

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        raise TransientFault("the hardware does not answer")

    def release(self, action: Action, handle: Handle | None) -> None:
        raise TransientFault("the hardware does not answer")


def test_an_unprepare_records_that_it_stops_before_it_undoes_the_actions_in_reverse(rig: PluginNode) -> None:
    seen: list[tuple[str, int]] = []
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(), ref)

    def before(verb: str, action: Action) -> None:
        claim = records(rig)[ref.uid]
        assert (verb, claim.state, rig.claim_files()) == ("release", "stopping", set())
        seen.append((action.kind, len(claim.steps)))

    plugin = rig.plugin(hardware=Watched(rig.hardware, before))
    unprepare(plugin, ref)
    assert seen == [], "the kubelet does not wait for the hardware"
    release(rig, plugin)
    assert seen == [("mig", 2), ("migmode", 1)]


def test_a_pod_ends_while_the_hardware_does_not_answer_and_its_partition_goes_when_it_does(rig: PluginNode) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(), ref)
    plugin = rig.plugin(hardware=Dead(rig.hardware))
    unprepare(plugin, ref)
    assert (rig.claim_files(), plugin.prepared()) == (set(), {})
    release(rig, plugin)
    assert rig.existing() == ONE
    assert list(plugin.retiring.reasons.values()) == ["the hardware does not answer"]
    assert plugin.retiring.releasing(rig.hardware.cards()) == {MIG_6}
    answering = rig.plugin()
    recover(answering)
    release(rig, answering)
    assert (rig.existing(), answering.retiring.releasing(rig.hardware.cards())) == ([], frozenset())


def test_what_was_left_on_a_card_that_was_exchanged_does_not_hold_the_card_in_its_place(rig: PluginNode) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(), ref)
    unprepare(rig.plugin(), ref)
    first, second = rig.hardware.cards()
    rig.hardware = SimulatedHardware(Profile((replace(first, uuid="in-its-place"), second)))
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert list(plugin.retiring.reasons.values()) == [f"card {first.uuid} is not there"]
    assert plugin.retiring.releasing(rig.hardware.cards()) == frozenset()
    prepare(plugin, rig.claim("d", [result(MIG_6)]))
    assert records(rig)[ref.uid].state == "stopping"


def test_what_is_left_on_a_card_that_is_gone_for_good_is_said_once(rig: PluginNode) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(), ref)
    unprepare(rig.plugin(), ref)
    rig.hardware = SimulatedHardware(Profile(()))
    with capture_logs() as lines:
        plugin = rig.plugin()
        for _ in range(10):
            release(rig, plugin)
            rig.clock.advance(120)
    said = [line for line in lines if line["event"] == "what a claim had is not released yet"]
    assert len(said) == 1
    assert "is not there" in said[0]["reason"]


def test_a_partition_that_processes_use_is_released_when_they_have_ended(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    state = rig.store.load()
    rig.store.save(replace(state, in_use=frozenset(key for key in state.existing if key.startswith("mig:"))))
    unprepare(plugin, ref)
    release(rig, plugin)
    assert rig.existing() == ONE
    assert "processes use it" in plugin.retiring.reasons[ref.uid]
    rig.release(ref)
    later = rig.claim("later", [result(MIG_6)])
    answer = refused(plugin, later)
    assert (answer.reason, "processes use it" in answer.message) == ("conflict", True)
    rig.store.save(replace(rig.store.load(), in_use=frozenset()))
    release(rig, plugin)
    assert (rig.existing(), plugin.retiring.reasons) == ([], {})
    prepare(plugin, later)


@pytest.mark.parametrize("device", [MIG_6, "gpu-0", "gpu-0-mig-2g-10gb-4"])
def test_what_the_driver_reports_in_use_for_a_moment_after_its_processes_ended_is_waited_for(
    rig: PluginNode, device: str
) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    state = rig.store.load()
    rig.store.save(replace(state, in_use=frozenset(key for key in state.existing if key.startswith("mig:"))))
    unprepare(plugin, ref)
    rig.release(ref)
    release(rig, plugin, 1)
    ends = rig.clock.monotonic() + 5

    def end(_: float) -> None:
        if rig.clock.monotonic() >= ends:
            rig.store.save(replace(rig.store.load(), in_use=frozenset()))

    rig.clock.slept = end
    prepare(plugin, rig.claim("next", [result(device)]))
    assert rig.clock.monotonic() < ends + RETRY_TIMEOUT_SECONDS


def test_nothing_is_undone_while_the_cdi_spec_cannot_be_removed(rig: PluginNode) -> None:
    ref, other = rig.claim("c", [result(MIG_6)]), rig.claim("other", [result("gpu-1")])
    plugin = rig.plugin()
    plugin.prepare([ref, other])
    files = rig.claim_files()

    def read_only(operation: str, path: str) -> None:
        if operation in ("create", "unlink", "exchange", "rename") and path.startswith(CDI):
            raise OSError(30, "Read-only file system", path)

    rig.files.disk.before = read_only
    answers = plugin.unprepare([ref, other])
    for uid in (ref.uid, other.uid):
        failure = answers[uid]
        assert failure is not None
        assert (failure.reason, f"{CDI}/lode.dev-claim_{uid}.json" in failure.message) == ("operator", True)
    release(rig, plugin)
    plugin = rig.plugin()
    plugin.tidy()
    release(rig, plugin)
    assert (rig.existing(), rig.claim_files()) == (ONE, files)
    rig.files.disk.before = None
    unprepare(plugin, ref, other)
    release(rig, plugin)
    assert (rig.existing(), rig.claim_files(), records(rig)) == ([], set(), {})


def test_a_partition_that_is_being_released_is_released_at_once_for_the_next_claim(rig: PluginNode) -> None:
    plugin = rig.plugin()
    for name in ("first", "second", "third"):
        ref = rig.claim(name, [result(MIG_6)])
        prepare(plugin, ref)
        assert rig.existing() == ONE
        unprepare(plugin, ref)
        rig.release(ref)
    release(rig, plugin)
    assert rig.existing() == []


def test_the_same_claim_is_prepared_again_while_what_it_had_is_being_released(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    before = prepare(plugin, ref)
    unprepare(plugin, ref)
    assert prepare(plugin, ref) == before
    release(rig, plugin)
    assert (rig.existing(), set(plugin.prepared())) == (ONE, {ref.uid})


def test_what_a_claim_had_before_the_reboot_and_needs_no_more_is_released() -> None:
    rig = PluginNode("ascend310px4")
    ref = rig.claim("c", [result("npu-1-vir01-0")])
    prepare(rig.plugin(), ref)
    rig.release(ref)
    rig.reboot()
    assert rig.existing() == ["vnpu:npu-1:32"]
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert (rig.existing(), records(rig)) == ([], {})


@pytest.mark.parametrize(
    ("profile", "device", "is_dropped"), [("a100x2", MIG_6, True), ("ascend310px4", "npu-0-vir01-0", False)]
)
def test_what_was_on_a_card_that_a_reboot_did_not_find_is_gone_unless_it_outlives_reboots(
    profile: str, device: str, is_dropped: bool
) -> None:
    rig = PluginNode(profile)
    ref = rig.claim("c", [result(device)])
    prepare(rig.plugin(), ref)
    cards = rig.hardware.cards()
    rig.hardware = SimulatedHardware(Profile(cards[1:]), store=rig.store)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    unprepare(plugin, ref)
    release(rig, plugin)
    assert (records(rig) == {}) == is_dropped
    rig.hardware = SimulatedHardware(Profile(cards), store=rig.store)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert (rig.existing(), records(rig)) == ([], {})
