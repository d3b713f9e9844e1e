"""Claims that are refused, what is said of them, and that no other claim is harmed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, Api, ApiCall
from kubeletplugin.hardware import CardGone, Edits, Handle, Use
from kubeletplugin.hardware.simulated import SimulatedHardware
from kubeletplugin.prepare import ClaimRef, PrepareError, PrepareResult
from kubeletplugin.prepare.checkpoint import Checkpoint
from kubeletplugin.prepare.storage import ClaimStorage
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.plugin_node import (
    SHARE_A,
    UNKNOWN,
    PluginNode,
    prepare,
    recover,
    refused,
    result,
)


def test_all_that_is_wrong_with_a_claim_is_said_at_once() -> None:
    rig = PluginNode()
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
def test_a_share_of_unknown_size_is_refused_and_the_claims_beside_it_are_prepared(
    device: str, consumed: Mapping[str, str] | None, said: list[str]
) -> None:
    rig = PluginNode()
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


def test_a_claim_whose_card_is_lost_is_told_what_to_do_and_prepared_when_it_is_back() -> None:
    class Losing(SimulatedHardware):
        lost = True

        def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
            if self.lost:
                raise CardGone(f"card {use.card.uuid}: GPU is lost")
            return super().edits(use, handles)

    rig = PluginNode()
    ref, hardware = rig.claim("c", [result("gpu-0")]), Losing(rig.profile)
    plugin = rig.plugin(hardware=hardware)
    error = refused(plugin, ref)
    assert error.reason == "operator"
    assert error.message.startswith("ResourceClaim team/c (uid ")
    assert error.message.endswith(
        ": GPU is lost; its pod starts here once the card works again. Delete the pod to have it placed on other "
        "devices; a claim that tolerates the taint lode.dev/unhealthy may get this card again"
    )
    hardware.lost = False
    prepare(plugin, ref)


def test_a_claim_that_the_plugin_has_a_defect_for_harms_no_other_claim_of_the_call() -> None:
    class Defective(SimulatedHardware):
        def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
            if use.card.name == "gpu-0":
                raise KeyError("memory")
            return super().edits(use, handles)

    rig = PluginNode("t4x4")
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
        found = super().call(call._replace(namespace=call.namespace.replace("secret", "team")))
        return {**found, "spec": {"devices": {"requests": [{}]}}} if call.name == self._odd else found


def test_what_nobody_can_decode_in_a_claim_does_not_matter_to_those_that_wait_for_its_devices() -> None:
    rig = PluginNode()
    held = rig.claim("held", [result("gpu-0")])
    prepare(rig.plugin(), held)
    error = refused(rig.plugin(Odd(rig.api, held.name)), rig.claim("c", [result("gpu-0")]))
    assert (error.reason, "still allocated" in error.message) == ("conflict", True)


@pytest.mark.parametrize("is_gone", [False, True])
def test_of_a_claim_in_another_namespace_readers_are_told_the_uid_and_not_the_name(is_gone: bool) -> None:
    rig = PluginNode()
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
    rig = PluginNode()
    wrong = {"source": "FromClaim", "requests": ["net"], "opaque": {"driver": "lode.dev", "parameters": {"kind": "X"}}}
    other = result("nic-0", "net", driver="net.example.com", pool="elsewhere")
    prepare(rig.plugin(), rig.claim("c", [other, result("gpu-0", "gpu/sub")], [wrong]))


def test_parameters_named_by_the_main_request_are_for_every_subrequest() -> None:
    rig = PluginNode()
    wrong = {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": "lode.dev", "parameters": {"kind": "X"}}}
    error = refused(rig.plugin(), rig.claim("c", [result("gpu-0", "gpu/sub")], [wrong]))
    assert "config[0].opaque.parameters.kind: unknown kind: 'X'" in error.message


def test_a_claim_made_again_under_its_old_name_is_not_mistaken_for_the_old_one() -> None:
    rig = PluginNode()
    old = rig.claim("c", [result("gpu-0")])
    rig.release(old)
    rig.claim("c", [result("gpu-1")])
    assert "another claim has this name" in refused(rig.plugin(), old).message


def test_an_unallocated_or_missing_claim_is_refused() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    claim = rig.api.get(RESOURCE_CLAIMS, "c", "team")
    claim["status"] = {}
    rig.api.update(RESOURCE_CLAIMS, claim, "status")
    assert "is not set" in refused(rig.plugin(), ref).message
    assert "does not exist" in refused(rig.plugin(), UNKNOWN).message
    assert refused(rig.plugin(), ClaimRef("team", "c", "../x")).reason == "invalid"


def test_results_of_one_claim_that_exclude_each_other_are_its_own_fault() -> None:
    rig = PluginNode()
    for name, results in (
        ("twice", [result("gpu-0", "a"), result("gpu-0", "b")]),
        ("both", [result("gpu-0", "a"), result("gpu-0-mig-1g-5gb-0", "b")]),
    ):
        error = refused(rig.plugin(), rig.claim(name, results))
        assert (error.reason, "exclude each other" in error.message) == ("invalid", True)
