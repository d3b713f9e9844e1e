"""Devices of device plugins are simulated as others are, in the classes that ``lode classes`` prints."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.__main__ import main as lode
from driver.deviceplugins import ResourceSettings
from driver.kube.api import Object
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of
from kubeletplugin.hardware.deviceplugin.reported import Reported, card_reports
from kubeletplugin.hardware.place import Place
from tests.unit.cli.cluster import Answer, pod, simulation, slices, slices_of, template

Simulate = Callable[..., Answer]
GPU, SHARED, SETTINGS = "amd.com/gpu", "nvidia.com/gpu.shared", ResourceSettings()


def cards(resource: str, *ids: str) -> list[Card]:
    node = LabelledNode({}, lambda _: Place())
    return [card_of(resource, report, SETTINGS, node) for report in card_reports(map(Reported, ids), "auto")]


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    """Simulates objects on a node with two cards of one device plugin, and four slots of another one's card."""
    bridged = [*cards(GPU, "0000:18:00.0", "0000:af:00.0"), *cards(SHARED, *(f"GPU-a::{slot}" for slot in range(4)))]
    assert lode(["classes", GPU, SHARED]) == 0
    classes = list(yaml.safe_load_all(capsys.readouterr().out))

    def call(*objects: Object) -> Answer:
        published = [*slices_of(bridged, "bridged"), *slices("own", "t4x2")]
        return simulation(capsys, tmp_path, *published, *classes, *objects)

    return call


def test_a_pod_gets_the_devices_of_the_resource_that_its_class_stands_for(simulated: Simulate) -> None:
    answer = simulated(template("two", "gpu.amd.com.lode.dev", count=2), pod("train", of="two"))
    (devices,) = answer.placed().values()
    assert (answer.status, len(set(devices))) == (0, 2)
    assert all(device.startswith("bridged/lode.dev/gpu-") for device in devices)


def test_slots_of_a_shared_card_are_had_by_as_many_pods_as_it_has_replicas(simulated: Simulate) -> None:
    answer = simulated(template("slot", "gpu.shared.nvidia.com.lode.dev"), *(pod(f"p{n}", of="slot") for n in range(5)))
    placed = [devices for devices in answer.placed().values() if devices]
    assert (answer.status, len(placed)) == (1, 4)
    assert {device for devices in placed for device in devices} == {placed[0][0]}


def test_why_a_pod_waits_is_said_in_the_same_words(simulated: Simulate) -> None:
    answer = simulated(template("three", "gpu.amd.com.lode.dev", count=3), pod("train", of="three"))
    reason, message = answer.reason("train")
    assert reason == "Impossible"
    assert "wants 3 of gpu.amd.com.lode.dev" in message
