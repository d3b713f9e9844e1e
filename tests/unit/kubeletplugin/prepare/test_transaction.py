"""What exists on the hardware is what the prepared claims need, and what may exist is recorded before it does."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from driver.kube.api import RESOURCE_CLAIMS
from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Hardware, Use
from kubeletplugin.hardware.actions import MigInstance
from kubeletplugin.hardware.decorator import HardwareDecorator
from kubeletplugin.hardware.simulated import SimulatedHardware
from kubeletplugin.hardware.simulated.profile import Profile
from kubeletplugin.prepare import ClaimRef, Preparer
from kubeletplugin.prepare.checkpoint import PreparedClaim
from kubeletplugin.prepare.preparer import RETRY_TIMEOUT_SECONDS
from kubeletplugin.prepare.storage import ClaimStorage
from tests.unit.kubeletplugin.faults import Killed
from tests.unit.kubeletplugin.rig import (
    CDI,
    CHECKPOINT,
    PLUGIN,
    SHARE_A,
    SHARE_B,
    Rig,
    opaque,
    prepare,
    recover,
    refused,
    release,
    result,
    share,
    unprepare,
)

MIG_6, MIG_5 = "gpu-0-mig-1g-5gb-6", "gpu-0-mig-1g-5gb-5"
ONE = ["mig:gpu-0:1g.5gb:6", "migmode:gpu-0"]


def records(rig: Rig) -> dict[str, PreparedClaim]:
    return dict(ClaimStorage(rig.files, rig.settings).load().claims)


def sharing(strategy: str, **more: str) -> dict[str, object]:
    return opaque(kind="GpuConfig", sharing=strategy, **more)


class Watched(HardwareDecorator):
    """Calls ``before`` before each change, with what is about to be changed."""

    def __init__(self, hardware: Hardware, before: Callable[[str, Action], None]):
        super().__init__(hardware)
        self._before = before

    def ensure(self, action: Action) -> Handle:
        self._before("ensure", action)
        return super().ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        self._before("release", action)
        super().release(action, handle)


class Dead(HardwareDecorator):
    """Hardware that answers no question about a card."""

    def observe(self, card: Card) -> CardState:
        raise TransientFault("the hardware does not answer")

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        raise TransientFault("the hardware does not answer")

    def release(self, action: Action, handle: Handle | None) -> None:
        raise TransientFault("the hardware does not answer")


@pytest.fixture
def rig() -> Rig:
    return Rig("a100x2")


def test_a_partition_is_created_when_it_is_prepared_and_destroyed_when_it_is_unprepared(rig: Rig) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    assert rig.existing() == ONE
    prepare(plugin, ref)
    assert rig.existing() == ONE
    unprepare(plugin, ref)
    release(rig, plugin)
    assert (rig.existing(), records(rig), rig.claim_files()) == ([], {}, set())


def test_every_action_is_recorded_before_the_first_is_carried_out_and_each_answer_after_it(rig: Rig) -> None:
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


def test_an_unprepare_records_that_it_stops_before_it_undoes_the_actions_in_reverse(rig: Rig) -> None:
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


def test_a_pod_ends_while_the_hardware_does_not_answer_and_its_partition_goes_when_it_does(rig: Rig) -> None:
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


def test_what_was_left_on_a_card_that_was_exchanged_does_not_hold_the_card_in_its_place(rig: Rig) -> None:
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


def test_what_is_left_on_a_card_that_is_gone_for_good_is_said_once(rig: Rig) -> None:
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


def test_a_partition_that_processes_use_is_released_when_they_have_ended(rig: Rig) -> None:
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
    rig: Rig, device: str
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


def test_a_place_that_somebody_else_leaves_in_time_is_taken_in_the_same_call(rig: Rig) -> None:
    key = make_foreign(rig, 5)
    plugin = rig.plugin()
    rig.clock.slept = lambda _: rig.store.save(rig.store.load().without(key))
    prepare(plugin, rig.claim("c", [result("gpu-0-mig-1g-10gb-4")]))
    assert rig.existing() == ["mig:gpu-0:1g.10gb:4", "migmode:gpu-0"]


@pytest.mark.parametrize("moment", ["ensure", "release"])
def test_a_second_instance_that_starts_meanwhile_takes_no_claim_for_abandoned(rig: Rig, moment: str) -> None:
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


def test_a_claim_that_a_killed_instance_had_begun_is_given_up_by_the_next(rig: Rig) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([ref])
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert (rig.existing(), records(rig)) == ([], {})


def full_of_claims(rig: Rig) -> tuple[Preparer, list[ClaimRef]]:
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


def test_on_a_full_disk_every_pod_can_end_and_what_its_claims_had_is_released(rig: Rig) -> None:
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


def test_on_a_full_disk_a_plugin_starts_gives_up_what_was_begun_and_ends_what_is_prepared(rig: Rig) -> None:
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


def test_a_damaged_checkpoint_is_rebuilt_on_a_full_disk(rig: Rig) -> None:
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


def test_a_plugin_that_stops_without_claims_leaves_nothing_that_was_reserved(rig: Rig) -> None:
    plugin, refs = full_of_claims(rig)
    unprepare(plugin, *refs)
    release(rig, plugin)
    plugin.leave()
    assert rig.files.names(PLUGIN) == []


def test_nothing_is_undone_while_the_cdi_spec_cannot_be_removed(rig: Rig) -> None:
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


def test_a_partition_that_is_being_released_is_released_at_once_for_the_next_claim(rig: Rig) -> None:
    plugin = rig.plugin()
    for name in ("first", "second", "third"):
        ref = rig.claim(name, [result(MIG_6)])
        prepare(plugin, ref)
        assert rig.existing() == ONE
        unprepare(plugin, ref)
        rig.release(ref)
    release(rig, plugin)
    assert rig.existing() == []


def test_the_same_claim_is_prepared_again_while_what_it_had_is_being_released(rig: Rig) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    before = prepare(plugin, ref)
    unprepare(plugin, ref)
    assert prepare(plugin, ref) == before
    release(rig, plugin)
    assert (rig.existing(), set(plugin.prepared())) == (ONE, {ref.uid})


def test_a_claim_that_is_allocated_anew_loses_what_it_had_first(rig: Rig) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    claim = rig.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
    claim["status"] = {}
    rig.allocate(rig.api.update(RESOURCE_CLAIMS, claim, "status"), [result(MIG_5)])
    prepare(plugin, ref)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:5", "migmode:gpu-0"]


def test_a_vnpus_id_is_recorded_before_it_is_created_and_stays_over_a_reboot() -> None:
    rig = Rig("ascend310px4")
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


def test_after_a_reboot_partitions_are_made_again_before_their_claims_are_prepared(rig: Rig) -> None:
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
    rig = Rig(profile)
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


def test_what_a_claim_had_before_the_reboot_and_needs_no_more_is_released() -> None:
    rig = Rig("ascend310px4")
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
def test_what_was_on_a_card_that_a_start_of_the_machine_did_not_find_is_gone_with_it_unless_it_outlives_that(
    profile: str, device: str, is_dropped: bool
) -> None:
    rig = Rig(profile)
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


# What others made


def make_foreign(rig: Rig, start: int) -> str:
    card = rig.hardware.cards()[0]
    action = MigInstance(card.uuid, "1g.5gb", start)
    rig.store.save(rig.store.load().with_action(action, {"uuid": "MIG-of-somebody-else"}))
    return action.key


@pytest.mark.parametrize("device", ["gpu-0", MIG_6])
def test_a_partition_that_somebody_else_made_is_never_used_nor_destroyed(rig: Rig, device: str) -> None:
    key = make_foreign(rig, 6)
    plugin, ref = rig.plugin(), rig.claim("c", [result(device)])
    answer = refused(plugin, ref)
    assert (answer.reason, key in answer.message) == ("operator", True)
    unprepare(plugin, ref)
    recover(plugin)
    release(rig, plugin)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:6"]


def test_beside_a_partition_of_somebody_else_there_is_room_for_ours(rig: Rig) -> None:
    make_foreign(rig, 0)
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    unprepare(plugin, ref)
    release(rig, plugin)
    assert rig.existing() == ["mig:gpu-0:1g.5gb:0", "migmode:gpu-0"], "the mode is needed still"
    assert records(rig) == {}


def test_what_cannot_be_created_is_refused_and_nothing_of_it_is_left(rig: Rig) -> None:
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
    rig: Rig, config: dict[str, object], key: str
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
    rig: Rig, first: dict[str, object], second: dict[str, object], reason: str
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


def test_two_devices_of_one_claim_that_share_a_card_in_different_ways_are_its_own_fault(rig: Rig) -> None:
    results = [share("gpu-1-share", SHARE_A, request="a"), share("gpu-1-share", SHARE_B, request="b")]
    config = [
        opaque("a", kind="GpuConfig", sharing="timeSlicing", interval="long"),
        opaque("b", kind="GpuConfig", sharing="timeSlicing", interval="short"),
    ]
    answer = refused(rig.plugin(), rig.claim("c", results, config))
    assert (answer.reason, "in different ways" in answer.message) == ("invalid", True)
    assert rig.existing() == []


def test_what_the_card_cannot_do_is_the_claims_fault(rig: Rig) -> None:
    answer = refused(rig.plugin(), rig.claim("c", [result(MIG_6)], [sharing("mps")]))
    assert (answer.reason, "does not apply to a partition" in answer.message) == ("invalid", True)
    assert (rig.existing(), records(rig)) == ([], {})


def test_a_claim_overrides_the_strategy_of_its_class_and_the_fields_that_belong_to_it(rig: Rig) -> None:
    of_class = {**sharing("timeSlicing", interval="long"), "source": "FromClass"}
    ref = rig.claim("c", [share("gpu-1-share", SHARE_A)], [of_class, sharing("mps")])
    prepare(rig.plugin(), ref)
    assert rig.existing() == ["mps:gpu-1"]


class WithPipes(HardwareDecorator):
    """Hardware whose cards have an MPS daemon each, with a directory of its own."""

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        edits = super().edits(use, handles)
        return replace(edits, env=(*edits.env, ("CUDA_MPS_PIPE_DIRECTORY", f"/mps/{use.card.index}")))


def test_devices_that_need_different_values_of_one_variable_are_refused_and_nothing_is_left(rig: Rig) -> None:
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


def test_a_claim_that_is_unprepared_while_it_is_prepared_leaves_nothing(rig: Rig) -> None:
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


def test_what_was_created_without_an_answer_is_adopted(rig: Rig) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    prepare(rig.plugin(hardware=Slow(rig.hardware)), ref)
    assert rig.existing() == ONE


def test_an_id_of_a_vnpu_is_not_chosen_anew_for_another_try() -> None:
    rig = Rig("ascend310px4")
    asked: list[str] = []
    ref = rig.claim("c", [result("npu-1-vir01-0")])
    slow = Watched(Slow(rig.hardware), lambda _verb, action: asked.append(action.key))
    prepare(rig.plugin(hardware=slow), ref)
    assert len(asked) == 2
    assert len(set(asked)) == len(rig.existing()) == 1


# Checkpoints of other versions, and damaged ones


def test_a_damaged_checkpoint_is_rebuilt_with_what_the_claims_have_on_the_hardware(rig: Rig) -> None:
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


class Dying(HardwareDecorator):
    """The plugin dies when it has made a partition, before it has stored the answer."""

    def ensure(self, action: Action) -> Handle:
        handle = super().ensure(action)
        if isinstance(action, MigInstance):
            raise Killed(action.key)
        return handle


def test_a_damaged_checkpoint_does_not_make_a_half_prepared_partition_somebody_elses(rig: Rig) -> None:
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
def test_where_what_claims_have_is_not_known_either_everything_is_left_as_it_is(rig: Rig, content: bytes) -> None:
    ref = rig.claim("c", [result(MIG_6)])
    with pytest.raises(Killed):
        rig.plugin(hardware=Dying(rig.hardware)).prepare([ref])
    rig.files.write(CHECKPOINT, b"damaged")
    rig.files.write(f"{PLUGIN}/actions.json", content)
    plugin = rig.plugin()
    recover(plugin)
    release(rig, plugin)
    assert "mig:gpu-0:1g.5gb:6" in rig.existing()


def test_what_claims_may_have_is_forgotten_with_the_last_of_them(rig: Rig) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(MIG_6)])
    prepare(plugin, ref)
    assert "actions.json" in rig.files.names(PLUGIN)
    unprepare(plugin, ref)
    release(rig, plugin)
    assert "actions.json" not in rig.files.names(PLUGIN)


def test_a_checkpoint_of_version_2_is_read_and_its_claims_go_as_they_came(rig: Rig) -> None:
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


def as_version_2(rig: Rig) -> None:
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
