"""The slices of a node are what its cards are, whatever the API, the kubelet and the hardware do meanwhile."""

from driver.kube.api import NODES, RESOURCE_SLICES
from driver.settings import NodeLabels
from driver.wire import slice_from
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.publish.rewrite_backoff import LONGEST_CONTEST_SECONDS
from tests.unit.kubeletplugin.publish.publishing_node import NODE, Broken, PublishingNode, running


def test_a_node_publishes_its_cards_under_its_own_name_and_owned_by_its_node() -> None:
    rig, one = running()
    assert len(rig.devices()) == 80
    node = rig.memory.get(NODES, NODE)
    for item in rig.slices():
        assert item["spec"]["nodeName"] == NODE
        assert item["spec"]["pool"] == {"name": "node-a/lode.dev", "generation": 1, "resourceSliceCount": 3}
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Node", node["metadata"]["uid"], True)
    assert one.publisher.published


def test_devices_say_what_runs_the_containers_of_their_node() -> None:
    """As soon as the kubelet says it, and after an upgrade of the runtime. A Node that is registered anew does not
    say it for a while."""
    rig, one = running()
    name = "containerRuntime"
    assert not any(name in device["attributes"] for device in rig.devices().values())
    for runtime in ("containerd://2.0.5", "containerd://2.1.4"):
        info = {"containerRuntimeVersion": runtime}
        rig.memory.patch(NODES, NODE, {"status": {"nodeInfo": info}}, subresource="status")
        one.run(30)
        assert {device["attributes"][name]["string"] for device in rig.devices().values()} == {runtime}
    rig.memory.patch(NODES, NODE, {"status": {"nodeInfo": None}}, subresource="status")
    one.run(30)
    assert {device["attributes"][name]["string"] for device in rig.devices().values()} == {"containerd://2.1.4"}


def test_a_node_without_cards_publishes_one_empty_slice() -> None:
    rig, _ = running("")
    (item,) = rig.slices()
    assert item["spec"].get("devices", []) == []


def test_nothing_is_written_while_the_node_does_not_exist() -> None:
    rig = PublishingNode()
    one = rig.start()
    one.run()
    assert one.api.writes == []
    assert one.publisher.next_due() is None
    rig.node()
    one.run()
    assert len(rig.devices()) == 80


def test_when_all_is_published_nothing_more_is_written() -> None:
    rig, one = running()
    one.api.writes.clear()
    one.run(30)
    two = rig.start()
    two.run(30)
    assert (one.api.writes, two.api.writes) == ([], [])


def test_two_instances_starting_at_once_publish_one_and_the_same_pool() -> None:
    rig = PublishingNode()
    rig.node()
    one, two = rig.start(), rig.start()
    for instance in (one, two):
        instance.hear()
    for _ in range(100):
        one.run(0)
        two.run(0)
    assert len(rig.devices()) == 80
    assert rig.generations() == {1}
    assert one.publisher.published
    assert two.publisher.published


def test_a_rolling_update_whose_instances_want_other_slices_ends() -> None:
    rig, one = running("a100x4")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    two = rig.start()
    two.run()
    ready, owners = [], set()
    for _ in range(1200):
        one.run(0)
        owners.add(len(rig.devices()))
        two.run(0)
        owners.add(len(rig.devices()))
        ready.append(two.publisher.published)
    assert owners == {80, 4}, "each overwrites what the other has written"
    assert all(ready), "what the DaemonSet's controller waits for before it ends the first"
    two.run(LONGEST_CONTEST_SECONDS)
    assert len(rig.devices()) == 4


def test_labels_of_the_node_become_attributes_and_changes_follow() -> None:
    rig = PublishingNode("t4x2", node_labels=NodeLabels(ib_cluster="fabric"))
    rig.node(fabric="west")
    one = rig.start()
    one.run()
    assert rig.devices()["gpu-0"]["attributes"]["ibCluster"] == {"string": "west"}
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"fabric": "east"}}})
    one.run()
    assert {d["attributes"]["ibCluster"]["string"] for d in rig.devices().values()} == {"east"}


def test_a_change_of_the_node_that_says_nothing_new_is_not_even_looked_at() -> None:
    rig, one = running("t4x2")
    due = one.publisher.next_due()
    rig.memory.patch(NODES, NODE, {"metadata": {"annotations": {"heartbeat": "1"}}})
    one.hear()
    assert one.publisher.next_due() == due


def test_slices_wiped_by_the_kubelet_are_back_within_a_second() -> None:
    rig, one = running()
    rig.wipe()
    one.run()
    assert len(rig.devices()) == 80
    assert one.publisher.published


def test_part_of_the_slices_wiped_is_made_again_and_the_rest_left_alone() -> None:
    rig, one = running()
    rig.memory.delete(RESOURCE_SLICES, rig.slices()[1]["metadata"]["name"])
    one.api.writes.clear()
    one.run()
    assert one.api.writes == ["create"]
    assert len(rig.devices()) == 80


def test_obsolete_slices_of_ours_are_removed() -> None:
    rig, _ = running("h100x8")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    rig.start().run()
    assert set(rig.devices()) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}
    assert {slice_from(item).slice_count for item in rig.slices()} == {2}
    assert len(rig.slices()) == 2


def test_metrics_count_what_is_published() -> None:
    _, one = running("ascend310px4")
    assert one.sample("lode_devices", kind="npu") == 4
    assert one.sample("lode_devices", kind="vnpu") == 80
    assert one.sample("lode_cards", health="healthy") == 4
    assert one.sample("lode_pool_generation") == 1
    assert one.sample("lode_slice_writes_total", operation="create", outcome="ok") == 3
