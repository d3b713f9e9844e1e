"""When a kubelet gives up a claim: nothing is left, a pod that runs keeps its devices, and every pod can end."""

from typing import Any

import pytest

from driver.kube.api import NODES, PODS, Api, ApiCall, ApiError, Forbidden, Unavailable
from driver.kube.decorator import ApiDecorator
from kubeletplugin.prepare import ClaimRef
from kubeletplugin.prepare.preparer import LOOKUP_SECONDS
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    NODE,
    UNKNOWN,
    PluginNode,
    prepare,
    recover,
    result,
    unprepare,
)


def test_unprepare_leaves_nothing() -> None:
    rig = PluginNode()
    plugin = rig.plugin()
    refs = [rig.claim("a", [result("gpu-0", "x"), result("gpu-1", "y")]), rig.claim("b", [result("gpu-2")])]
    plugin.prepare(refs)
    assert plugin.unprepare(refs) == {ref.uid: None for ref in refs}
    assert (rig.claim_files(), plugin.prepared()) == (set(), {})


@pytest.mark.parametrize("ref", [UNKNOWN, ClaimRef("team", "odd", "../../etc/passwd")])
def test_unprepare_of_an_unknown_claim_succeeds(ref: ClaimRef) -> None:
    assert PluginNode().plugin().unprepare([ref]) == {ref.uid: None}


def test_unprepare_succeeds_though_files_and_claim_are_gone() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.files.disk.forget(CDI)
    rig.release(ref)
    assert rig.plugin().unprepare([ref]) == {ref.uid: None}
    assert rig.plugin().prepared() == {}


def test_a_claim_that_two_running_pods_use_is_not_given_up() -> None:
    rig = PluginNode()
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
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two", "Pending")])
    failure = plugin.unprepare([ref])[ref.uid]
    assert failure is not None
    assert "pods still run with it on this node: one;" in failure.message
    assert set(plugin.prepared()) == {ref.uid}


@pytest.mark.parametrize(
    ("kubelet", "is_believed"),
    [
        ("v1.36.5", False),
        ("v1.37.0", True),
        ("v1.38.0-beta.1", True),
        ("v1.40.2-gke.100", True),
        ("", False),
        ("unknown", False),
    ],
)
def test_a_kubelet_that_counts_the_pods_of_a_claim_is_believed(kubelet: str, is_believed: bool) -> None:
    rig = PluginNode()
    rig.api.patch(NODES, NODE, {"status": {"nodeInfo": {"kubeletVersion": kubelet}}}, subresource="status")
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two", "Pending")])
    assert (plugin.unprepare([ref])[ref.uid] is None) == is_believed


class _NodeUnread(ApiDecorator):
    """An API that does not answer what the node is, or in a shape of its own."""

    def __init__(self, api: Api, answer: object):
        super().__init__(api)
        self._answer = answer

    def call(self, call: ApiCall) -> Any:
        if call.resource != NODES:
            return super().call(call)
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [Unavailable("connection lost"), Forbidden("no"), {"status": []}, {"status": {"nodeInfo": {"kubeletVersion": 7}}}],
    ids=repr,
)
def test_a_kubelet_whose_version_cannot_be_read_is_not_believed(answer: object) -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two", "Pending")])
    assert rig.plugin(_NodeUnread(rig.api, answer)).unprepare([ref])[ref.uid] is not None


@pytest.mark.parametrize("beside", ["gpu-1", "gpu-1-mig-1g-5gb-0"])
def test_what_was_unprepared_before_a_loss_of_power_is_in_nobodys_way(beside: str) -> None:
    rig = PluginNode("a100x2")
    other, ref = rig.claim("other", [result(beside)]), rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    plugin.prepare([other, ref])
    unprepare(plugin, ref)
    rig.release(ref)
    rig.files.disk.lose_power()
    rig.reboot()
    recover(rig.plugin())
    new = rig.claim("new", [result("gpu-0")])
    prepare(rig.plugin(), new)
    assert set(rig.plugin().prepared()) - {other.uid} == {new.uid}


@pytest.mark.parametrize("other", ["Pending", "Succeeded"])
@pytest.mark.parametrize("ending", ["deleted", "exited", "evicted"])
def test_the_last_running_pod_of_a_claim_can_always_end(ending: str, other: str) -> None:
    rig = PluginNode()
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
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    plugin = rig.plugin()
    prepare(plugin, ref)
    rig.reserve(ref, [rig.pod("one")])
    assert plugin.unprepare([ref]) == {ref.uid: None}


def test_a_silent_api_never_keeps_a_pod_from_ending() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    assert rig.plugin(Unsteady(rig.api, failures=1000)).unprepare([ref]) == {ref.uid: None}
    assert rig.clock.monotonic() == 0


class Slow(Unsteady):
    """An API whose answers take a while."""

    def __init__(self, rig: PluginNode, seconds: float):
        super().__init__(rig.api, failures=0)
        self._clock = rig.clock
        self._seconds = seconds

    def call(self, call: ApiCall) -> Any:
        self._clock.sleep(self._seconds)
        return super().call(call)


def test_a_slow_api_keeps_no_pod_from_ending() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.reserve(ref, [rig.pod(f"pod-{number}") for number in range(20)])
    assert rig.plugin(Slow(rig, 3.0)).unprepare([ref]) == {ref.uid: None}
    assert rig.clock.monotonic() <= LOOKUP_SECONDS + 3.0


def test_an_unprepare_that_the_kubelet_has_given_up_takes_nothing_away() -> None:
    """The kubelet has called again meanwhile, and had the claim prepared for another pod."""
    rig = PluginNode()
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
