"""Admin access reads and mounts: it does nothing to the hardware, and nothing that tenants do refuses it."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from driver.files import SystemFiles
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.prepare import ClaimRef, Preparer
from kubeletplugin.prepare.checkpoint import Step
from kubeletplugin.prepare.storage import ClaimStorage
from tests.fakes.dcmi.models import ASCEND_310P3
from tests.fakes.nvml.models import H100
from tests.fakes.state import FakeState
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench
from tests.unit.kubeletplugin.plugin_node import (
    SHARE_A,
    SHARE_B,
    PluginNode,
    Result,
    opaque,
    prepare,
    recover,
    release,
    result,
    share,
    unprepare,
)

MPS = opaque(kind="GpuConfig", sharing="mps")
PART = "gpu-0-mig-1g-5gb-6"


def seen(device: str, **more: Any) -> Result:
    return result(device, "all", adminAccess=True, **more)


def rig() -> PluginNode:
    made = PluginNode()
    made.allow_admin_access()
    return made


@pytest.mark.parametrize(
    "held",
    [
        [result("gpu-0")],
        [result("gpu-0-mig-1g-5gb-0")],
        [result(PART)],
        [share("gpu-0-share", SHARE_A)],
        [share("gpu-0-share", SHARE_A), share("gpu-0-share", SHARE_B)],
    ],
)
@pytest.mark.parametrize("looked_at", ["gpu-0", PART, "gpu-0-share"])
@pytest.mark.parametrize("config", [[], [MPS]])
def test_what_is_on_a_card_is_its_tenants_whoever_looks_at_it(
    held: list[Result], looked_at: str, config: list[Any]
) -> None:
    node = rig()
    plugin = node.plugin()
    parted = any("mig" in one["device"] for one in held)
    tenant = node.claim("tenant", held, [] if parted else config)
    prepare(plugin, tenant)
    existing = node.existing()
    more = {"shareID": "cccccccc-0000-4000-8000-000000000003"} if looked_at.endswith("share") else {}
    watcher = node.claim("watcher", [seen(looked_at, **more), seen("gpu-1")], config)
    prepare(plugin, watcher)
    assert node.existing() == existing
    prepare(node.plugin(), tenant)
    unprepare(plugin, watcher)
    release(node, plugin, 5)
    assert node.existing() == existing
    unprepare(plugin, tenant)
    release(node, plugin, 5)
    assert node.existing() == []


def test_a_device_that_a_claim_uses_and_looks_at_is_used() -> None:
    node = rig()
    plugin = node.plugin()
    for results in ([result(PART), seen(PART)], [seen(PART), result(PART)]):
        claim = node.claim(f"c{results[0]['request']}", results)
        prepare(plugin, claim)
        assert node.existing() == ["mig:gpu-0:1g.5gb:6", "migmode:gpu-0"]
        unprepare(plugin, claim)
        release(node, plugin, 5)


def test_a_card_that_is_only_looked_at_is_no_longer_offered_whole_in_an_operators_mig_mode() -> None:
    node = rig()
    plugin = node.plugin()
    prepare(plugin, node.claim("watcher", [seen("gpu-0")]))
    assert plugin.recorded().devices == frozenset()


def test_what_an_earlier_version_made_for_one_who_looks_goes_with_its_claim() -> None:
    node = rig()
    plugin = node.plugin()
    watcher = node.claim("watcher", [seen(PART)])
    prepare(plugin, watcher)
    storage = ClaimStorage(node.files, node.settings)
    card = node.hardware.cards()[0].uuid
    actions = MigMode(card), MigInstance(card, "1g.5gb", 6)
    steps = tuple(Step(action, node.hardware.ensure(action)) for action in actions)
    with storage.lock():
        checkpoint = storage.load()
        storage.save(checkpoint.with_claim(replace(checkpoint.claims[watcher.uid], steps=steps)))
    plugin = node.plugin()
    recover(plugin)
    prepare(plugin, watcher)
    assert plugin.recorded().keys == {action.key for action in actions}
    unprepare(plugin, watcher)
    release(node, plugin, 5)
    assert node.existing() == []


class VendorNode(PluginNode):
    """A node with a vendor's library and real files."""

    def __init__(self, folder: Path, hardware: Hardware):
        super().__init__()
        self.allow_admin_access()
        section = KubeletPluginSettings(kubelet_root=str(folder / "kubelet"), cdi_root=str(folder / "cdi"))
        self.settings = Settings(kubeletplugin=section)
        self.hardware = hardware

    def start(self) -> Preparer:
        return self.plugin(files=SystemFiles())

    def devices(self, ref: ClaimRef) -> list[dict[str, Any]]:
        """The devices of a claim's CDI spec."""
        spec = Path(self.settings.kubeletplugin.cdi_root, f"lode.dev-claim_{ref.uid}.json")
        return list(json.loads(spec.read_text())["devices"])


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


Nvidia = Callable[[], tuple[NvidiaBench, VendorNode]]


@pytest.fixture
def nvidia(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Nvidia:
    def make() -> tuple[NvidiaBench, VendorNode]:
        monkeypatch.setenv("FAKE_NVML", str(folder / "nvml"))
        bench = NvidiaBench(folder, H100, 2)
        return bench, VendorNode(folder, bench.start())

    return make


def test_monitoring_starts_on_a_node_with_a_tenants_mig_instance(nvidia: Nvidia) -> None:
    bench, node = nvidia()
    plugin = node.start()
    prepare(plugin, node.claim("tenant", [result("gpu-0-mig-1g-10gb-3")]))
    before = _made(bench.nvml)
    watched = [seen("gpu-0"), seen("gpu-1"), seen("gpu-0-mig-1g-10gb-3"), seen("gpu-0-mig-1g-10gb-0")]
    watcher = node.claim("watcher", watched)
    prepare(plugin, watcher)
    assert _made(bench.nvml) == before
    nodes = [_nodes(device) for device in node.devices(watcher)]
    assert [("/dev/nvidia0" in it, sum("caps" in path for path in it)) for it in nodes] == [
        (True, 0),
        (False, 0),
        (True, 2),
        (True, 0),
    ]


def test_looking_at_a_mig_instance_that_does_not_exist_leaves_the_mode_of_the_card(nvidia: Nvidia) -> None:
    bench, node = nvidia()
    plugin = node.start()
    tenant = node.claim("tenant", [result("gpu-0")])
    prepare(plugin, tenant)
    before = _made(bench.nvml)
    prepare(plugin, node.claim("watcher", [seen("gpu-0-mig-1g-10gb-3")]))
    assert _made(bench.nvml) == before
    prepare(node.start(), tenant)


def test_looking_at_a_vnpu_shows_its_chip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DCMI", str(folder / "dcmi"))
    machine = Machine(folder)
    machine.add(ASCEND_310P3)
    node = VendorNode(folder, machine.start())
    plugin = node.start()
    prepare(plugin, node.claim("tenant", [result("npu-0-vir02-0")]))
    before = _made(machine.dcmi)
    watcher = node.claim("watcher", [seen("npu-0-vir02-0"), seen("npu-0-vir01-3")])
    prepare(plugin, watcher)
    assert _made(machine.dcmi) == before
    assert all("/dev/davinci0" in _nodes(device) for device in node.devices(watcher))


def _made(fake: FakeState) -> Mapping[str, str]:
    return {key: value for key, value in fake.state().items() if not key.startswith("calls")}


def _nodes(device: dict[str, Any]) -> list[str]:
    return [node["path"] for node in device["containerEdits"]["deviceNodes"]]
