"""Writes that fail, are refused, or are lost or undone by others: what is published stays right."""

import pytest

from driver.kube.api import RESOURCE_SLICES, Conflict, Forbidden, Invalid, NotFound, Object, Unavailable
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware.simulated import load_profile
from tests.unit.kubeletplugin.publish.publishing_node import (
    NODE,
    WRITES,
    Broken,
    PublishingNode,
    Running,
    failing,
    running,
)


def test_registration_makes_it_publish_at_once_even_in_a_pause_after_errors() -> None:
    rig, one = running("t4x2")
    one.api.before = failing(Unavailable("no route", status=0), "create")
    rig.wipe()
    one.run(40)
    one.api.before = failing(None)
    one.publisher.republish_now()
    one.run(0)
    assert len(rig.devices()) == 4


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("timeout"),
        Conflict("changed", status=409),
        Forbidden("no", status=403),
        Invalid("spec.devices[0].name: no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_write_is_tried_again_ever_more_slowly_until_it_succeeds(error: Exception) -> None:
    rig = PublishingNode("t4x2")
    rig.node()
    one = rig.start()
    one.api.before = failing(error)
    one.run(120)
    attempts = int(one.sample("lode_slice_writes_total", operation="create", outcome=type(error).__name__))
    assert 5 <= attempts <= 10
    assert not one.publisher.published
    one.api.before = failing(None)
    one.run(61)
    assert len(rig.devices()) == 4


def test_a_refusal_says_which_field_and_leaves_what_is_published() -> None:
    rig, one = running("t4x2")
    before = rig.devices()
    one.api.before = failing(Invalid('spec.devices[0].name: Invalid value: "gpu_0"', status=422))
    rig.files.write("/faults/gpu-0", b"Xid 79")
    one.run(10)
    assert rig.devices() == before
    assert "spec.devices[0].name" in rig.journal.fields("cannot write slices")[0]["reason"]


def test_an_inventory_that_breaks_a_rule_is_never_sent_and_leaves_what_is_published() -> None:
    rig, _ = running("t4x2")
    before = rig.slices()
    card = rig.hardware.cards()[0]
    rig.hardware.present = (card, card)
    two = rig.start()
    two.run(5)
    assert rig.slices() == before
    assert two.api.writes == []
    (fault, _) = rig.journal.fields("inventory is not valid")[:2]
    assert "gpu-0" in fault["field"]


def test_a_write_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    rig = PublishingNode("t4x2")
    rig.node()
    one = rig.start()
    lost: list[str] = []

    def lose(call: str) -> None:
        if call == "create" and not lost:
            lost.append(call)
            raise Unavailable("connection reset")

    one.api.after = lose
    one.hear()
    for _ in range(60):
        # The watch is silent: all that is known comes from answers.
        one.publisher.step()
        rig.clock.advance(0.1)
    assert len(rig.devices()) == 4
    assert rig.generations() == {1}
    assert one.publisher.published


def test_a_plugin_killed_after_any_write_is_finished_by_the_next() -> None:
    class Killed(BaseException):
        pass

    for survived in range(4):
        rig = PublishingNode()
        rig.node()
        one = rig.start()

        def kill(call: str, one: Running = one, survived: int = survived) -> None:
            if call in WRITES and len(one.api.writes) == survived:
                raise Killed

        one.api.before = kill
        if survived < 3:
            with pytest.raises(Killed):
                one.run()
        rig.start().run()
        assert len(rig.devices()) == 80


def test_fields_the_server_drops_are_reported_once_and_not_sent_for_ever() -> None:
    def no_taints(spec: Object) -> None:
        for device in spec.get("devices", ()):
            device.pop("taints", None)

    rig, one = running("t4x2")
    one.api.drop = no_taints
    rig.files.write("/faults/gpu-1", b"Xid 79")
    one.run(6)
    writes = len(one.api.writes)
    one.run(120)
    assert len(one.api.writes) == writes
    assert [entry["field"] for entry in rig.journal.fields("field not stored by the API server")] == [
        "spec.devices[].taints"
    ]
    assert one.sample("lode_slice_dropped_fields_total", field="devices[].taints") == 1
    assert one.publisher.published


def test_without_counters_each_card_is_offered_as_one_kind_because_nothing_keeps_two_apart() -> None:
    def no_counters(spec: Object) -> None:
        spec.pop("sharedCounters", None)
        for device in spec.get("devices", ()):
            device.pop("consumesCounters", None)

    rig = PublishingNode("a100x4")
    rig.node()
    one = rig.start()
    one.api.drop = no_counters
    seen: list[set[str]] = []
    for _ in range(100):
        one.run(0)
        seen.append(set(rig.devices()))
    assert set(rig.devices()) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}
    assert all(names <= {"gpu-0", "gpu-1", "gpu-2", "gpu-3"} for names in seen)
    assert one.publisher.published


def test_two_plugins_that_disagree_overrule_each_other_ever_more_slowly() -> None:
    rig, one = running("t4x2")
    rig.settings = Settings(kubeletplugin=KubeletPluginSettings(offer=("whole",)))
    two = rig.start()
    for _ in range(1200):
        for instance in (one, two):
            instance.hear()
            instance.publisher.step()
        rig.clock.advance(0.05)
    assert len(one.api.writes) + len(two.api.writes) < 60


def test_a_slice_of_another_driver_that_has_our_name_is_left_alone_and_said() -> None:
    rig = PublishingNode("t4x2")
    rig.node()
    spec = {
        "driver": "other.example.com",
        "nodeName": NODE,
        "pool": {"name": "x", "generation": 1, "resourceSliceCount": 1},
        "devices": [],
    }
    name = "node-a-lode.dev-counters-000"
    foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    rig.memory.create(RESOURCE_SLICES, foreign)
    one = rig.start()
    one.run(10)
    assert rig.memory.get(RESOURCE_SLICES, name)["spec"]["driver"] == "other.example.com"
    (said,) = rig.journal.fields("slice name is taken by another driver or node")
    assert said["driver"] == "other.example.com"


def test_a_slice_deleted_by_another_instance_meanwhile_is_no_error() -> None:
    rig, _ = running("h100x8")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    two = rig.start()
    two.hear()
    for item in rig.slices():
        if item["metadata"]["name"].endswith("devices-002"):
            rig.memory.delete(RESOURCE_SLICES, item["metadata"]["name"])
    two.run()
    with pytest.raises(NotFound):
        rig.memory.get(RESOURCE_SLICES, "node-a-lode.dev-devices-002")
    assert set(rig.devices()) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}
