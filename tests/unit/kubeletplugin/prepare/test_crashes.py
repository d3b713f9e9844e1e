"""The plugin is killed before each of its calls to disk, hardware and API; whatever comes next sets it right."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from driver.kube.api import RESOURCE_CLAIMS, Api
from driver.wire import claim_from
from kubeletplugin.prepare import ClaimRef, Preparer, PrepareResult
from kubeletplugin.prepare.checkpoint import CorruptCheckpoint
from kubeletplugin.prepare.storage import ClaimStorage
from tests.unit.kubeletplugin.faults import Counted, Killed
from tests.unit.kubeletplugin.plugin_node import (
    CHECKPOINT,
    SHARE_A,
    SHARE_B,
    PluginNode,
    opaque,
    prepare,
    recover,
    release,
    result,
    share,
)


@dataclass
class Story:
    """A node in the middle of something: what is prepared beside it, and the call during which it is killed."""

    rig: PluginNode
    ref: ClaimRef
    bystander: ClaimRef
    act: Callable[[Preparer], object]
    leaves: bool = False
    """Whether the call is an unprepare, so that nothing of ``ref`` must be left in the end."""


def _start() -> tuple[PluginNode, ClaimRef, ClaimRef]:
    rig = PluginNode("t4x4")  # cards that cannot be partitioned: few devices, so many stories in little time
    bystander = rig.claim("bystander", [share("gpu-3-share", SHARE_A)])
    prepare(rig.plugin(), bystander)
    return rig, rig.claim("c", [result("gpu-0", "a"), share("gpu-3-share", SHARE_B, request="b")]), bystander


def first_prepare() -> Story:
    rig, ref, bystander = _start()
    return Story(rig, ref, bystander, lambda plugin: plugin.prepare([ref]))


def prepare_again_after_a_reboot() -> Story:
    story = first_prepare()
    prepare(story.rig.plugin(), story.ref)
    story.rig.reboot()
    prepare(story.rig.plugin(), story.bystander)
    return story


def prepare_what_was_allocated_anew() -> Story:
    story = first_prepare()
    prepare(story.rig.plugin(), story.ref)
    claim = story.rig.api.get(RESOURCE_CLAIMS, story.ref.name, story.ref.namespace)
    claim["status"] = {}
    story.rig.allocate(story.rig.api.update(RESOURCE_CLAIMS, claim, "status"), [result("gpu-1", "b")])
    return story


def prepare_in_the_place_of_a_claim_long_gone() -> Story:
    story = first_prepare()
    old = story.rig.claim("old", [result("gpu-0")])
    prepare(story.rig.plugin(), old)
    story.rig.release(old)
    story.rig.reboot()
    prepare(story.rig.plugin(), story.bystander)
    return story


def unprepare() -> Story:
    story = first_prepare()
    prepare(story.rig.plugin(), story.ref)
    story.act, story.leaves = lambda plugin: plugin.unprepare([story.ref]), True
    return story


def prepare_over_a_damaged_checkpoint() -> Story:
    story = first_prepare()
    data = story.rig.files.read(CHECKPOINT)
    assert data
    story.rig.files.write(CHECKPOINT, data[:-5])
    return story


MPS = opaque("b", kind="GpuConfig", sharing="mps")


def _partitioned() -> tuple[PluginNode, ClaimRef, ClaimRef]:
    """A claim for a MIG partition beside another on its card, and for a share of a card that another uses with MPS."""
    rig = PluginNode("a100x2")
    beside = [result("gpu-0-mig-1g-5gb-5", "a"), share("gpu-1-share", SHARE_A, request="b")]
    bystander = rig.claim("bystander", beside, [MPS])
    prepare(rig.plugin(), bystander)
    results = [result("gpu-0-mig-1g-5gb-6", "a"), share("gpu-1-share", SHARE_B, request="b")]
    return rig, rig.claim("c", results, [MPS]), bystander


def prepare_a_partition() -> Story:
    rig, ref, bystander = _partitioned()
    return Story(rig, ref, bystander, lambda plugin: plugin.prepare([ref]))


def prepare_a_partition_again_after_a_reboot() -> Story:
    story = prepare_a_partition()
    prepare(story.rig.plugin(), story.ref)
    story.rig.reboot()
    prepare(story.rig.plugin(), story.bystander)
    return story


def prepare_another_partition_of_the_same_claim() -> Story:
    story = prepare_a_partition()
    prepare(story.rig.plugin(), story.ref)
    claim = story.rig.api.get(RESOURCE_CLAIMS, story.ref.name, story.ref.namespace)
    claim["status"] = {}
    results = [result("gpu-0-mig-1g-5gb-4", "a"), share("gpu-1-share", SHARE_B, request="b")]
    story.rig.allocate(story.rig.api.update(RESOURCE_CLAIMS, claim, "status"), results, [MPS])
    return story


def unprepare_a_partition() -> Story:
    story = prepare_a_partition()
    prepare(story.rig.plugin(), story.ref)

    def act(plugin: Preparer) -> None:
        plugin.unprepare([story.ref])
        release(story.rig, plugin)

    story.act, story.leaves = act, True
    return story


def prepare_a_partition_that_is_still_released() -> Story:
    story = prepare_a_partition()
    earlier = story.rig.claim("earlier", [result("gpu-0-mig-1g-5gb-6")])
    prepare(story.rig.plugin(), earlier)
    story.rig.plugin().unprepare([earlier])
    return story


STORIES = [
    prepare_a_partition,
    prepare_a_partition_again_after_a_reboot,
    prepare_another_partition_of_the_same_claim,
    prepare_a_partition_that_is_still_released,
    unprepare_a_partition,
    first_prepare,
    prepare_again_after_a_reboot,
    prepare_what_was_allocated_anew,
    prepare_in_the_place_of_a_claim_long_gone,
    unprepare,
    prepare_over_a_damaged_checkpoint,
]


def started(story: Story, calls: Counted | None = None) -> Preparer:
    """A new instance on the node's files and API; killed before the call that ``calls`` says."""
    api: Api = story.rig.api
    story.rig.files.disk.before = calls.before if calls else None
    hardware = story.rig.hardware
    return story.rig.plugin(calls.api(api), hardware=calls.hardware(hardware)) if calls else story.rig.plugin(api)


def killed(story: Story, kill_before: int, act: Callable[[Preparer], object]) -> bool:
    """Whether the instance died of its ``kill_before``-th call, rather than finishing ``act`` first."""
    try:
        act(started(story, Counted(kill_before)))
    except Killed:
        return True
    return False


def assert_consistent(story: Story) -> None:
    """What is in the checkpoint has its files, and no file is without its claim."""
    plugin = started(story)
    release(story.rig, plugin)
    uids = {path.rpartition("_")[2].removesuffix(".json") for path in story.rig.claim_files() if "/cdi/" in path}
    assert uids == set(plugin.prepared())
    for answer in plugin.prepared().values():
        names = {device["name"] for device in story.rig.spec(answer.ref)["devices"]}
        assert {f"lode.dev/claim={name}" for name in names} == {i for d in answer.devices for i in d.cdi_ids}
        for device in story.rig.spec(answer.ref)["devices"]:
            for mount in device["containerEdits"].get("mounts", []):
                assert story.rig.files.read(mount["hostPath"]) is not None


def assert_sound_at_death(story: Story) -> None:
    """What lies on the disk at this moment: nobody has repaired anything yet, and containers may start from it."""
    story.rig.files.disk.before = None
    storage = ClaimStorage(story.rig.files, story.rig.settings)
    for path in story.rig.claim_files():
        if "/cdi/" in path:
            spec = json.loads(story.rig.files.read(path) or b"")
            mounts = [m["hostPath"] for device in spec["devices"] for m in device["containerEdits"].get("mounts", [])]
            assert [mount for mount in mounts if story.rig.files.read(mount) is None] == [], "a mount is missing"
    try:
        recorded = storage.load().claims
    except CorruptCheckpoint:
        return
    assert storage.uids() <= {*recorded, story.ref.uid}, "files of another claim without a record"
    completed = {uid for uid, c in recorded.items() if (c.state, c.boot_id) == ("completed", story.rig.boot_id)}
    if story.leaves:
        completed.discard(story.ref.uid)
    assert completed <= storage.uids_with_cdi_spec(), "recorded as completed without its files"


def needed(story: Story) -> list[str]:
    """What must exist on the cards for the claims that are prepared."""
    claims = [story.bystander] if story.leaves else [story.bystander, story.ref]
    objects = [story.rig.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace) for ref in claims]
    allocations = [claim["status"]["allocation"]["devices"] for claim in objects]
    devices = {result["device"] for allocation in allocations for result in allocation["results"]}
    keys = {f"mig:{card}:1g.5gb:{start}" for card, _, start in (d.partition("-mig-1g-5gb-") for d in devices) if start}
    keys |= {"migmode:gpu-0"} if keys else set()
    return sorted(keys | ({"mps:gpu-1"} if any("config" in allocation for allocation in allocations) else set()))


def assert_ends_well(story: Story) -> None:
    """The kubelet's retry gives the right answer, and in the end nothing is left."""
    plugin = started(story)
    if story.leaves:
        assert plugin.unprepare([story.ref]) == {story.ref.uid: None}
    else:
        claim = claim_from(story.rig.api.get(RESOURCE_CLAIMS, story.ref.name, story.ref.namespace))
        assert claim.allocation
        allocated = [item.device.device for item in claim.allocation.results]
        assert [device.device for device in prepare(plugin, story.ref).devices] == allocated
    release(story.rig, plugin)
    assert story.rig.existing() == needed(story)
    assert isinstance(plugin.prepared()[story.bystander.uid], PrepareResult)
    assert_consistent(story)
    both = [story.ref, story.bystander]
    assert plugin.unprepare(both) == {ref.uid: None for ref in both}
    release(story.rig, plugin)
    assert (story.rig.claim_files(), plugin.prepared(), story.rig.existing()) == (set(), {}, [])
    assert story.rig.unfinished_files() == []


@pytest.mark.parametrize("scene", STORIES)
def test_killed_before_any_call_the_kubelets_retry_alone_sets_it_right(scene: Callable[[], Story]) -> None:
    for call in itertools.count():
        story = scene()
        if not killed(story, call, story.act):
            assert call > 3
            return
        assert_sound_at_death(story)
        assert_ends_well(story)


@pytest.mark.parametrize("scene", STORIES)
def test_killed_before_any_call_a_restart_leaves_the_node_consistent(scene: Callable[[], Story]) -> None:
    for call in itertools.count():
        story = scene()
        if not killed(story, call, story.act):
            return
        recover(started(story))
        assert story.rig.unfinished_files() == []
        assert_consistent(story)
        assert_ends_well(story)


def _recover_and_release(rig: PluginNode, plugin: Preparer) -> None:
    recover(plugin)
    release(rig, plugin, seconds=1)


@pytest.mark.parametrize("scene", STORIES)
def test_killed_again_while_it_recovers_the_next_start_sets_it_right(scene: Callable[[], Story]) -> None:
    for call in itertools.count(2, 7):
        story = scene()
        if not killed(story, call, story.act):
            return
        for again in itertools.count():
            if not killed(story, again, partial(_recover_and_release, story.rig)):
                break
        assert_consistent(story)
        assert_ends_well(story)


@pytest.mark.parametrize("scene", [story for story in STORIES if story is not prepare_over_a_damaged_checkpoint])
def test_power_lost_before_any_call_the_next_start_leaves_the_node_consistent(scene: Callable[[], Story]) -> None:
    for call in itertools.count():
        story = scene()
        if not killed(story, call, story.act):
            return
        story.rig.files.disk.lose_power()
        story.rig.reboot()
        recover(started(story))
        assert story.rig.damaged_checkpoints() == []
        assert_consistent(story)
        assert_ends_well(story)
