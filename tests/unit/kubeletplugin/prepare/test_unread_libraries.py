"""A plugin that starts while a card's library errs for a moment: running claims keep what they have, alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from driver.observe import Metrics
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.hardware.remembered_cards import RememberedCards
from kubeletplugin.prepare import ClaimRef, PrepareError, Preparer, PrepareResult
from kubeletplugin.publish.cards import CardMonitor
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench
from tests.unit.kubeletplugin.plugin_node import CDI, PLUGIN, PluginNode, allocatable, release, result

UNKNOWN = 999
ERRING = (
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
)


class Machine:
    """Two cards, a claim with a partition of the second one, and the plugins that run there one after another."""

    def __init__(self, folder: Path):
        self.bench = NvidiaBench(folder, H100, 2)
        self.node = PluginNode()
        self.start()
        self.claim = self.node.claim("mine", [result("gpu-1-mig-1g-10gb-6")])
        assert isinstance(self.prepare(self.claim), PrepareResult)

    def start(self) -> None:
        """A new plugin, put together as the program does it."""
        hardware = self.bench.start()
        node = self.node.context(hardware=hardware)
        self.cards: RememberedCards = node.remembered_cards(PLUGIN)
        context = replace(node, hardware=HardwarePorts(self.cards, hardware))
        self.plugin = Preparer(context, Metrics())
        self.monitor = CardMonitor(context.hardware, node.log, lambda _: (), self.plugin.recorded)
        self.plugin.tidy()
        self.plugin.restore()

    def fail(self, function: str, code: int | None = UNKNOWN) -> None:
        self.bench.nvml.change({f"fault.{function}": code})

    def prepare(self, claim: ClaimRef) -> PrepareResult | PrepareError:
        return self.plugin.prepare([claim])[claim.uid]

    def published(self) -> Mapping[str, set[str]]:
        """The devices of each card that can be allocated."""
        self.monitor.refresh()
        return allocatable(self.monitor.state.offers)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return Machine(tmp_path)


@pytest.mark.parametrize("function", ERRING)
def test_the_card_of_a_running_partition_is_given_to_nobody_else(machine: Machine, function: str) -> None:
    machine.fail(function)
    machine.start()
    assert not {"gpu-1", "gpu-1-share"} & machine.published()["gpu-1"]
    for device in ("gpu-1", "gpu-1-mig-1g-10gb-6"):
        other = machine.node.claim(f"other-{device}", [result(device)])
        assert isinstance(machine.prepare(other), PrepareError)
        machine.plugin.unprepare([other])
    machine.fail(function, None)
    machine.node.clock.advance(1)
    assert machine.published()["gpu-0"] >= {"gpu-0", "gpu-0-share"}
    whole = machine.node.claim("whole", [result("gpu-1")])
    assert isinstance(machine.prepare(whole), PrepareError)
    assert machine.bench.nvml.instances(1) == [("1g.10gb", 6, True)]


@pytest.mark.parametrize("function", ERRING)
def test_a_running_claim_is_restored_and_released_when_the_card_answers_again(machine: Machine, function: str) -> None:
    spec = machine.node.spec(machine.claim)
    machine.node.files.remove(f"{CDI}/lode.dev-claim_{machine.claim.uid}.json")
    machine.fail(function)
    machine.start()
    machine.fail(function, None)
    machine.plugin.restore_rest()
    assert machine.node.spec(machine.claim) == spec
    assert isinstance(machine.prepare(machine.claim), PrepareResult)
    machine.plugin.unprepare([machine.claim])
    release(machine.node, machine.plugin)
    assert (machine.bench.nvml.instances(1), machine.bench.nvml.state()["gpu.1.mig"]) == ([], "0 0")


@pytest.mark.parametrize("function", ERRING)
def test_what_a_claim_has_is_released_after_the_card_answers_again(machine: Machine, function: str) -> None:
    machine.fail(function)
    machine.start()
    machine.plugin.unprepare([machine.claim])
    release(machine.node, machine.plugin, 5.0)
    assert machine.plugin.recorded().keys, "it is not done"
    machine.fail(function, None)
    machine.cards.cards()
    release(machine.node, machine.plugin, 120.0)
    assert (machine.bench.nvml.instances(1), machine.bench.nvml.state()["gpu.1.mig"]) == ([], "0 0")
