"""What a vendor's library says about health reaches claims and pods: taints in the slices, reports to the kubelet."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from driver.kube.api import NODES, RESOURCE_SLICES
from driver.observe import Metrics, logger
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware import Hardware, HardwarePorts
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.health import HealthFeed
from kubeletplugin.node_context import NodeContext
from kubeletplugin.offers import Recorded
from kubeletplugin.publish import Publisher, PublishingMetrics
from memoryapi import MemoryApi
from tests.fakes.dcmi.models import ASCEND_310P3
from tests.fakes.nvml.models import H100
from tests.fakes.state import FakeState
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

NODE = "node-a"
RECOVERY_SECONDS = 60
State = Mapping[str, str | int | None]


class Running:
    """The part of the plugin that publishes and reports health, on a backend."""

    def __init__(self, backend: Hardware, recorded: Recorded | None = None):
        self.clock = VirtualClock()
        self._api = MemoryApi(self.clock)
        self._api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        node = NodeContext(
            name=NODE,
            settings=Settings(kubeletplugin=KubeletPluginSettings(recovery_seconds=RECOVERY_SECONDS)),
            boot_id="boot",
            api=self._api,
            clock=self.clock,
            files=MemoryFiles(),
            hardware=HardwarePorts(backend, backend),
            log=logger("test"),
        )
        self._cards = node.remembered_cards("/plugin")
        self._publisher = Publisher(
            replace(node, hardware=HardwarePorts(self._cards, backend)),
            PublishingMetrics(Metrics()),
            recorded=lambda: recorded or Recorded(),
        )

    def run(self, seconds: float) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            for reflector in self._publisher.reflectors:
                reflector.step()
            self._publisher.step()
            self.clock.advance(1)

    def tainted(self) -> set[str]:
        """The devices that new claims do not get."""
        slices = self._api.list(RESOURCE_SLICES).items
        devices = [device for item in slices for device in item["spec"].get("devices", ())]
        assert devices
        return {device["name"] for device in devices if device.get("taints")}

    def reported(self) -> dict[str, str]:
        """What the kubelet writes into the status of pods: the fault of each device that has one."""
        feed = HealthFeed(self._cards, self.clock, Settings(), NODE, logger("test"))
        report = next(feed.reports(threading.Event()))
        return {item.device: item.health.message for item in report if not item.health.healthy}


@pytest.fixture(autouse=True)
def _states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    monkeypatch.setenv("FAKE_DCMI", str(tmp_path / "dcmi"))


def nvidia(folder: Path) -> tuple[Hardware, FakeState]:
    bench = NvidiaBench(folder, H100, 2)
    return bench.start(), bench.nvml


def ascend(folder: Path) -> tuple[Hardware, FakeState]:
    machine = Machine(folder)
    for _ in range(2):
        machine.add(ASCEND_310P3)
    return machine.start(), machine.dcmi


@pytest.mark.parametrize(
    ("node", "fault", "mended", "card", "message"),
    [
        (nvidia, {"gpu.0.field.230": 1}, {"gpu.0.field.230": 0}, "gpu-0", "asks for a reset"),
        (nvidia, {"gpu.0.remapped": "0 9 0 1"}, {"gpu.0.remapped": "0 0 0 0"}, "gpu-0", "could not be replaced"),
        (
            ascend,
            {"chip.0.event.1": "0x80E01801 3 HBM multi-bit error", "chip.0.alarm": 3},
            {"chip.0.event.1": None, "chip.0.alarm": 0},
            "npu-0",
            "HBM multi-bit error",
        ),
    ],
)
def test_a_fault_taints_every_device_of_its_card_and_is_told_until_it_has_passed_for_a_while(
    tmp_path: Path,
    node: Callable[[Path], tuple[Hardware, FakeState]],
    fault: State,
    mended: State,
    card: str,
    message: str,
) -> None:
    hardware, library = node(tmp_path)
    plugin = Running(hardware)
    plugin.run(10)
    assert (plugin.tainted(), plugin.reported()) == (set(), {})
    library.change(fault)
    plugin.run(10)
    assert {card, f"{card}-share"} < plugin.tainted()
    assert all(name == card or name.startswith(f"{card}-") for name in plugin.tainted())
    assert set(plugin.reported()) >= plugin.tainted()
    assert all(message in told for told in plugin.reported().values())
    library.change(mended)
    plugin.run(10)
    assert plugin.tainted(), "it must work for a while before claims get it again"
    plugin.run(10 * RECOVERY_SECONDS)
    assert (plugin.tainted(), plugin.reported()) == (set(), {})


def test_a_fault_of_one_mig_instance_taints_and_reports_that_instance_alone(tmp_path: Path) -> None:
    hardware, library = nvidia(tmp_path)
    uuid = hardware.cards()[0].uuid
    actions = MigMode(uuid), MigInstance(uuid, "1g.10gb", 3)
    handle = [hardware.ensure(action) for action in actions][-1]
    plugin = Running(hardware, Recorded(frozenset(action.key for action in actions)))
    library.change({"gpu.0.field.230": None, "event.1": f"0 8 94 {handle['gpuInstance']} {0xFFFFFFFF}"})
    plugin.run(10)
    assert plugin.tainted() == {"gpu-0-mig-1g-10gb-3"}
    assert plugin.reported() == {"gpu-0-mig-1g-10gb-3": "the driver reported Xid 94"}


def test_a_card_that_is_lost_stays_published_and_no_claim_gets_it(tmp_path: Path) -> None:
    hardware, library = nvidia(tmp_path)
    plugin = Running(hardware)
    plugin.run(10)
    library.change({"gpu.0.fault": 15})
    plugin.run(10)
    assert {"gpu-0", "gpu-0-share"} <= plugin.tainted()
    assert not any(name.startswith("gpu-1") for name in plugin.tainted())
