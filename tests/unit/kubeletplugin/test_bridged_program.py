"""The whole program with a device plugin: from its registration to the devices of a pod, through a rolling update."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from driver.clock import SystemClock
from driver.deviceplugins import DevicePluginSettings
from driver.files import SystemFiles
from driver.kube.api import NAMESPACES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.__main__ import PluginProcess
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.host import PluginHost
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, device_name
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.place import Place
from memoryapi import MemoryApi
from simulation.kubernetes.dra_plugin import ClaimName
from simulation.kubernetes.plugin_client import PluginClient
from tests.fakes.deviceplugin.plugin import HOST, ScriptedPlugin
from tests.fakes.deviceplugin.script import Script
from tests.unit.kubeletplugin.test_main import PATIENCE, wait_for

RESOURCE = "example.com/card"
A, B = device_name(RESOURCE, "card-a"), device_name(RESOURCE, "card-b")


class Node:
    """A node with an API, a kubelet, and a device plugin that was moved."""

    def __init__(self, folder: Path):
        (folder / "boot_id").write_text("boot-1\n")
        section = {
            "hardware": "deviceplugin",
            "kubeletRoot": str(folder / "k"),
            "cdiRoot": str(folder / "cdi"),
            "bootIdFile": str(folder / "boot_id"),
            "deviceplugin": {"folder": str(folder / "dp"), "hostRoot": "/"},
        }
        self.settings = Settings.model_validate({"observeAddress": "", "kubeletplugin": section})
        self.api: Api = MemoryApi(SystemClock(), blocking=True)
        self.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
        self.api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        self.client = PluginClient(str(folder / "k"), "lode.dev")
        self.cdi = folder / "cdi"
        self.checkpoint = folder / "k/plugins/lode.dev/checkpoint.json"
        self.plugin = ScriptedPlugin(folder / "dp", folder, Script())

    @contextmanager
    def running(self, pod: str = "pod-1") -> Iterator[PluginProcess]:
        program, status = PluginProcess(self.api, self.settings, "node-a", pod), list[int]()
        thread = threading.Thread(target=lambda: status.append(program.run()))
        thread.start()
        try:
            yield program
        finally:
            program.stop()
            thread.join(PATIENCE)
        assert status == [0]

    def published(self) -> dict[str, Any]:
        slices = self.api.list(RESOURCE_SLICES).items
        return {device["name"]: device for found in slices for device in found["spec"].get("devices", [])}

    def is_healthy(self) -> bool:
        found = self.published()
        return found.keys() == {A, B} and not any(device.get("taints") for device in found.values())

    def claim(self, device: str) -> ClaimName:
        spec = {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": "device.lode.dev"}}]}}
        claim: Object = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
        claim["metadata"] = {"name": f"claim-{device}", "namespace": "team"}
        made = self.api.create(RESOURCE_CLAIMS, claim, "team")
        result = {"request": "card", "driver": "lode.dev", "pool": "node-a/lode.dev", "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        self.api.update(RESOURCE_CLAIMS, made, "status")
        return ClaimName("team", made["metadata"]["name"], made["metadata"]["uid"])

    def env(self, claim: ClaimName) -> list[str]:
        (file,) = self.cdi.glob(f"*{claim.uid}.json")
        (device,) = json.loads(file.read_text())["devices"]
        return list(device["containerEdits"]["env"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.plugin.kill()
    # The threads of a program end with its process; here they note once more what they have lost.
    wait_for(lambda: not any(thread.name == f"device plugin {RESOURCE}" for thread in threading.enumerate()))


def test_a_device_plugin_is_a_source_of_claims_through_a_rolling_update(node: Node) -> None:
    with node.running("pod-1") as older:
        wait_for((node.plugin.folder / HOST).exists)
        node.plugin.start()
        wait_for(lambda: bool(node.client.sync()) and not older.ready())
        wait_for(node.is_healthy)
        first = node.claim(A)
        assert node.client.prepare([first])[first.uid].error == ""
        assert "EXAMPLE_VISIBLE_DEVICES=card-a" in node.env(first)
        with node.running("pod-2") as newer:
            wait_for(lambda: {call.start for call in node.plugin.called("ListAndWatch")} == {1, 2})
            wait_for(lambda: len(node.client.sync()) == 2 and not newer.ready())
            assert node.is_healthy()
            second = node.claim(B)
            assert node.client.prepare([second])[second.uid].error == ""
        wait_for(lambda: len(node.client.sync()) == 1)
        answers = node.client.unprepare([first, second])
        assert {answers[claim.uid].error for claim in (first, second)} == {""}
        wait_for(lambda: not any(claim.uid in node.checkpoint.read_text() for claim in (first, second)))
    assert [call.ids for call in node.plugin.called("Allocate")] == [("card-a",), ("card-b",)]


def host(node: Node) -> tuple[PluginHost, Registry]:
    files, folder = SystemFiles(), node.settings.kubeletplugin.deviceplugin.folder
    record = BootFile(files, f"{folder}-state/known.json", "boot-1", Known, logger("test"))
    labelled = LabelledNode({}, lambda _: Place())
    registry = Registry(DevicePluginSettings(), record, lambda: labelled, SystemClock(), logger("test"))
    return PluginHost(folder, registry, SystemClock(), logger("test")), registry


def test_an_older_program_serves_again_when_the_newer_one_has_gone(node: Node) -> None:
    (older, registry), (newer, _) = host(node), host(node)
    older.start()
    node.plugin.start()
    wait_for(lambda: bool(node.plugin.called("ListAndWatch")))
    newer.start()
    wait_for(lambda: 2 in {call.start for call in node.plugin.called("ListAndWatch")})
    older.tend()
    assert node.plugin.called("ListAndWatch")[-1].start == 2, "the older one leaves the newer one alone"
    newer.close()
    older.tend()
    wait_for(lambda: 3 in {call.start for call in node.plugin.called("ListAndWatch")})
    wait_for(lambda: registry.current(RESOURCE) is not None)
    assert older.allocate(RESOURCE, ("card-a",)).env
    older.close()
