"""docs/nvlink-domains.md: its objects on two racks of GB200 nodes, beside the channels of NVIDIA's driver."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.shipped import device_classes
from driver.kube.api import Object
from tests.unit.cli.cluster import allocated, claim, node, simulation, slices, stored
from tests.unit.docs.pages import ROOT

PAGE = (ROOT / "docs" / "nvlink-domains.md").read_text()
((JOB),) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
CHANNELS = "compute-domain.nvidia.com"
DOMAIN = "6d1f0c52-8e2b-4b7a-9a41-5f0c7e3b2d19.1"
"""Of the profile."""
NODES = 18


def channel(name: str) -> Object:
    """What NVIDIA's driver publishes of a node: channel 0, and the daemon's device."""
    kinds = {"channel-0": "channel", "daemon-0": "daemon"}
    devices = [
        {"name": device, "attributes": {"type": {"string": kind}, "id": {"int": 0}}} for device, kind in kinds.items()
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{CHANNELS}"},
        "spec": {"driver": CHANNELS, "nodeName": name, "pool": pool, "devices": devices},
    }


CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "compute-domain-default-channel.nvidia.com"},
    "spec": {
        "selectors": [
            {
                "cel": {
                    "expression": f"device.driver == '{CHANNELS}' && device.attributes['{CHANNELS}'].type == 'channel'"
                    f" && device.attributes['{CHANNELS}'].id == 0"
                }
            }
        ]
    },
}


def template(domain: str) -> Object:
    """What NVIDIA's controller makes of a ComputeDomain."""
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": f"uid-{domain}",
        "allocationMode": "Single",
    }
    spec = {
        "devices": {
            "requests": [{"name": "channel", "exactly": {"deviceClassName": CLASS["metadata"]["name"]}}],  # type: ignore[index]
            "config": [{"requests": ["channel"], "opaque": {"driver": CHANNELS, "parameters": parameters}}],
        }
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"{domain}-channel"},
        "spec": {"spec": spec},
    }


def racks(*names: str) -> list[Object]:
    objects = [*device_classes(), CLASS]
    for rack in names:
        for number in range(1, NODES + 1):
            name = f"{rack}-{number:02}"
            published = json.dumps(slices(name, "gb200x4")).replace(DOMAIN, f"{rack}.1")
            objects += [stored(node(name)), *json.loads(published), channel(name)]
    return objects


def job(pods: int = 9) -> list[Object]:
    """The page's objects but the ComputeDomain, of which NVIDIA's controller makes the template."""
    objects = [one for one in yaml.safe_load_all(JOB) if one["kind"] != "ComputeDomain"]
    objects[-1]["spec"].update(parallelism=pods, completions=pods)
    return [template("half-rack"), *objects]


def places(answer: Any) -> list[str]:
    """The node of each pod, by its cards."""
    return [devices[0].split("/")[0] if devices else "" for devices in answer.placed().values()]


def test_the_job_of_the_page_is_in_one_rack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = simulation(capsys, tmp_path, *racks("r1", "r2"), *job())
    assert answer.status == 0, answer.out
    assert len(set(places(answer))) == 9
    assert {place.split("-")[0] for place in places(answer)} == {"r1"}
    assert all(len(devices) == 4 for devices in answer.placed().values())


def test_a_rack_in_which_a_card_is_in_use_takes_no_gang_of_all_its_nodes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    used = allocated(claim("used"), "r1-05/gpu-0", "somebody")
    answer = simulation(capsys, tmp_path, *racks("r1", "r2"), used, *job(pods=NODES))
    assert {place.split("-")[0] for place in places(answer)} == {"r2"}
    alone = simulation(capsys, tmp_path, *racks("r1"), used, *job(pods=NODES))
    assert set(places(alone)) == {""}


def test_only_nodes_with_a_free_channel_are_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    held = stored(
        claim("held", "compute-domain-default-channel.nvidia.com"),
        allocation={
            "devices": {
                "results": [{"request": "r", "driver": CHANNELS, "pool": "r1-01", "device": "channel-0"}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r1-01"]}]}
                ]
            },
        },
    )
    answer = simulation(capsys, tmp_path, *racks("r1"), held, *job(pods=NODES - 1))
    assert "" not in places(answer)
    assert "r1-01" not in places(answer)
    assert set(places(simulation(capsys, tmp_path, *racks("r1"), held, *job(pods=NODES)))) == {""}
