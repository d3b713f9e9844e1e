"""Where kube-scheduler allocated, the plugin says in the status of a claim which cards it has, and delays nobody."""

from collections.abc import Sequence
from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, ApiCall, ApiError, Conflict, Forbidden, Invalid, Object, Unavailable
from driver.kube.decorator import ApiDecorator
from kubeletplugin.prepare import ClaimRef, Preparer
from kubeletplugin.prepare.device_status import FORBIDDEN_SECONDS, LONGEST_RETRY_SECONDS, MOST_NOTED, DeviceStatusWriter
from tests.unit.kubeletplugin.plugin_node import NODE, SHARE_A, PluginNode, prepare, result, share, unprepare


class Refusing(ApiDecorator):
    """The API, whose answers to patches are these errors, one after the other; then it works."""

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        self.errors: list[ApiError] = []
        self.calls: list[tuple[str, str]] = []

    def call(self, call: ApiCall) -> Any:
        self.calls.append((call.verb, call.resource.plural))
        if call.verb == "patch" and self.errors:
            raise self.errors.pop(0)
        return super().call(call)


class Node:
    """A node whose plugin may write status; kube-scheduler is the test."""

    def __init__(self) -> None:
        self.rig = PluginNode()
        self.api = Refusing(self.rig.api)
        self.plugin = self.start()

    def start(self) -> Preparer:
        node = self.rig.context(self.api)
        self.writer = DeviceStatusWriter(node)
        return self.rig.plugin(self.api, device_status=self.writer)

    def devices(self, ref: ClaimRef) -> Sequence[Object]:
        claim = self.rig.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        return (claim.get("status") or {}).get("devices") or ()

    def facts(self, ref: ClaimRef) -> list[tuple[str, Any]]:
        return [(entry["device"], (entry.get("data") or {}).get("uuid")) for entry in self.devices(ref)]

    def work(self) -> None:
        """Everything that is due now."""
        while self.writer.step():
            pass

    def uuid(self, index: int) -> str:
        return self.rig.hardware.cards()[index].uuid


@pytest.fixture
def node() -> Node:
    return Node()


def test_prepare_answers_before_anything_is_written(node: Node) -> None:
    ref = node.rig.claim("c", [result("gpu-1")])
    prepare(node.plugin, ref)
    assert node.facts(ref) == []
    assert ("patch", "resourceclaims") not in node.api.calls
    node.work()
    assert node.facts(ref) == [("gpu-1", node.uuid(1))]


def test_it_is_the_document_that_the_controller_writes(node: Node) -> None:
    ref = node.rig.claim("c", [share("gpu-0-share", SHARE_A, memory="4Gi", cores="30")])
    prepare(node.plugin, ref)
    node.work()
    (entry,) = node.devices(ref)
    data = entry["data"]
    assert (data["kind"], data["node"], data["card"], data["memory"], data["cores"], data["sharing"]) == (
        "DeviceFacts",
        NODE,
        "gpu-0",
        "4Gi",
        30,
        "none",
    )


def test_nothing_is_read_or_written_for_a_claim_that_says_it_already(node: Node) -> None:
    ref = node.rig.claim("c", [result("gpu-1")])
    prepare(node.plugin, ref)
    node.work()
    unprepare(node.plugin, ref)
    node.api.calls.clear()
    prepare(node.plugin, ref)
    assert node.api.calls.count(("get", "resourceclaims")) == 1
    assert node.writer.next_due() is None


def test_what_others_wrote_for_our_devices_is_replaced_and_their_conditions_stay(node: Node) -> None:
    ref = node.rig.claim("c", [result("gpu-1"), result("nic-0", driver="nic.example", pool="p")])
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    ours = {"driver": "lode.dev", "pool": f"{NODE}/lode.dev", "device": "gpu-1"}
    other = {"driver": "nic.example", "pool": "p", "device": "nic-0", "data": {"mac": "02:00:00:00:00:01"}}
    written = [{**ours, "data": {"uuid": "GPU-forged"}, "conditions": [condition]}, other]
    node.rig.api.patch(RESOURCE_CLAIMS, "c", {"status": {"devices": written}}, namespace="team", subresource="status")
    prepare(node.plugin, ref)
    node.work()
    mine, theirs = node.devices(ref)
    assert (mine["data"]["uuid"], mine["conditions"]) == (node.uuid(1), [condition])
    assert {**theirs, "conditions": None} == {**other, "conditions": None}


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("no answer"), Invalid("no")])
def test_a_write_that_fails_is_tried_again(node: Node, error: ApiError) -> None:
    node.api.errors = [error, error]
    ref = node.rig.claim("c", [result("gpu-1")])
    prepare(node.plugin, ref)
    node.work()
    assert node.facts(ref) == []
    for _ in range(2):
        node.rig.clock.advance(LONGEST_RETRY_SECONDS)
        node.work()
    assert node.facts(ref) == [("gpu-1", node.uuid(1))]


def test_without_the_right_nothing_is_tried_for_an_hour_and_prepares_go_on(node: Node) -> None:
    node.api.errors = [Forbidden("may not", status=403)]
    refs = [node.rig.claim(f"c{index}", [result(f"gpu-{index}")]) for index in range(2)]
    for ref in refs:
        prepare(node.plugin, ref)
        node.work()
    assert node.api.calls.count(("patch", "resourceclaims")) == 1
    node.rig.clock.advance(FORBIDDEN_SECONDS)
    node.work()
    assert [node.facts(ref) for ref in refs] == [[(f"gpu-{index}", node.uuid(index))] for index in range(2)]


def test_a_claim_that_ended_meanwhile_is_left_alone(node: Node) -> None:
    ref, gone = node.rig.claim("c", [result("gpu-1")]), node.rig.claim("gone", [result("gpu-0")])
    prepare(node.plugin, ref)
    prepare(node.plugin, gone)
    node.rig.release(gone)
    node.rig.api.patch(RESOURCE_CLAIMS, "c", {"status": {"allocation": None}}, namespace="team", subresource="status")
    node.work()
    assert node.facts(ref) == []
    assert node.writer.next_due() is None


def test_a_claim_of_the_same_name_is_another_claim(node: Node) -> None:
    ref = node.rig.claim("c", [result("gpu-1")])
    prepare(node.plugin, ref)
    node.rig.release(ref)
    again = node.rig.claim("c", [result("gpu-1")])
    node.work()
    assert node.facts(again) == []


def test_what_waits_to_be_written_is_bounded(node: Node) -> None:
    claim = {"status": {"allocation": {"devices": {"results": [result("gpu-0")]}}}}
    entry = {"driver": "lode.dev", "pool": f"{NODE}/lode.dev", "device": "gpu-0", "data": {}}
    for number in range(MOST_NOTED + 1):
        node.writer.remember(ClaimRef("team", f"c{number}", f"uid-{number}"), claim, (entry,))
    node.api.calls.clear()
    node.work()
    assert len(node.api.calls) == MOST_NOTED


@pytest.mark.parametrize("devices", [[{}], [{"driver": "lode.dev", "data": "text"}], [{"data": [1]}]])
def test_strange_entries_do_not_keep_a_claim_from_being_prepared(node: Node, devices: list[Object]) -> None:
    ref = node.rig.claim("c", [result("gpu-1")])
    stored = node.api.get

    def strange(*arguments: Any, **options: Any) -> Object:
        found: Object = stored(*arguments, **options)
        if found["kind"] == "ResourceClaim":
            found = {**found, "status": {**found["status"], "devices": devices}}
        return found

    node.api.get = strange  # type: ignore[method-assign]
    prepare(node.plugin, ref)
