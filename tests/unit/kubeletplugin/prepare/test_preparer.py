"""What a kubelet can rely on, whatever happened before."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from driver.errors import TransientFault
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api, ApiCall
from driver.settings import Settings
from kubeletplugin.hardware import Card, Edits, Handle, Use
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.prepare import ClaimRef, PreparedDevice, PrepareError, PrepareResult
from kubeletplugin.prepare.checkpoint import Checkpoint
from kubeletplugin.prepare.preparer import LOOKUP_SECONDS, RETRY_TIMEOUT_SECONDS
from kubeletplugin.prepare.retiring import LOOK_SECONDS
from kubeletplugin.prepare.storage import ClaimStorage
from simulation.files import MemoryFiles
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.rig import (
    CDI,
    CHECKPOINT,
    NODE,
    SHARE_A,
    SHARE_B,
    Rig,
    prepare,
    recover,
    refused,
    result,
    share,
)

UNKNOWN = ClaimRef("team", "nowhere", "11111111-2222-4333-8444-555555555555")
POD_CLAIM = {"resource.kubernetes.io/pod-claim-name": "gpus"}


def env(rig: Rig, ref: ClaimRef) -> dict[str, str]:
    return dict(line.split("=", 1) for device in rig.spec(ref)["devices"] for line in device["containerEdits"]["env"])


def by_request(environment: Mapping[str, str]) -> dict[str, str]:
    prefix = "LODE_REQUEST_"
    return {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}


def by_device(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("LODE_REQUEST_")}


def test_the_answer_names_main_requests_and_one_cdi_device_per_result() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0", "main/first"), share("gpu-1-share", SHARE_A, request="part")])
    assert prepare(rig.plugin(), ref).devices == (
        PreparedDevice("main", "node-a/lode.dev", "gpu-0", (f"lode.dev/claim={ref.uid}_main_gpu-0",)),
        PreparedDevice(
            "part",
            "node-a/lode.dev",
            "gpu-1-share",
            (f"lode.dev/claim={ref.uid}_part_gpu-1-share_aaaaaaaa",),
            SHARE_A,
        ),
    )


def test_the_environment_tells_what_the_container_holds() -> None:
    rig = Rig()
    results = [
        result("gpu-0", "whole"),
        share("gpu-1-share", SHARE_A, memory="4Gi", cores="30", request="share"),
        result("gpu-2-mig-1g-5gb-0", "part"),
    ]
    ref = rig.claim("c", results)
    prepare(rig.plugin(), ref)
    uuid = {card.name: card.uuid for card in rig.hardware.cards()}
    assert by_device(env(rig, ref)) == {
        "LODE_DEVICE_GPU_0": uuid["gpu-0"],
        "LODE_MEMORY_MIB_GPU_0": "40960",
        "LODE_CORES_GPU_0": "100",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "LODE_DEVICE_GPU_1_SHARE_aaaaaaaa": uuid["gpu-1"],
        "LODE_MEMORY_MIB_GPU_1_SHARE_aaaaaaaa": "4096",
        "LODE_CORES_GPU_1_SHARE_aaaaaaaa": "30",
        "LODE_DEVICE_GPU_2_MIG_1G_5GB_0": uuid["gpu-2"],
        "LODE_MEMORY_MIB_GPU_2_MIG_1G_5GB_0": "5120",
        "LODE_CORES_GPU_2_MIG_1G_5GB_0": "14",
    }


@pytest.mark.parametrize(("annotations", "claim"), [({}, "TRAIN_A"), (POD_CLAIM, "GPUS")])
def test_the_names_by_request_do_not_change_with_the_device(annotations: Mapping[str, str], claim: str) -> None:
    card = {card.name: card.uuid for card in Rig().hardware.cards()}
    for first, second, part in [("gpu-0", "gpu-1", SHARE_A), ("gpu-2", "gpu-0", SHARE_B)]:
        rig = Rig()
        results = [result(first, "two"), result(second, "two"), share("gpu-3-share", part, "4Gi", "30", "a-part/big")]
        ref = rig.claim("train.a", results, annotations=annotations)
        prepare(rig.plugin(), ref)
        assert by_request(env(rig, ref)) == {
            f"{claim}_TWO_0_UUID": card[first],
            f"{claim}_TWO_0_MEMORY_MIB": "40960",
            f"{claim}_TWO_0_CORES": "100",
            f"{claim}_TWO_1_UUID": card[second],
            f"{claim}_TWO_1_MEMORY_MIB": "40960",
            f"{claim}_TWO_1_CORES": "100",
            f"{claim}_A_PART_0_UUID": card["gpu-3"],
            f"{claim}_A_PART_0_MEMORY_MIB": "4096",
            f"{claim}_A_PART_0_CORES": "30",
        }


@pytest.mark.parametrize("name", ["../../etc", "a/b", "A", "a=b\nLD_PRELOAD", "-a", "a" * 64])
def test_a_name_that_would_be_part_of_a_path_in_the_container_is_a_label(name: str) -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")], annotations={"resource.kubernetes.io/pod-claim-name": name})
    error = refused(rig.plugin(), ref)
    assert error.reason == "invalid"
    assert "metadata.annotations[resource.kubernetes.io/pod-claim-name]" in error.message
    assert rig.claim_files() == set()


def test_a_container_sees_the_device_files_of_its_request_and_no_others() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0", "a"), share("gpu-1-share", SHARE_A, request="b")])
    prepare(rig.plugin(), ref)
    nodes = [[node["path"] for node in d["containerEdits"]["deviceNodes"]] for d in rig.spec(ref)["devices"]]
    assert nodes == [["/dev/lode/gpu-0"], ["/dev/lode/gpu-1"]]


def test_the_same_claim_gets_the_same_answer_again_and_nothing_is_written() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    first = prepare(rig.plugin(), ref)
    rig.files.disk.before = no_writes
    assert prepare(rig.plugin(), ref) == first


def no_writes(operation: str, path: str) -> None:
    assert operation not in ("create", "rename", "unlink"), f"{operation} {path}"


def test_a_later_answer_repeats_the_facts_of_the_first_even_if_the_nodes_labels_changed() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.api.patch(NODES, "node-a", {"metadata": {"labels": {"lode.dev/ib-cluster": "fabric-2"}}})
    rig.files.disk.before = no_writes
    prepare(rig.plugin(), ref)


def test_unprepare_leaves_nothing() -> None:
    rig = Rig()
    plugin = rig.plugin()
    refs = [rig.claim("a", [result("gpu-0", "x"), result("gpu-1", "y")]), rig.claim("b", [result("gpu-2")])]
    plugin.prepare(refs)
    assert plugin.unprepare(refs) == {ref.uid: None for ref in refs}
    assert (rig.claim_files(), plugin.prepared()) == (set(), {})


@pytest.mark.parametrize("ref", [UNKNOWN, ClaimRef("team", "odd", "../../etc/passwd")])
def test_unprepare_of_an_unknown_claim_succeeds(ref: ClaimRef) -> None:
    assert Rig().plugin().unprepare([ref]) == {ref.uid: None}


def test_unprepare_succeeds_though_files_and_claim_are_gone() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.files.disk.forget(CDI)
    rig.release(ref)
    assert rig.plugin().unprepare([ref]) == {ref.uid: None}
    assert rig.plugin().prepared() == {}


def test_a_claim_with_nothing_of_ours_has_an_empty_answer() -> None:
    rig = Rig()
    other = result("nic-0", driver="net.example.com", pool="elsewhere")
    assert prepare(rig.plugin(), rig.claim("c", [other])).devices == ()
    assert rig.claim_files() == set()


def test_devices_of_other_drivers_in_the_same_allocation_are_ignored() -> None:
    rig = Rig()
    other = result("gpu-0", "net", driver="net.example.com", pool="node-a/lode.dev")
    alien: dict[str, Any] = {
        "source": "FromClaim",
        "requests": ["net"],
        "opaque": {"driver": "net.example.com", "parameters": {"kind": "Whatever"}},
    }
    answer = prepare(rig.plugin(), rig.claim("c", [other, result("gpu-0")], [alien]))
    assert [(device.request, device.device) for device in answer.devices] == [("gpu", "gpu-0")]


def test_all_that_is_wrong_with_a_claim_is_said_at_once() -> None:
    rig = Rig()
    faulty = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "sharing": "magic", "speed": 9}
    config = {"source": "FromClaim", "requests": [], "opaque": {"driver": "lode.dev", "parameters": faulty}}
    ref = rig.claim("c", [result("gpu-7", "a"), result("gpu-0", "b", pool="node-b/lode.dev")], [config])
    error = refused(rig.plugin(), ref)
    assert error.reason == "invalid"
    for said in (
        "ResourceClaim team/c",
        "this node does not have the device: 'gpu-7'",
        "is not this node's pool: 'node-b/lode.dev'; the pool is 'node-a/lode.dev'",
        "config[0].opaque.parameters.sharing: unsupported value: 'magic'",
        "config[0].opaque.parameters.speed: unknown field",
    ):
        assert said in error.message
    assert rig.claim_files() == set()


@pytest.mark.parametrize("device", ["gpu-0-share", "gpu-0", "gpu-0-mig-1g-5gb-6"])
@pytest.mark.parametrize(
    ("consumed", "said"),
    [
        (None, ["[memory]: is not set", "[cores]: is not set"]),
        ({"memory": "1Gi"}, ["[cores]: is not set"]),
        ({"memory": "-1Gi", "cores": "0"}, ["[memory]: must not be negative: '-1Gi'"]),
    ],
)
def test_a_share_of_nobody_knows_how_much_is_its_own_fault_and_the_claims_beside_it_are_prepared(
    device: str, consumed: Mapping[str, str] | None, said: list[str]
) -> None:
    rig = Rig()
    more: dict[str, Any] = {} if consumed is None else {"consumedCapacity": consumed}
    faulty, sound = rig.claim("c", [result(device, shareID=SHARE_A, **more)]), rig.claim("d", [result("gpu-1")])
    plugin = rig.plugin()
    answers = plugin.prepare([faulty, sound])
    error = answers[faulty.uid]
    assert isinstance(error, PrepareError)
    assert error.reason == "invalid"
    assert all(text in error.message for text in said), error.message
    assert isinstance(answers[sound.uid], PrepareResult)
    recover(rig.plugin())
    assert plugin.unprepare([faulty, sound]) == {faulty.uid: None, sound.uid: None}


def test_a_claim_that_the_plugin_has_a_defect_for_harms_no_other_claim_of_the_call() -> None:
    class Defective(SimulatedHardware):
        def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
            if use.card.name == "gpu-0":
                raise KeyError("memory")
            return super().edits(use, handles)

    rig = Rig("t4x4")
    refs = [rig.claim(name, [result(f"gpu-{number}")]) for number, name in enumerate("ab")]
    answers = rig.plugin(hardware=Defective(rig.profile)).prepare(refs)
    error = answers[refs[0].uid]
    assert isinstance(error, PrepareError)
    assert (error.reason, "team/a" in error.message, "KeyError('memory')" in error.message) == ("operator", True, True)
    assert isinstance(answers[refs[1].uid], PrepareResult)


class Odd(Unsteady):
    """A claim of this API has a spec that nobody can decode, and claims recorded as those of "secret" are there."""

    def __init__(self, api: Api, odd: str):
        super().__init__(api, failures=0)
        self._odd = odd

    def call(self, call: ApiCall) -> Any:
        found = super().call(replace(call, namespace=call.namespace.replace("secret", "team")))
        return {**found, "spec": {"devices": {"requests": [{}]}}} if call.name == self._odd else found


def test_what_nobody_can_decode_in_a_claim_does_not_matter_to_those_that_wait_for_its_devices() -> None:
    rig = Rig()
    held = rig.claim("held", [result("gpu-0")])
    prepare(rig.plugin(), held)
    error = refused(rig.plugin(Odd(rig.api, held.name)), rig.claim("c", [result("gpu-0")]))
    assert (error.reason, "still allocated" in error.message) == ("conflict", True)


@pytest.mark.parametrize("is_gone", [False, True])
def test_of_a_claim_in_another_namespace_readers_are_told_the_uid_and_not_the_name(is_gone: bool) -> None:
    rig = Rig()
    held, wanted = rig.claim("held", [result("gpu-0")]), rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), held)
    storage = ClaimStorage(rig.files, rig.settings)
    claim = storage.load().claims[held.uid]
    elsewhere = replace(claim, plan=replace(claim.plan, ref=replace(held, namespace="secret")))
    storage.save(Checkpoint({held.uid: elsewhere}))
    if is_gone:
        rig.release(held)
    error = refused(rig.plugin(Odd(rig.api, "")), wanted)
    assert (error.reason, held.uid in error.message) == ("conflict", True)
    assert "secret" not in error.message
    assert held.name not in error.message.split()


def test_parameters_for_a_request_that_has_no_device_of_ours_are_not_judged() -> None:
    rig = Rig()
    wrong = {"source": "FromClaim", "requests": ["net"], "opaque": {"driver": "lode.dev", "parameters": {"kind": "X"}}}
    other = result("nic-0", "net", driver="net.example.com", pool="elsewhere")
    prepare(rig.plugin(), rig.claim("c", [other, result("gpu-0", "gpu/sub")], [wrong]))


def test_parameters_named_by_the_main_request_are_for_every_subrequest() -> None:
    rig = Rig()
    wrong = {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": "lode.dev", "parameters": {"kind": "X"}}}
    error = refused(rig.plugin(), rig.claim("c", [result("gpu-0", "gpu/sub")], [wrong]))
    assert "config[0].opaque.parameters.kind: unknown kind: 'X'" in error.message


def test_a_claim_made_again_under_its_old_name_is_not_mistaken_for_the_old_one() -> None:
    rig = Rig()
    old = rig.claim("c", [result("gpu-0")])
    rig.release(old)
    rig.claim("c", [result("gpu-1")])
    assert "another claim has this name" in refused(rig.plugin(), old).message


def test_an_unallocated_or_missing_claim_is_refused() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    rig.api.update(RESOURCE_CLAIMS, claim, "status")
    assert "is not set" in refused(rig.plugin(), ref).message
    assert "does not exist" in refused(rig.plugin(), UNKNOWN).message
    assert refused(rig.plugin(), ClaimRef("team", "c", "../x")).reason == "invalid"


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
    rig = Rig()
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
    rig = Rig()
    rig.allow_admin_access()
    for name, held in (("one", one), ("other", other)):
        prepare(rig.plugin(), rig.claim(name, [held]))


def test_three_partitions_that_fit_in_pairs_only_are_not_all_prepared() -> None:
    rig = Rig("ascend310px4")
    plugin = rig.plugin()
    for slot in range(3):
        prepare(plugin, rig.claim(f"c{slot}", [result(f"npu-0-vir02-{slot}")]))
    error = refused(plugin, rig.claim("c3", [result("npu-0-vir04-3c-0")]))
    assert all(f"team/c{slot}" in error.message for slot in range(3))


def test_a_narrower_offer_does_not_lose_what_was_allocated_before() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    rig.settings = Settings.model_validate({"kubeletplugin": {"offer": ["share"]}})
    prepare(rig.plugin(), ref)
    error = refused(rig.plugin(), rig.claim("d", [share("gpu-0-share", SHARE_A)]))
    assert error.reason == "conflict"


def test_results_of_one_claim_that_exclude_each_other_are_its_own_fault() -> None:
    rig = Rig()
    for name, results in (
        ("twice", [result("gpu-0", "a"), result("gpu-0", "b")]),
        ("both", [result("gpu-0", "a"), result("gpu-0-mig-1g-5gb-0", "b")]),
    ):
        error = refused(rig.plugin(), rig.claim(name, results))
        assert (error.reason, "exclude each other" in error.message) == ("invalid", True)


def test_after_a_reboot_the_cdi_spec_is_written_again_and_the_answer_is_the_same() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    first, spec = prepare(rig.plugin(), ref), rig.spec(ref)
    rig.reboot()
    plugin = rig.plugin()
    recover(plugin)
    assert prepare(plugin, ref) == first
    assert rig.spec(ref) == spec


def test_a_lost_or_altered_cdi_spec_is_restored_by_prepare_and_by_a_restart() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    path, spec = f"{CDI}/lode.dev-claim_{ref.uid}.json", rig.spec(ref)
    for restore in (lambda plugin: prepare(plugin, ref), recover):
        rig.files.remove(path)
        restore(rig.plugin())
        assert rig.spec(ref) == spec
        rig.files.write(path, b"{}")
        restore(rig.plugin())
        assert rig.spec(ref) == spec


def test_a_claim_allocated_anew_gets_its_new_devices_and_nothing_of_the_old() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0", "a/x"), result("gpu-1", "b")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    claim = rig.api.update(RESOURCE_CLAIMS, claim, "status")
    rig.allocate(claim, [result("gpu-2", "b")])
    assert [device.device for device in prepare(plugin, ref).devices] == ["gpu-2"]
    assert len(rig.claim_files()) == 2
    prepare(plugin, rig.claim("d", [result("gpu-0")]))


def test_a_claim_gone_since_before_the_reboot_makes_way() -> None:
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
    plugin = rig.plugin()
    prepare(plugin, rig.claim("one", [share("gpu-0-share", SHARE_A, "30Gi")]))
    error = refused(plugin, rig.claim("other", [share("gpu-0-share", SHARE_B, "11Gi")]))
    assert error.reason == "conflict"
    prepare(plugin, rig.claim("small", [share("gpu-0-share", SHARE_B, "10Gi")]))


def test_a_share_waits_for_containers_of_a_share_that_is_gone_and_not_for_live_ones() -> None:
    rig = Rig()
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
    rig = Rig()
    live = rig.claim("live", [share("gpu-0-share", SHARE_A, "10Gi")])
    old = rig.claim("old", [share("gpu-0-share", SHARE_B, "30Gi")])
    prepare(rig.plugin(), live)
    prepare(rig.plugin(), old)
    rig.release(old)
    rig.reboot()
    new = rig.claim("new", [share("gpu-0-share", SHARE_B.replace("1", "2"), "30Gi")])
    prepare(rig.plugin(), new)
    assert set(rig.plugin().prepared()) == {live.uid, new.uid}


def test_a_short_silence_of_the_api_is_waited_out() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(Unsteady(rig.api, failures=6)), ref)
    assert 0 < rig.clock.monotonic() < RETRY_TIMEOUT_SECONDS


def test_a_long_silence_ends_within_the_kubelets_patience_and_blames_nobody() -> None:
    rig = Rig()
    refs = [rig.claim(name, [result(f"gpu-{index}")]) for index, name in enumerate("abc")]
    answers = rig.plugin(Unsteady(rig.api, failures=1000)).prepare(refs)
    assert {getattr(answer, "reason", "") for answer in answers.values()} == {"transient"}
    assert rig.clock.monotonic() <= RETRY_TIMEOUT_SECONDS


def test_a_claim_given_up_while_it_is_being_prepared_stays_given_up() -> None:
    """A pod is deleted while it starts: the kubelet withdraws its call, and unprepares without waiting for its end."""
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    withdrawn: list[float] = []

    def delete_pod(_: float) -> None:
        if not withdrawn:
            withdrawn.append(rig.clock.monotonic())
            assert rig.plugin().unprepare([ref]) == {ref.uid: None}

    rig.clock.slept = delete_pod
    answer = rig.plugin(Unsteady(rig.api, failures=3)).prepare([ref], lambda: not withdrawn)[ref.uid]
    assert getattr(answer, "reason", "") == "transient"
    assert rig.plugin().prepared() == {}
    assert rig.claim_files() == set()
    assert rig.clock.monotonic() == withdrawn[0], "nothing is tried for a kubelet that waits no more"


@pytest.mark.parametrize("looks", range(5))
def test_of_a_call_withdrawn_at_any_moment_an_unprepare_leaves_nothing(looks: int) -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    left = iter([True] * looks)
    answer = rig.plugin().prepare([ref], lambda: next(left, False))[ref.uid]
    assert isinstance(answer, PrepareResult) == (ref.uid in rig.plugin().prepared())
    assert isinstance(answer, PrepareResult) or rig.claim_files() == set()
    rig.plugin().unprepare([ref])
    assert (rig.plugin().prepared(), rig.claim_files()) == ({}, set())


@pytest.mark.parametrize("file", ["dra-device-metadata/", "cdi/", "checkpoint.json"])
def test_a_full_disk_is_the_operators_to_mend_and_loses_nothing(file: str) -> None:
    rig = Rig()
    held, ref = rig.claim("held", [result("gpu-1")]), rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), held)
    before = rig.claim_files()

    def full(operation: str, path: str) -> None:
        if operation == "create" and file in path:
            raise OSError(28, "No space left on device", path)

    rig.files.disk.before = full
    error = refused(rig.plugin(), ref)
    assert (error.reason, "No space left" in error.message) == ("operator", True)
    rig.files.disk.before = None
    assert (set(rig.plugin().prepared()), rig.claim_files()) == ({held.uid}, before)
    prepare(rig.plugin(), ref)


def test_a_claim_that_two_running_pods_use_is_not_given_up() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    one, two = rig.pod("one"), rig.pod("two")
    rig.reserve(ref, [one, two])
    failure = plugin.unprepare([ref])[ref.uid]
    assert failure is not None
    assert "pods still run with it on this node: one, two" in failure.message
    assert set(plugin.prepared()) == {ref.uid}
    rig.api.delete(PODS, "two", "team", grace_period_seconds=0)
    rig.report(one, "Running", {"terminated": {"exitCode": 0}})
    assert plugin.unprepare([ref]) == {ref.uid: None}


def test_a_claim_that_a_running_pod_uses_is_not_given_up_when_another_pod_could_not_start() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two", "Pending")])
    failure = plugin.unprepare([ref])[ref.uid]
    assert failure is not None
    assert "pods still run with it on this node: one;" in failure.message
    assert set(plugin.prepared()) == {ref.uid}


@pytest.mark.parametrize("other", ["Pending", "Succeeded"])
@pytest.mark.parametrize("ending", ["deleted", "exited", "evicted"])
def test_the_last_running_pod_of_a_claim_can_always_end(ending: str, other: str) -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    one = rig.pod("one")
    rig.reserve(ref, [one, rig.pod("two", other)])
    if ending == "deleted":
        rig.api.delete(PODS, "one", "team", grace_period_seconds=30)
    elif ending == "exited":
        rig.report(one, "Running", {"terminated": {"exitCode": 0}})
    else:
        rig.report(one, "Running", {"running": {}}, reason="Evicted")
    assert plugin.unprepare([ref]) == {ref.uid: None}


def test_a_pod_that_alone_uses_a_claim_can_always_end() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one")])
    assert plugin.unprepare([ref]) == {ref.uid: None}


def test_a_silent_api_never_keeps_a_pod_from_ending() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    assert rig.plugin(Unsteady(rig.api, failures=1000)).unprepare([ref]) == {ref.uid: None}
    assert rig.clock.monotonic() == 0


class Slow(Unsteady):
    """An API whose answers take a while."""

    def __init__(self, rig: Rig, seconds: float):
        super().__init__(rig.api, failures=0)
        self._clock = rig.clock
        self._seconds = seconds

    def call(self, call: ApiCall) -> Any:
        self._clock.sleep(self._seconds)
        return super().call(call)


def test_a_slow_api_keeps_no_pod_from_ending() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.reserve(ref, [rig.pod(f"pod-{number}") for number in range(20)])
    assert rig.plugin(Slow(rig, 3.0)).unprepare([ref]) == {ref.uid: None}
    assert rig.clock.monotonic() <= LOOKUP_SECONDS + 3.0


def test_an_unprepare_that_the_kubelet_has_given_up_takes_nothing_away() -> None:
    """The kubelet has called again meanwhile, and had the claim prepared for another pod."""
    rig = Rig()
    ref = rig.claim("shared", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two", "Pending")])
    withdrawn: list[float] = []

    def call_again(_: float) -> None:
        if not withdrawn:
            withdrawn.append(rig.clock.monotonic())
            rig.api.delete(PODS, "one", "team", grace_period_seconds=0)
            assert plugin.unprepare([ref]) == {ref.uid: None}
            prepare(plugin, ref)

    rig.clock.slept = call_again
    late = rig.plugin(Slow(rig, 1.0)).unprepare([ref], lambda: not withdrawn)[ref.uid]
    assert late is not None
    assert late.reason == "transient"
    assert set(plugin.prepared()) == {ref.uid}
    assert len(rig.claim_files()) == 2


class Blinking(SimulatedHardware):
    """Hardware that does not answer the question of this number."""

    def __init__(self, question: int):
        super().__init__(load_profile("a100x4", MemoryFiles()), NODE)
        self._left = question

    def cards(self) -> tuple[Card, ...]:
        self._answer()
        return super().cards()

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        self._answer()
        return super().edits(use, handles)

    def _answer(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise TransientFault("the driver is busy")


@pytest.mark.parametrize("question", range(1, 6))
def test_hardware_that_fails_once_is_asked_again(question: int) -> None:
    rig = Rig()
    rig.hardware = Blinking(question)
    prepare(rig.plugin(), rig.claim("c", [result("gpu-0", "a"), result("gpu-1", "b")]))
    assert rig.clock.monotonic() < 1


def test_hardware_is_asked_without_the_lock() -> None:
    rig = Rig()
    held, ref = rig.claim("held", [result("gpu-1")]), rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), held)

    class Busy(Blinking):
        """While the hardware is asked, another pod ends."""

        def _answer(self) -> None:
            assert other.unprepare([held]) == {held.uid: None}

    other = rig.plugin()
    rig.hardware = Busy(0)
    prepare(rig.plugin(), ref)
    assert set(other.prepared()) == {ref.uid}


def test_a_claim_judged_gone_and_prepared_anew_meanwhile_is_kept() -> None:
    rig = Rig("t4x4")
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


def test_fields_of_a_newer_version_do_not_outlive_the_devices_they_are_about() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    header, _, body = (rig.files.read(CHECKPOINT) or b"").partition(b"\n")
    content = json.loads(body)
    content["claims"][ref.uid]["instances"] = [7]
    newer = json.dumps(content).encode()
    line = {**json.loads(header), "sha256": hashlib.sha256(newer).hexdigest()}
    rig.files.write(CHECKPOINT, json.dumps(line).encode() + b"\n" + newer)
    prepare(rig.plugin(), ref)
    assert b"instances" in (rig.files.read(CHECKPOINT) or b"")
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    rig.allocate(rig.api.update(RESOURCE_CLAIMS, claim, "status"), [result("gpu-3")])
    prepare(rig.plugin(), ref)
    assert b"instances" not in (rig.files.read(CHECKPOINT) or b"")


def test_two_instances_share_what_they_know() -> None:
    rig = Rig()
    old, new = rig.plugin(), rig.plugin()
    ref = rig.claim("c", [result("gpu-0")])
    first = prepare(old, ref)
    assert new.prepared() == {ref.uid: first}
    assert new.unprepare([ref]) == {ref.uid: None}
    assert old.prepared() == {}
    assert rig.files.read(CHECKPOINT) is not None


def test_the_metadata_mount_is_where_pod_authors_expect_it() -> None:
    rig = Rig()
    named, generated = rig.claim("named", [result("gpu-0", "a/x")]), rig.claim("gen", [result("gpu-1")], (), POD_CLAIM)
    plugin = rig.plugin()
    mounts = []
    for ref in (named, generated):
        prepare(plugin, ref)
        mounts += [mount for d in rig.spec(ref)["devices"] for mount in d["containerEdits"].get("mounts", [])]
    root = "/var/run/kubernetes.io/dra-device-attributes"
    assert [mount["containerPath"] for mount in mounts] == [
        f"{root}/resourceclaims/named/a/lode.dev-metadata.json",
        f"{root}/resourceclaimtemplates/gpus/gpu/lode.dev-metadata.json",
    ]
    for mount in mounts:
        assert "ro" in mount["options"]
        assert rig.files.read(mount["hostPath"]) is not None


def test_a_plugin_that_stops_leaves_a_checkpoint_if_and_only_if_it_has_claims() -> None:
    rig = Rig()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.plugin().leave()
    assert set(rig.plugin().prepared()) == {ref.uid}
    assert rig.plugin().unprepare([ref]) == {ref.uid: None}
    rig.plugin().leave()
    assert rig.files.disk.content() == {}
    prepare(rig.plugin(), ref)
