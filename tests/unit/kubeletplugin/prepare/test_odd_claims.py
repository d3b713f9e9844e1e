"""Whatever stands in a field of a claim or a pod, the kubelet gets an answer that names the claim, and others are
served."""

from typing import Any, Final

from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiCall, Object, Resource
from driver.kube.decorator import ApiDecorator
from kubeletplugin.prepare import ClaimRef, PrepareError, PrepareResult
from tests.unit.kubeletplugin.plugin_node import SHARE_A, PluginNode, opaque, prepare, result, share
from tests.unit.odd_values import FEW, all_odd

KEPT: Final = {("metadata",), *(("metadata", name) for name in ("namespace", "name", "uid", "resourceVersion"))}


class Serving(ApiDecorator):
    """The API, which serves another version of one object than the one in memory."""

    def __init__(self, api: Api, resource: Resource, name: str):
        super().__init__(api)
        self._what = ("get", resource, name)
        self.served: Object = {}

    def call(self, call: ApiCall) -> Any:
        if (call.verb, call.resource, call.name) == self._what and self.served:
            call.meanwhile()
            return self.served
        return super().call(call)


def odd_claim(rig: PluginNode) -> tuple[ClaimRef, Object]:
    """A claim with every field that is read, and the claim as the API has it."""
    results = [
        share("gpu-0-share", SHARE_A) | {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]},
        result("gpu-1", "other", adminAccess=False, bindingConditions=["a"]),
    ]
    names = {"resource.kubernetes.io/pod-claim-name": "gpus"}
    ref = rig.claim("odd", results, [opaque(kind="GpuConfig", sharing="none")], names)
    rig.reserve(ref, [rig.pod("one"), rig.pod("two")])
    return ref, rig.api.get(RESOURCE_CLAIMS, "odd", "team")


def test_a_claim_with_an_odd_value_in_any_place_is_prepared_or_refused_by_name() -> None:
    rig = PluginNode()
    ref, stored = odd_claim(rig)
    rig.reserve(ref, [])
    api = Serving(rig.api, RESOURCE_CLAIMS, "odd")
    plugin, wrong = rig.plugin(api=api), []
    for number, (what, odd) in enumerate(all_odd(stored, KEPT, FEW)):
        api.served = odd
        other = rig.claim(f"other-{number}", [result("gpu-2")])
        answers = plugin.prepare([ref, other])
        assert isinstance(answers[other.uid], PrepareResult), what
        answer = answers[ref.uid]
        if isinstance(answer, PrepareError) and (ref.uid not in answer.message or "defect" in answer.message):
            wrong.append(f"{what}: {answer}")
        api.served = {}
        rig.release(other)
        assert set(plugin.unprepare([ref, other]).values()) == {None}, what
    assert not wrong


def test_a_prepared_claim_is_unprepared_whatever_it_says_then_unless_its_pods_forbid_it() -> None:
    rig = PluginNode()
    ref, stored = odd_claim(rig)
    api = Serving(rig.api, RESOURCE_CLAIMS, "odd")
    plugin, wrong = rig.plugin(api=api), []
    for what, odd in all_odd(stored, KEPT, FEW):
        prepare(plugin, ref)
        api.served = odd
        answer = plugin.unprepare([ref])[ref.uid]
        api.served = {}
        if answer is not None and "pods still run with it on this node" not in answer.message:
            wrong.append(f"{what}: {answer}")
    assert not wrong


def test_a_pod_that_cannot_be_decoded_proves_nothing_and_the_other_pods_of_the_claim_count() -> None:
    rig = PluginNode()
    ref, _ = odd_claim(rig)
    api = Serving(rig.api, PODS, "one")
    plugin = rig.plugin(api=api)
    prepare(plugin, ref)
    for what, odd in all_odd(rig.api.get(PODS, "one", "team"), KEPT, FEW):
        api.served = odd
        answer = plugin.unprepare([ref])[ref.uid]
        assert isinstance(answer, PrepareError), what
        assert "pods still run with it on this node: " in answer.message, what
        assert "two; it stays prepared" in answer.message, what
