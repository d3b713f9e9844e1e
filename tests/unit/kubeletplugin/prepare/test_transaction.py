"""What exists on the hardware is what the prepared claims need, and what may exist is recorded before it does."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from driver.errors import TransientFault
from driver.kube.api import RESOURCE_CLAIMS
from kubeletplugin.hardware import Action, Edits, Handle, Hardware, Use
from kubeletplugin.hardware.simulated import SimulatedHardware
from kubeletplugin.hardware.simulated.profile import Profile
from kubeletplugin.prepare import Preparer
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.faults import Killed
from tests.unit.kubeletplugin.plugin_node import (
    CHECKPOINT,
    SHARE_A,
    SHARE_B,
    PluginNode,
    opaque,
    prepare,
    recover,
    refused,
    release,
    result,
    share,
    unprepare,
)
from tests.unit.kubeletplugin.prepare.partitions import (
    MIG_5,
    MIG_6,
    ONE,
    Dying,
    Watched,
    make_foreign,
    records,
    sharing,
)


def test_a_partition_is_created_when_it_is_prepared_and_destroyed_when_it_is_unprepared(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    assert rig.existing() == ONE
    prepare(plugin, ref)
    assert rig.existing() == ONE
    unprepare(plugin, ref)
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())


def test_every_action_is_recorded_before_the_first_is_carried_out_and_each_answer_after_it(rig: PluginNode) -> None:
    seen: list[tuple[str, list[bool]]] = []
    ref = rig.claim("c", [result(MIG_6)])

    def before(verb: str, action: Action) -> None:
        claim = records(rig)[ref.uid]
        assert (verb, claim.state) == ("ensure", "started")
        assert rig.claim_files() == set()
        seen.append((action.kind, [step.handle is not None for step in claim.steps]))

    prepare(rig.plugin(hardware=Watched(rig.hardware, before)), ref)
    assert seen == [("migmode", [False, False]), ("mig", [True, False])]
    claim = records(rig)[ref.uid]
    assert claim.state == "completed"
    assert claim.handles == {action.key: handle for action, handle in rig.store.load().existing.values()}


def test_a_place_that_somebody_else_leaves_in_time_is_taken_in_the_same_call(rig: PluginNode) -> None:
    key = make_foreign(rig, 5)
    plugin = rig.plugin()
    rig.clock.slept = lambda _: rig.store.save(rig.store.load().without(key))
    prepare(plugin, rig.claim("c", [result("gpu-0-mig-1g-10gb-4")]))
    assert rig.existing() == ["mig:gpu-0:1g.10gb:4", "migmode:gpu-0"]


@pytest.mark.parametrize("moment", ["ensure", "release"])
def test_a_second_instance_that_starts_meanwhile_takes_no_claim_for_abandoned(rig: PluginNode, moment: str) -> None:
    ref, earlier = rig.claim("c", [result(MIG_6)]), rig.claim("earlier", [result("gpu-0-mig-2g-10gb-2")])
    prepare(rig.plugin(), earlier)
    unprepare(rig.plugin(), earlier)
    started: list[Preparer] = []

    def before(verb: str, action: Action) -> None:
        if verb == moment:
            started.append(rig.plugin())
            recover(started[-1])

    old = rig.plugin(hardware=Watched(rig.hardware, before))
    old.retiring.step()
    answer = prepare(old, ref)
    assert bool(started)
    assert rig.plugin().prepared() == {ref.uid: answer}
    release(rig, started[-1])
    assert rig.existing() == ONE
    assert prepare(started[-1], ref) == answer


def test_a_claim_that_a_killed_instance_had_begun_is_given_up_by_the_next(rig: PluginNode) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([ref])
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert (rig.existing(), records(rig)) == ([], {})


def test_a_claim_that_is_allocated_anew_loses_what_it_had_first(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    claim = rig.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
    claim["status"] = {}
    rig.allocate(rig.api.update(RESOURCE_CLAIMS, claim, "status"), [result(MIG_5)])
    prepare(plugin, ref)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:5", "migmode:gpu-0"]


def test_a_vnpus_id_is_recorded_before_it_is_created_and_stays_over_a_reboot() -> None:
    rig = PluginNode("ascend310px4")
    plugin = rig.plugin()
    refs = [rig.claim(f"c{slot}", [result(f"npu-1-vir01-{slot}")]) for slot in range(3)]
    for ref in refs:
        prepare(plugin, ref)
    before = rig.existing()
    assert before == ["vnpu:npu-1:32", "vnpu:npu-1:33", "vnpu:npu-1:34"]
    unprepare(plugin, refs[1])
    release(rig, plugin)
    rig.reboot()
    after = rig.plugin()
    recover(after)
    for ref in (refs[0], refs[2]):
        prepare(after, ref)
    assert rig.existing() == [before[0], before[2]]


def test_after_a_reboot_partitions_are_made_again_before_their_claims_are_prepared(rig: PluginNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    before = prepare(plugin, ref)
    rig.reboot()
    assert rig.existing() == []
    plugin = rig.plugin()
    recover(plugin)
    assert rig.existing() == ONE
    assert plugin.prepared() == {ref.uid: before}
    assert records(rig)[ref.uid].handles == {a.key: handle for a, handle in rig.store.load().existing.values()}
    assert prepare(plugin, ref) == before


@pytest.mark.parametrize(("profile", "device"), [("a100x2", MIG_6), ("ascend310px4", "npu-0-vir01-0")])
def test_after_a_reboot_a_partition_is_on_the_card_that_has_the_number_now_and_on_no_other(
    profile: str, device: str
) -> None:
    rig = PluginNode(profile)
    ref = rig.claim("c", [result(device)])
    prepare(rig.plugin(), ref)
    first, second, *others = rig.hardware.cards()
    moved = Profile((replace(first, index=1), replace(second, index=0), *others))
    rig.hardware = SimulatedHardware(moved, store=rig.store)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    prepare(plugin, ref)
    assert {action.card for action, _ in rig.store.load().existing.values()} == {second.uuid}
    assert {step.action.card for step in records(rig)[ref.uid].steps} == {second.uuid}
    prepare(plugin, rig.claim("d", [result(second.name)]))


@pytest.mark.parametrize("device", ["gpu-0", MIG_6])
def test_a_partition_that_somebody_else_made_is_never_used_nor_destroyed(rig: PluginNode, device: str) -> None:
    key = make_foreign(rig, 6)
    plugin, ref = rig.plugin(), rig.claim("c", [result(device)])
    answer = refused(plugin, ref)
    assert (answer.reason, key in answer.message) == ("operator", True)
    unprepare(plugin, ref)
    recover(plugin)
    release(rig, plugin)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:6"]


def test_beside_a_partition_of_somebody_else_there_is_room_for_ours(rig: PluginNode) -> None:
    make_foreign(rig, 0)
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    unprepare(plugin, ref)
    release(rig, plugin)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:0", "migmode:gpu-0"], "the mode is needed still"
    assert records(rig) == {}


def test_what_cannot_be_created_is_refused_and_nothing_of_it_is_left(rig: PluginNode) -> None:
    make_foreign(rig, 5)
    plugin, ref = rig.plugin(), rig.claim("c", [result("gpu-0-mig-1g-10gb-4")])
    answer = refused(plugin, ref)
    assert (answer.reason, "memory-slice-5 is used by" in answer.message) == ("operator", True)
    assert plugin.prepared() == {}
    rig.store.save(rig.store.load().without(f"mig:{rig.hardware.cards()[0].uuid}:1g.5gb:5"))
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())
    prepare(plugin, ref)


# What claims share


@pytest.mark.parametrize(
    ("config", "key"),
    [(sharing("mps"), "mps:gpu-1"), (sharing("timeSlicing", interval="short"), "timeslice:gpu-1")],
)
def test_what_claims_share_exists_once_until_the_last_of_them_is_unprepared(
    rig: PluginNode, config: dict[str, object], key: str
) -> None:
    plugin = rig.plugin()
    refs = [rig.claim(f"c{i}", [share("gpu-1-share", s)], [config]) for i, s in enumerate((SHARE_A, SHARE_B))]
    for ref in refs:
        prepare(plugin, ref)
    for ref in refs:
        assert rig.existing() == [key]
        unprepare(plugin, ref)
        release(rig, plugin)
    assert rig.existing() == []


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (sharing("mps"), sharing("none"), "with MPS by all claims or by none"),
        (sharing("none"), sharing("mps"), "with MPS by all claims or by none"),
        (sharing("mps"), sharing("timeSlicing"), "with MPS by all claims or by none"),
        (sharing("timeSlicing", interval="short"), sharing("timeSlicing", interval="long"), "one time slice"),
    ],
)
def test_configurations_that_exclude_each_other_are_refused_before_anything_is_done(
    rig: PluginNode, first: dict[str, object], second: dict[str, object], reason: str
) -> None:
    plugin = rig.plugin()
    there = rig.claim("there", [share("gpu-1-share", SHARE_A)], [first])
    prepare(plugin, there)
    existing, stored = rig.existing(), rig.files.read(CHECKPOINT)
    answer = refused(plugin, rig.claim("c", [share("gpu-1-share", SHARE_B)], [second]))
    assert answer.reason == "conflict"
    assert "team/there" in answer.message
    assert reason in answer.message
    assert (rig.existing(), rig.files.read(CHECKPOINT)) == (existing, stored)


def test_two_devices_of_one_claim_that_share_a_card_in_different_ways_are_its_own_fault(rig: PluginNode) -> None:
    results = [share("gpu-1-share", SHARE_A, request="a"), share("gpu-1-share", SHARE_B, request="b")]
    config = [
        opaque("a", kind="GpuConfig", sharing="timeSlicing", interval="long"),
        opaque("b", kind="GpuConfig", sharing="timeSlicing", interval="short"),
    ]
    answer = refused(rig.plugin(), rig.claim("c", results, config))
    assert (answer.reason, "in different ways" in answer.message) == ("invalid", True)
    assert rig.existing() == []


def test_what_the_card_cannot_do_is_the_claims_fault(rig: PluginNode) -> None:
    answer = refused(rig.plugin(), rig.claim("c", [result(MIG_6)], [sharing("mps")]))
    assert (answer.reason, "does not apply to a partition" in answer.message) == ("invalid", True)
    assert (rig.existing(), records(rig)) == ([], {})


def test_a_claim_overrides_the_strategy_of_its_class_and_the_fields_that_belong_to_it(rig: PluginNode) -> None:
    of_class = {**sharing("timeSlicing", interval="long"), "source": "FromClass"}
    ref = rig.claim("c", [share("gpu-1-share", SHARE_A)], [of_class, sharing("mps")])
    prepare(rig.plugin(), ref)
    assert rig.existing() == ["mps:gpu-1"]


class WithPipes(HardwareDecorator):
    """Hardware whose cards have an MPS daemon each, with a directory of its own."""

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        edits = super().edits(use, handles)
        return replace(edits, env=(*edits.env, ("CUDA_MPS_PIPE_DIRECTORY", f"/mps/{use.card.index}")))


def test_devices_that_need_different_values_of_one_variable_are_refused_and_nothing_is_left(rig: PluginNode) -> None:
    plugin = rig.plugin(hardware=WithPipes(rig.hardware))
    results = [share(f"gpu-{i}-share", s, request=f"r{i}") for i, s in enumerate((SHARE_A, SHARE_B))]
    answer = refused(plugin, rig.claim("c", results, [sharing("mps")]))
    assert answer.reason == "invalid"
    for part in ("CUDA_MPS_PIPE_DIRECTORY", "gpu-0-share", "gpu-1-share", "'/mps/0' and '/mps/1'", "two claims"):
        assert part in answer.message
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())
    prepare(plugin, rig.claim("one", [results[0]], [sharing("mps")]))


# Calls that overlap


def test_a_claim_that_is_unprepared_while_it_is_prepared_leaves_nothing(rig: PluginNode) -> None:
    ref, other = rig.claim("c", [result(MIG_6)]), rig.plugin()

    def before(verb: str, action: Action) -> None:
        if action.kind == "mig" and verb == "ensure":
            unprepare(other, ref)

    answer = refused(rig.plugin(hardware=Watched(rig.hardware, before)), ref)
    assert "unprepared meanwhile" in answer.message
    assert rig.claim_files() == set()
    release(rig, other)
    assert (rig.existing(), records(rig)) == ([], {})


class Slow(HardwareDecorator):
    """Hardware whose first change is carried out, and not answered in time."""

    def __init__(self, hardware: Hardware):
        super().__init__(hardware)
        self.silent = 1

    def ensure(self, action: Action) -> Handle:
        handle = super().ensure(action)
        if self.silent:
            self.silent -= 1
            raise TransientFault("did not answer within 30 s")
        return handle


def test_what_was_created_without_an_answer_is_adopted(rig: PluginNode) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(hardware=Slow(rig.hardware)), ref)
    assert rig.existing() == ONE


def test_an_id_of_a_vnpu_is_not_chosen_anew_for_another_try() -> None:
    rig = PluginNode("ascend310px4")
    asked: list[str] = []
    ref = rig.claim("c", [result("npu-1-vir01-0")])
    slow = Watched(Slow(rig.hardware), lambda _verb, action: asked.append(action.key))
    prepare(rig.plugin(hardware=slow), ref)
    assert len(asked) == 2
    assert len(set(asked)) == len(rig.existing()) == 1
