"""What is offered of the cards: what others made on them, what other drivers hand out, faults, and the node's label."""

from contextlib import suppress

import pytest

from driver.kube.api import NODES, RESOURCE_SLICES, Unavailable
from driver.observe import logger
from kubeletplugin.hardware import Card, HardwarePorts
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.remembered_cards import CardMemory, Failures, RememberedCards
from kubeletplugin.kubelet_devices import KubeletDevices, PluginDevice
from kubeletplugin.offers import Recorded
from tests.unit.kubeletplugin.publish.publishing_node import NODE, WRITES, PublishingNode, failing, running


def of_first(rig: PublishingNode) -> set[str]:
    return {name for name in rig.devices() if name == "gpu-0" or name.startswith("gpu-0-")}


def slices_left(rig: PublishingNode, card: str) -> list[str]:
    """The published counters of a card's memory slices."""
    (found,) = (
        each for part in rig.slices() for each in part["spec"].get("sharedCounters", ()) if each["name"] == card
    )
    return [found["counters"][f"memory-slice-{index}"]["value"] for index in range(8)]


def test_what_somebody_else_made_on_a_card_narrows_its_offer_until_it_is_gone() -> None:
    rig, one = running()
    all_of_it = of_first(rig)
    first, second, *_ = rig.hardware.cards()
    for action in (MigMode(first.uuid), MigInstance(first.uuid, "3g.20gb", 4)):
        rig.hardware.ensure(action)
    one.run(10)
    assert of_first(rig) == all_of_it, "a claim may have been allocated any of it"
    assert slices_left(rig, first.name) == [*"11110000"]
    assert slices_left(rig, second.name) == [*"11111111"]
    assert rig.journal.fields("card is not offered as everything")[0]["card"] == "gpu-0"
    rig.hardware.release(MigInstance(first.uuid, "3g.20gb", 4), None)
    one.run(10)
    assert of_first(rig) == {name for name in all_of_it if "-mig-" in name}
    rig.hardware.release(MigMode(first.uuid), None)
    one.run(10)
    assert of_first(rig) == all_of_it


def test_what_is_made_for_claims_changes_no_slice() -> None:
    rig, one = running()
    one.api.writes.clear()
    card = rig.hardware.cards()[0]
    actions = MigMode(card.uuid), MigInstance(card.uuid, "1g.5gb", 6)
    rig.recorded = Recorded(frozenset(action.key for action in actions))
    for action in actions:
        rig.hardware.ensure(action)
        one.run(6)
    for action in reversed(actions):
        rig.hardware.release(action, None)
        one.run(6)
    assert one.api.writes == []


def test_a_card_that_does_not_say_what_is_on_it_is_offered_as_before() -> None:
    rig, one = running()
    first, second, *_ = rig.hardware.cards()
    rig.hardware.ensure(MigMode(first.uuid))
    one.run(10)
    assert "gpu-0" not in rig.devices()
    rig.hardware.hanging = frozenset({first.uuid})
    rig.hardware.release(MigMode(first.uuid), None)
    rig.hardware.ensure(MigMode(second.uuid))
    one.run(10)
    assert {"gpu-0", "gpu-1"} & rig.devices().keys() == set()
    (told,) = [line for line in rig.journal.fields("card health changed") if line["card"] == "gpu-0"]
    assert "does not answer" in told["reason"]
    rig.hardware.hanging = frozenset()
    one.run(10)
    assert {"gpu-0", "gpu-1"} & rig.devices().keys() == {"gpu-0"}


def test_a_card_that_never_said_what_is_on_it_is_offered_when_it_does() -> None:
    rig = PublishingNode()
    rig.node()
    rig.hardware.hanging = frozenset({rig.hardware.cards()[0].uuid})
    one = rig.start()
    one.run(10)
    assert of_first(rig) == set()
    assert "gpu-1" in rig.devices()
    (told,) = rig.journal.fields("card is not offered as everything")
    assert "does not answer" in told["withheld"]["whole"]
    rig.hardware.hanging = frozenset()
    one.run(10)
    assert {"gpu-0", "gpu-0-share"} < of_first(rig)


def test_a_card_that_says_once_that_it_is_gone_is_not_offered_as_if_nothing_were_on_it() -> None:
    rig = PublishingNode()
    rig.node()
    rig.hardware.gone = frozenset({rig.hardware.cards()[0].uuid})
    one = rig.start()
    one.run(10)
    assert of_first(rig) == set()
    rig.files.write("/faults/gpu-0", b"fell off the bus")
    one.run(10)
    assert {"gpu-0", "gpu-0-share"} < of_first(rig), "its pods are told, by a taint"
    assert taints(rig) == {"lode.dev/unhealthy"}


def taints(rig: PublishingNode) -> set[str]:
    return {taint["key"] for device in rig.devices().values() for taint in device.get("taints", ())}


def test_cards_that_a_device_plugin_hands_out_are_tainted_until_it_is_gone() -> None:
    rig, one = running()
    for amount, expected in (("4", {"lode.dev/other-driver"}), ("0", set())):
        node = rig.memory.get(NODES, NODE)
        node["status"] = {"allocatable": {"nvidia.com/gpu": amount, "cpu": "64"}}
        rig.memory.update(NODES, node, "status")
        one.run(1)
        assert taints(rig) == expected
    (line,) = rig.journal.fields("cards are handed out by another driver")
    assert line["by"] == "the device plugin of nvidia.com/gpu"
    assert "remove that driver" in line["remedy"]


def test_only_the_cards_that_the_kubelet_names_are_tainted_and_pods_that_run_on_keep_theirs() -> None:
    rig, one = running()
    uuids = [card.uuid for card in rig.hardware.cards()]
    offered = frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids[:2])
    used = frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids[:1])

    def tainted(devices: int) -> set[str]:
        node = rig.memory.get(NODES, NODE)
        rig.memory.update(NODES, node | {"status": {"capacity": {"nvidia.com/gpu": str(devices)}}}, "status")
        one.run(10)
        return {name.split("-")[1] for name, device in rig.devices().items() if device.get("taints")}

    rig.kubelet = KubeletDevices(offered, used)
    assert tainted(2) == {"0", "1"}
    rig.kubelet = KubeletDevices(used=used)
    assert tainted(0) == {"0"}, "the device plugin is gone, and a pod of it runs"
    rig.kubelet = KubeletDevices()
    assert tainted(0) == set()


def test_the_taints_stay_while_the_kubelet_is_away_or_has_just_started() -> None:
    rig, one = running(offer=("whole",))
    uuids = [card.uuid for card in rig.hardware.cards()]
    used = frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids[:2])
    both = KubeletDevices(frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids), used)

    def tainted(kubelet: KubeletDevices | None, devices: int, seconds: float = 10) -> list[str]:
        rig.kubelet = kubelet
        node = rig.memory.get(NODES, NODE)
        rig.memory.update(NODES, node | {"status": {"capacity": {"nvidia.com/gpu": str(devices)}}}, "status")
        one.run(seconds)
        return [name for name, device in sorted(rig.devices().items()) if device.get("taints")]

    every = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert tainted(both, 4) == every
    assert tainted(KubeletDevices(used=used), 0) == every[:2], "the device plugin is gone, two pods run on"
    assert tainted(None, 0) == every[:2], "the kubelet does not answer"
    assert tainted(KubeletDevices(used=used), 0) == every[:2]
    assert tainted(both, 4) == every
    assert tainted(None, 4) == every, "the kubelet restarts"
    assert tainted(KubeletDevices(), 0) == every, "it is back, and knows neither device plugin nor pods yet"
    one = rig.start()
    assert tainted(KubeletDevices(), 0) == every, "Lode restarts meanwhile"
    assert tainted(both, 4) == every
    assert tainted(KubeletDevices(), 0) == []


@pytest.mark.parametrize("seconds", [1, 60, 400], ids=["once", "for a while", "for ever"])
def test_the_taints_stay_while_the_node_cannot_be_read(seconds: float) -> None:
    rig, one = running(offer=("whole",))
    node = rig.memory.get(NODES, NODE)
    rig.memory.update(NODES, node | {"status": {"capacity": {"nvidia.com/gpu": "4"}}}, "status")
    one.run(2)
    assert taints(rig) == {"lode.dev/other-driver"}
    one.api.before = failing(Unavailable("not now"), "list", "watch", *WRITES)
    for _ in range(10):
        rig.clock.advance(seconds / 10)
        with suppress(Unavailable):
            one.hear()
        one.publisher.step()
    assert taints(rig) == {"lode.dev/other-driver"}
    one.api.before = lambda _call: None
    node = rig.memory.get(NODES, NODE)
    rig.memory.update(NODES, node | {"status": {"capacity": {"nvidia.com/gpu": "0"}}}, "status")
    for _ in range(10):
        rig.clock.advance(60)
        one.run(0.1)
    assert taints(rig) == set()


def test_while_nothing_is_known_of_others_all_is_tainted_and_said_why() -> None:
    rig, one = running(offer=("whole",))
    one = rig.start()
    rig.kubelet, rig.kubelet_hangs = KubeletDevices(), True
    one.run(10)
    found = [taint for device in rig.devices().values() for taint in device["taints"]]
    assert [(taint["key"], taint["value"]) for taint in found] == [("lode.dev/other-driver", "unknown")] * 4
    (line,) = rig.journal.fields("cards are handed out by another driver")
    assert "the kubelet must answer" in line["remedy"]
    rig.kubelet_hangs = False
    one.run(10)
    assert taints(rig) == set()


@pytest.mark.parametrize(
    ("driver", "expected"), [("gpu.nvidia.com", {"lode.dev/other-driver"}), ("net.example", set())]
)
def test_cards_that_a_dra_driver_hands_out_are_tainted_until_it_is_gone(driver: str, expected: set[str]) -> None:
    rig, one = running()
    pool = {"name": "theirs", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": NODE, "pool": pool, "devices": [{"name": "theirs-0"}]}
    theirs = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "theirs"}, "spec": spec}
    rig.memory.create(RESOURCE_SLICES, theirs)
    one.run(1)
    own = {name for name, device in rig.devices().items() if device.get("attributes")}
    assert len(own) == 80
    assert taints(rig) == expected
    assert rig.memory.get(RESOURCE_SLICES, "theirs")["spec"]["driver"] == driver, "it is never written"
    rig.memory.delete(RESOURCE_SLICES, "theirs")
    one.run(1)
    assert taints(rig) == set()


def test_real_cards_of_another_driver_do_not_concern_simulated_ones() -> None:
    rig = PublishingNode(hardware="simulated")
    rig.node()
    node = rig.memory.get(NODES, NODE)
    node["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
    rig.memory.update(NODES, node, "status")
    rig.start().run(1)
    assert taints(rig) == set()


def test_an_unhealthy_card_is_tainted_until_it_is_well_again() -> None:
    rig, one = running("t4x2")
    rig.files.write("/faults/gpu-1", b"Xid 79")
    one.run(6)
    taints = {name: [t["key"] for t in device.get("taints", ())] for name, device in rig.devices().items()}
    assert taints == {
        "gpu-0": [],
        "gpu-0-share": [],
        "gpu-1": ["lode.dev/unhealthy"],
        "gpu-1-share": ["lode.dev/unhealthy"],
    }
    assert one.sample("lode_cards", health="unhealthy") == 1
    assert rig.journal.fields("card health changed")[0]["reason"] == "Xid 79"
    rig.files.remove("/faults/gpu-1")
    one.run(6)
    assert not any(device.get("taints") for device in rig.devices().values())


def test_hardware_that_gives_no_answer_leaves_what_is_published() -> None:
    rig, one = running("t4x2")
    before = rig.slices()
    rig.hardware.silent = True
    one.run(30)
    assert rig.slices() == before
    rig.hardware.silent = False
    rig.wipe()
    one.run(61)
    assert len(rig.devices()) == 4


def test_a_card_that_nothing_is_offered_of_is_said_once() -> None:
    rig, one = running("t4x2", offer=("partitions",))
    one.run(20)
    assert [entry["card"] for entry in rig.journal.fields("card is not offered")] == ["gpu-0", "gpu-1"]
    assert rig.devices() == {}


@pytest.mark.parametrize(
    ("label", "offered"),
    [
        ("whole", {"gpu-0", "gpu-1"}),
        ("share-whole", {"gpu-0", "gpu-1", "gpu-0-share", "gpu-1-share"}),
        ("", {"gpu-0-share", "gpu-1-share"}),
    ],
)
def test_the_nodes_label_chooses_what_its_cards_are_offered_as(label: str, offered: set[str]) -> None:
    rig, one = running("t4x2", offer=("share",))
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"lode.dev/offer": label}}})
    one.run(2)
    assert set(rig.devices()) == offered


@pytest.mark.parametrize("label", ["hole", "whole-whole", "whole-", "whole_share"])
def test_a_label_that_is_not_valid_is_said_once_and_the_setting_counts(label: str) -> None:
    rig, one = running("t4x2", offer=("share",))
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"lode.dev/offer": label}}})
    one.run(60)
    assert set(rig.devices()) == {"gpu-0-share", "gpu-1-share"}
    (said,) = rig.journal.fields("node label is not valid and ignored")
    assert (said["label"], said["value"]) == ("lode.dev/offer", label)
    assert "whole, share, partitions" in said["remedy"]


def test_a_card_that_toggles_does_not_have_the_slices_written_again_and_again() -> None:
    rig = PublishingNode("h100x8")
    file = BootFile(rig.files, "/plugin/health.json", "boot", Failures, logger("test"))
    failed = BootFile(rig.files, "/plugin/failed-cards.json", "boot", list[Card], logger("test"))
    ports = HardwarePorts(rig.hardware, rig.hardware)
    rig.cards = RememberedCards(ports, rig.clock, 60, CardMemory(failed, file))
    rig.node()
    one = rig.start()
    one.run(1)
    one.api.writes.clear()
    for number in range(120):
        if number % 2:
            rig.files.remove("/faults/gpu-3")
        else:
            rig.files.write("/faults/gpu-3", b"Xid 63")
        one.run(5.2)
    assert 0 < len(one.api.writes) <= len(rig.slices())
