"""The demo shows the main job from end to end, and says so if anything is not as it should be."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cli import demo
from cli.shipped import device_classes, examples
from driver.clock import SystemClock
from driver.settings import Settings
from memoryapi import MemoryApi
from simulation.realtime import RealTimeNode
from tests.unit.cli.ui.served import INTERRUPTIBLE, Browser

ADDRESS = re.compile(r"The fleet of the demo is at (\S+)")


def test_the_demo_runs_every_example_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status = demo.main([])
    shown = capsys.readouterr()
    assert status == 0, shown.out + shown.err
    assert "API below is in memory" in shown.out
    assert len(re.findall(r"^\S+ +allocated,reserved +\S+$", shown.out, re.MULTILINE)) == 17
    assert re.search(r"^LODE_MEMORY_MIB_GPU_\d_SHARE_\w{8}=4096$", shown.out, re.MULTILINE)
    assert "/dev/lode/gpu-" in shown.out
    assert '"apiVersion":"metadata.resource.k8s.io/v1beta1"' in shown.out
    assert re.search(r"^pod/one-too-many: 0 of 3 nodes can take the pod", shown.out, re.MULTILINE)
    assert "No claim, no allocation, no checkpoint entry" in shown.out
    assert shown.out.endswith("lode demo --ui (in a checkout: make demo ARGS=--ui)\n")


def test_the_demo_with_device_plugins_makes_their_classes_and_gives_a_pod_devices_of_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = demo.main(["--device-plugins"])
    shown = capsys.readouterr()
    assert status == 0, shown.out + shown.err
    assert re.search(r"^amd-1 +mi300x8 +8 device, 1 device-share$", shown.out, re.MULTILINE)
    assert "deviceclass/gpu.amd.com.lode.dev created: amd.com/gpu of a device plugin: devices: 8" in shown.out
    held = re.findall(r"^of-device-plugins +(\w+) +amd-1/(gpu|hca)-\w+(?:-share)? ", shown.out, re.MULTILINE)
    assert held == [("cards", "gpu"), ("cards", "gpu"), ("adapter", "hca")]
    assert re.search(r"^pod/one-too-many: 0 of 4 nodes can take the pod", shown.out, re.MULTILINE)


def test_the_demo_serves_its_fleet_as_a_page_until_it_is_interrupted() -> None:
    command = [*INTERRUPTIBLE, sys.executable, "-m", "cli", "demo", "--ui"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = next(found[1] for line in running.stdout if (found := ADDRESS.search(line)))
            parts = urlsplit(address)
            browser = Browser(parts.port or 0, parts.fragment.removeprefix("token="))
            while (reply := browser.ask("/fleet.json")).status == 503:
                time.sleep(0.05)
            running.send_signal(signal.SIGINT)
            rest = running.communicate(timeout=60)[0]
        finally:
            running.kill()
    assert reply.json["nodes"] == {
        "name": ["gpu-1", "gpu-2", "npu-1"],
        "cards": [8, 4, 4],
        "ready": [1, 1, 1],
        "open": [1, 1, 1],
    }
    assert "0 of 3 nodes can take the pod" in json.dumps(reply.json["messages"])
    assert (running.returncode, "Everything as expected" in rest) == (0, True)


def test_the_demo_goes_on_if_it_is_interrupted_while_it_prints_the_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: str, **options: Any) -> None:
        print(*words, **options)
        if any(map(ADDRESS.search, words)):
            raise KeyboardInterrupt

    monkeypatch.setattr(demo, "print", interrupted, raising=False)
    try:
        status = demo.main(["--ui"])
    except KeyboardInterrupt:
        pytest.fail("the demo died of it")  # and not the whole run of the tests
    assert status == 0
    assert "Everything as expected" in capsys.readouterr().out


def test_two_demos_on_one_machine_share_nothing(tmp_path: Path) -> None:
    """What is on the cards of one, or of an earlier one that was killed, is not on those of another."""
    section = RealTimeNode(MemoryApi(SystemClock()), Settings(), "gpu-1", tmp_path).settings.kubeletplugin
    written = {getattr(section, name) for name in ("kubelet_root", "cdi_root", "boot_id_file")}
    written |= {section.simulated_state, section.simulated_faults}
    assert {Path(path).parent for path in written} == {tmp_path}


def test_a_demo_that_disappoints_says_what_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(demo, "NODES", {"npu-1": ("ascend310px4", {})})
    assert demo.main([]) == 1
    assert "not within 0.5 s" in capsys.readouterr().err


def test_every_example_is_there_with_the_classes_it_asks_for() -> None:
    classes = {device_class["metadata"]["name"] for device_class in device_classes()}
    asked = {
        request["exactly"]["deviceClassName"]
        for objects in examples().values()
        for obj in objects
        if obj["kind"] == "ResourceClaimTemplate"
        for request in obj["spec"]["spec"]["devices"]["requests"]
    }
    assert asked
    assert asked <= classes
