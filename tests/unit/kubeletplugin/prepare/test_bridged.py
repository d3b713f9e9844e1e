"""A device plugin is asked once for each claim and resource, and its answer outlives whatever is killed."""

import itertools
from collections.abc import Sequence

import pytest

from driver.deviceplugins import DevicePluginSettings
from driver.errors import TransientFault
from driver.kube.api import PODS
from driver.observe import logger
from kubeletplugin.hardware import HardwareRefusal
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, device_name
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.hardware.place import Place
from kubeletplugin.prepare import ClaimRef
from tests.fakes.deviceplugin.host_tree import FakeHostTree
from tests.unit.kubeletplugin.faults import Counted, Killed
from tests.unit.kubeletplugin.hardware.deviceplugin.fakes import FakePlugins
from tests.unit.kubeletplugin.plugin_node import (
    NODE,
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

GPU, SHARED = "amd.com/gpu", "nvidia.com/gpu.shared"
A, B, C = (device_name(GPU, name) for name in "abc")
REPLICAS = f"{device_name(SHARED, 'x')}-share"


class BridgedNode(PluginNode):
    """A node whose cards device plugins serve. The plugins outlive the programs."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = {
            GPU: [Reported(name) for name in "abc"],
            SHARED: [Reported(f"x::{number}") for number in range(2)],
        }
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.start()

    def start(self) -> None:
        """Another program of ours, with which the device plugins register."""
        record = BootFile(self.files, "/state/known.json", self.boot_id, Known, logger("test"))
        facts = LabelledNode({}, lambda address: Place())
        registry = Registry(DevicePluginSettings(), record, lambda: facts, self.clock, logger("test"))
        self.plugins = FakePlugins(registry, self.lists)
        self.plugins.asked = self.asked
        kept = KeptAnswers(self.files, "/state/answers", self.boot_id)
        self.hardware = DevicePluginHardware(self.plugins, registry, kept, FakeHostTree(["/dev/amd"]))

    def reboot(self) -> None:
        super().reboot()
        self.start()


@pytest.fixture
def rig() -> BridgedNode:
    return BridgedNode()


def test_a_claim_has_what_the_device_plugin_answers_for_all_its_devices(rig: BridgedNode) -> None:
    ref = rig.claim("c", [result(A), result(C), share(REPLICAS, SHARE_A, "0", request="shared")])
    assert refused(rig.plugin(), ref).message, "both resources set the same variable to different values"
    ref = rig.claim("d", [result(A), result(C)])
    prepare(rig.plugin(), ref)
    assert rig.asked[-1] == (GPU, ("a", "c"))
    for device in rig.spec(ref)["devices"]:
        assert "VISIBLE=a,c" in device["containerEdits"]["env"]
        assert [node["path"] for node in device["containerEdits"]["deviceNodes"]] == ["/dev/amd"]


def test_a_device_plugin_is_asked_once_however_often_the_kubelet_calls(rig: BridgedNode) -> None:
    ref = rig.claim("c", [result(A, "one"), result(B, "two")])
    answers = [prepare(rig.plugin(), ref) for _ in range(2)]
    rig.start()
    recover(rig.plugin())
    answers.append(prepare(rig.plugin(), ref))
    assert answers[0] == answers[1] == answers[2]
    assert rig.asked == [(GPU, ("a", "b"))]


def test_after_a_reboot_it_is_asked_again(rig: BridgedNode) -> None:
    ref = rig.claim("c", [result(A)])
    prepare(rig.plugin(), ref)
    spec = rig.spec(ref)
    rig.reboot()
    recover(rig.plugin())
    assert rig.asked == [(GPU, ("a",))] * 2
    assert rig.spec(ref) == spec


def test_tenants_of_one_card_have_different_replicas(rig: BridgedNode) -> None:
    plugin = rig.plugin()
    first, second = (
        rig.claim(name, [share(REPLICAS, share_id, "0")]) for name, share_id in (("c", SHARE_A), ("d", SHARE_B))
    )
    prepare(plugin, first)
    prepare(plugin, second)
    assert rig.asked == [(SHARED, ("x::0",)), (SHARED, ("x::1",))]
    unprepare(plugin, first)
    release(rig, plugin)
    prepare(plugin, rig.claim("e", [share(REPLICAS, SHARE_A, "0")]))
    assert rig.asked[-1] == (SHARED, ("x::0",))


def test_a_refusal_is_told_and_nothing_is_left_of_the_claim(rig: BridgedNode) -> None:
    rig.plugins.error = HardwareRefusal("the device plugin of amd.com/gpu refused: INTERNAL: no more")
    plugin, ref = rig.plugin(), rig.claim("c", [result(A)])
    failure = refused(plugin, ref)
    assert (failure.reason, len(rig.asked)) == ("operator", 1), "it is not asked again at once"
    release(rig, plugin)
    assert not rig.claim_files()
    rig.plugins.error = None
    prepare(plugin, ref)


def test_a_device_plugin_that_is_not_connected_is_waited_for_and_blocks_no_unprepare(rig: BridgedNode) -> None:
    plugin = rig.plugin()
    held, ref = rig.claim("held", [result(B)]), rig.claim("c", [result(A)])
    prepare(plugin, held)
    rig.plugins.error = TransientFault("the device plugin of amd.com/gpu is not connected")
    assert refused(plugin, ref).reason == "transient"
    unprepare(plugin, held)
    release(rig, plugin)
    assert not rig.claim_files()
    assert rig.hardware.observe(rig.hardware.cards()[1]).found == ()


def test_a_device_that_is_gone_does_not_keep_its_claim_from_ending(rig: BridgedNode) -> None:
    plugin, ref = rig.plugin(), rig.claim("c", [result(A)])
    prepare(plugin, ref)
    rig.lists[GPU] = [Reported("b")]
    rig.plugins.list_again()
    unprepare(plugin, ref)
    release(rig, plugin)
    assert not plugin.recorded().keys


@pytest.mark.parametrize(
    ("reported", "message"),
    [([Reported("a", healthy=False)], "reports a as unhealthy"), ([Reported("b")], "card amd.com/gpu/a is not there")],
)
def test_a_device_plugin_is_not_asked_for_what_it_says_is_broken(
    rig: BridgedNode, reported: list[Reported], message: str
) -> None:
    ref = rig.claim("c", [result(A)])
    rig.lists[GPU] = reported
    rig.plugins.list_again()
    assert message in refused(rig.plugin(), ref).message
    assert rig.asked == []


def test_a_strategy_of_sharing_is_refused(rig: BridgedNode) -> None:
    ref = rig.claim("c", [result(A)], [opaque(kind="GpuConfig", sharing="mps")])
    assert "sharing does not apply" in refused(rig.plugin(), ref).message


def pod(rig: BridgedNode, containers: dict[str, list[str]], refs: Sequence[ClaimRef]) -> None:
    """A pod whose containers have these of its claims ``one``, ``two`` and so on."""
    names = ["one", "two"]
    spec = {
        "nodeName": NODE,
        "resourceClaims": [
            {"name": name, "resourceClaimName": ref.name} for name, ref in zip(names, refs, strict=True)
        ],
        "containers": [
            {"name": name, "image": "busybox", "resources": {"claims": [{"name": each} for each in claims]}}
            for name, claims in containers.items()
        ],
    }
    metadata = {"name": "worker", "namespace": "team"}
    made = rig.api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, "team")
    for ref in refs:
        rig.reserve(ref, [made])


def two_claims(rig: BridgedNode, containers: dict[str, list[str]]) -> list[ClaimRef]:
    refs = [rig.claim("c", [result(A)]), rig.claim("d", [result(B)])]
    pod(rig, containers, refs)
    return refs


def test_two_claims_in_one_container_are_refused_before_anybody_is_asked(rig: BridgedNode) -> None:
    first, second = two_claims(rig, {"apart": ["two"], "main": ["one", "two"]})
    plugin = rig.plugin()
    prepare(plugin, first)
    failure = refused(plugin, second)
    assert failure.reason == "invalid"
    assert "container main has this claim and c, and the device plugin of amd.com/gpu sets variables" in failure.message
    assert rig.asked == [(GPU, ("a",))]
    unprepare(plugin, first)
    release(rig, plugin)
    prepare(plugin, second)


def test_two_claims_in_different_containers_of_a_pod_are_prepared(rig: BridgedNode) -> None:
    for ref in two_claims(rig, {"left": ["one"], "right": ["two"]}):
        prepare(rig.plugin(), ref)
    assert rig.asked == [(GPU, ("a",)), (GPU, ("b",))]


def test_two_claims_in_one_container_are_prepared_if_no_variable_is_set(rig: BridgedNode) -> None:
    rig.plugins.sets_variables = False
    for ref in two_claims(rig, {"main": ["one", "two"]}):
        prepare(rig.plugin(), ref)


@pytest.mark.parametrize("boots_again", [False, True])
def test_whenever_it_is_killed_the_next_program_finishes_or_undoes(boots_again: bool) -> None:
    for calls in itertools.count():
        rig = BridgedNode()
        ref = rig.claim("c", [result(A), result(B)])
        plugin = rig.plugin()
        rig.files.disk.before = Counted(calls).before
        try:
            plugin.prepare([ref])
        except Killed:
            rig.files.disk.before = None
        else:
            break
        rig.reboot() if boots_again else rig.start()
        plugin = rig.plugin()
        recover(plugin)
        prepare(plugin, ref)
        assert len(rig.asked) <= 2, "once before the kill, and once after it"
        assert "VISIBLE=a,b" in rig.spec(ref)["devices"][0]["containerEdits"]["env"]
        unprepare(plugin, ref)
        release(rig, plugin)
        assert (rig.claim_files(), plugin.recorded().keys) == (set(), frozenset())
        assert rig.files.names("/state/answers") == []
    assert calls > 10
