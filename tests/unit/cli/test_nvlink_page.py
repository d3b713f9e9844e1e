"""docs/nvlink-domains.md: its objects on two racks of GB200 nodes, beside the channels of NVIDIA's driver."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.shipped import device_classes
from driver.kube.api import Object
from tests.compute_domains import CHANNEL, CLASSES, DEVICES, DRIVER, job_of_the_page
from tests.unit.cli.cluster import allocated, claim, node, simulation, slices, stored

DOMAIN = "6d1f0c52-8e2b-4b7a-9a41-5f0c7e3b2d19.1"
"""Of the profile."""
NODES = 18


def published(name: str) -> Object:
    """The slice of NVIDIA's driver for a node."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(DEVICES)},
    }


def racks(*names: str) -> list[Object]:
    selectors = [{"cel": {"expression": CLASSES[CHANNEL]}}]
    channel = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CHANNEL}}
    objects = [*device_classes(), {**channel, "spec": {"selectors": selectors}}]
    for rack in names:
        for number in range(1, NODES + 1):
            name = f"{rack}-{number:02}"
            cards = json.dumps(slices(name, "gb200x4")).replace(DOMAIN, f"{rack}.1")
            objects += [stored(node(name)), *json.loads(cards), published(name)]
    return objects


def places(answer: Any) -> list[str]:
    """The node of each pod, by its cards."""
    return [devices[0].split("/")[0] if devices else "" for devices in answer.placed().values()]


def test_the_job_of_the_page_is_in_one_rack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = simulation(capsys, tmp_path, *racks("r1", "r2"), *job_of_the_page())
    assert answer.status == 0, answer.out
    assert len(set(places(answer))) == 9
    assert {place.split("-")[0] for place in places(answer)} == {"r1"}
    assert all(len(devices) == 4 for devices in answer.placed().values())


def test_a_rack_in_which_a_card_is_in_use_takes_no_gang_of_all_its_nodes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    used = allocated(claim("used"), "r1-05/gpu-0", "somebody")
    answer = simulation(capsys, tmp_path, *racks("r1", "r2"), used, *job_of_the_page(NODES))
    assert {place.split("-")[0] for place in places(answer)} == {"r2"}
    alone = simulation(capsys, tmp_path, *racks("r1"), used, *job_of_the_page(NODES))
    assert set(places(alone)) == {""}


def test_only_nodes_with_a_free_channel_are_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    held = stored(
        claim("held", CHANNEL),
        allocation={
            "devices": {
                "results": [{"request": "r", "driver": DRIVER, "pool": "r1-01", "device": "channel-0"}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r1-01"]}]}
                ]
            },
        },
    )
    answer = simulation(capsys, tmp_path, *racks("r1"), held, *job_of_the_page(NODES - 1))
    assert "" not in places(answer)
    assert "r1-01" not in places(answer)
    whole = simulation(capsys, tmp_path, *racks("r1"), held, *job_of_the_page(NODES))
    assert set(places(whole)) == {""}
    assert "17 of 18 members fit in r1.1 (devices on 17 nodes, devices of other drivers on 1 node)" in whole.out
