"""Claims on the vendors' libraries: killed at any of their calls, the plugin leaves what live claims have, no less.

The libraries are fakes whose state survives the process, as that of a driver does (``tests/fakes``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from driver.clock import SystemClock
from driver.files import SystemFiles
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.prepare import Preparer
from kubeletplugin.prepare.storage import ClaimStorage
from tests.fakes.dcmi.models import ASCEND_310P3
from tests.fakes.killed import dies
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

MOST_CALLS = 400


class Vendor(Protocol):
    """The library of a vendor with a node around it, in a folder of its own."""

    @property
    def fake(self) -> FakeState:
        """The library's state."""
        ...

    def start(self) -> Hardware:
        """A new instance of the backend."""
        ...

    def lasting(self) -> Mapping[str, Any]:
        """What a claim may change and must leave as it was."""
        ...


class Nvidia:
    """An H100."""

    def __init__(self, folder: Path):
        self._bench = NvidiaBench(folder, H100, 1)
        self.fake = self._bench.nvml

    def start(self) -> Hardware:
        return self._bench.start()

    def lasting(self) -> Mapping[str, Any]:
        kept = {
            key: value for key, value in self.fake.state().items() if key.endswith((".mig", ".computemode", ".gi.7"))
        }
        return {**kept, "services": sorted(self._bench.machine.commands.services())}


class DividedNvidia(Nvidia):
    """An H100 whose MIG mode is on, with a MIG instance of an operator."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.fake.change({"gpu.0.mig": "1 1", "gpu.0.gi.7": "9 4 4", "gpu.0.gi.7.ci.0": 2})


class Ascend:
    """A 310P with a vNPU of an operator."""

    def __init__(self, folder: Path):
        self._machine = Machine(folder)
        self.fake = self._machine.dcmi
        self._machine.add(ASCEND_310P3)
        self.fake.change({"chip.0.vdev.105": "vir02 0"})

    def start(self) -> Hardware:
        return self._machine.start()

    def lasting(self) -> Mapping[str, Any]:
        return {key: value for key, value in self.fake.state().items() if ".vdev." in key}


@dataclass(frozen=True)
class VendorClaim:
    """A claim on a vendor's cards."""

    vendor: Callable[[Path], Vendor]
    devices: Sequence[Result]
    config: Sequence[Mapping[str, Any]] = ()


def _sharing(strategy: str) -> Sequence[Mapping[str, Any]]:
    return [opaque(kind="GpuConfig", sharing=strategy)]


VENDOR_CLAIMS = {
    "MIG, mode off": VendorClaim(Nvidia, [result("gpu-0-mig-1g-10gb-3")]),
    "MIG beside an operator's": VendorClaim(DividedNvidia, [result("gpu-0-mig-1g-10gb-3")]),
    "MPS": VendorClaim(Nvidia, [share("gpu-0-share", SHARE_A), share("gpu-0-share", SHARE_B)], _sharing("mps")),
    "time slices": VendorClaim(Nvidia, [result("gpu-0")], _sharing("timeSlicing")),
    "HAMi-core": VendorClaim(Nvidia, [share("gpu-0-share", SHARE_A)], _sharing("hamiCore")),
    "vNPUs": VendorClaim(Ascend, [result("npu-0-vir02-0"), result("npu-0-vir01-0", "two")]),
}


class VendorNode(PluginNode):
    """A node with real files, on which a claim is allocated."""

    def __init__(self, folder: Path, scene: VendorClaim):
        super().__init__()
        self._disk = SystemFiles()
        section = KubeletPluginSettings(kubelet_root=str(folder / "kubelet"), cdi_root=str(folder / "cdi"))
        self.settings = Settings(kubeletplugin=section)
        self.storage = ClaimStorage(self._disk, self.settings)
        self.vendor = scene.vendor(folder)
        self.ref = self.claim("c", scene.devices, scene.config)
        self.first = self.start()
        self.before = self.existing(), self.vendor.lasting()

    def start(self) -> Preparer:
        """A new instance of the plugin, which has seen the cards."""
        self.hardware = self.vendor.start()
        self.cards = self.hardware.cards()
        return self.plugin(files=self._disk, hardware=self.hardware)

    def existing(self) -> list[str]:
        return sorted(found.action.key for card in self.cards for found in self.hardware.observe(card).found)

    def recorded(self) -> list[str]:
        """The keys of what the completed claims have; no claim is anything else."""
        claims = self.storage.load().claims.values()
        assert {claim.state for claim in claims} <= {"completed"}
        return sorted({key for claim in claims for key in claim.keys})


def _prepare(node: VendorNode, plugin: Preparer) -> None:
    prepare(plugin, node.ref)


def _end(node: VendorNode, plugin: Preparer) -> None:
    unprepare(plugin, node.ref)
    release(node, plugin, 5)


def _nodes(folder: Path, scene: VendorClaim, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], VendorNode]:
    def make(call: int) -> VendorNode:
        own = folder / str(call)
        own.mkdir()
        monkeypatch.setenv("FAKE_NVML", str(own / "nvml"))
        monkeypatch.setenv("FAKE_DCMI", str(own / "dcmi"))
        return VendorNode(own, scene)

    return make


def test_a_container_is_told_the_uuid_of_its_mig_instance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = _nodes(folder, VENDOR_CLAIMS["MIG, mode off"], monkeypatch)(0)
    prepare(node.first, node.ref)
    (spec,) = Path(node.settings.kubeletplugin.cdi_root).iterdir()
    (device,) = json.loads(spec.read_text())["devices"]
    mig = "MIG-00000000-0001-5000-8000-000000000000"
    told = {"LODE_MIG_UUID_GPU_0_MIG_1G_10GB_3", "LODE_REQUEST_C_GPU_0_MIG_UUID"}
    assert {f"{name}={mig}" for name in told} <= set(device["containerEdits"]["env"])


@pytest.mark.parametrize("name", VENDOR_CLAIMS)
@pytest.mark.parametrize("act", [_prepare, _end])
def test_killed_at_any_call_the_next_start_leaves_what_live_claims_have(
    name: str,
    act: Callable[[VendorNode, Preparer], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new_node = _nodes(folder, VENDOR_CLAIMS[name], monkeypatch)
    for call in range(1, MOST_CALLS):
        node = new_node(call)
        if act is _end:
            prepare(node.first, node.ref)
        node.vendor.fake.change({"kill": node.vendor.fake.calls() + call})
        killed = dies(partial(act, node, node.first))
        node.vendor.fake.change({"kill": None})
        _mended(node)
        if not killed:
            assert call > 1
            return
    pytest.fail("it makes more calls than expected")


def _mended(node: VendorNode) -> None:
    """What a restart and the kubelet's next calls make of a node on which the plugin was killed."""
    foreign, lasting = node.before
    plugin = node.start()
    recover(plugin)
    release(node, plugin, 5)
    assert node.existing() == sorted({*foreign, *node.recorded()})
    prepare(plugin, node.ref)
    assert node.recorded()
    assert node.existing() == sorted({*foreign, *node.recorded()})
    _end(node, plugin)
    assert (node.existing(), node.recorded(), node.vendor.lasting()) == (foreign, [], lasting)


@pytest.mark.parametrize("name", VENDOR_CLAIMS)
def test_a_claim_that_is_deleted_while_the_plugin_is_dead_leaves_nothing(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _nodes(folder, VENDOR_CLAIMS[name], monkeypatch)(0)
    prepare(node.first, node.ref)
    assert node.existing() != node.before[0]
    node.release(node.ref)
    plugin = node.start()
    recover(plugin)
    _end(node, plugin)
    assert (node.existing(), node.vendor.lasting()) == node.before


@pytest.mark.parametrize("name", ["MIG, mode off", "vNPUs"])
def test_a_claim_is_unprepared_while_the_library_hangs_and_its_partitions_go_when_it_answers(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _nodes(folder, VENDOR_CLAIMS[name], monkeypatch)(0)
    prepare(node.first, node.ref)
    hang, backend = {"fault.nvmlDeviceGetHandleByUUID": "hang", "fault.dcmi_get_device_die_v2": "hang"}, node.hardware
    impatient = GuardedHardware(
        lambda: CombinedHardware.only(backend), SystemClock(), answer_seconds=0.05, change_seconds=0.05
    )
    plugin = node.plugin(files=SystemFiles(), hardware=impatient)
    node.vendor.fake.change(hang)
    try:
        unprepare(plugin, node.ref)
        assert node.storage.uids() == set()
        release(node, plugin, 5)
        assert plugin.retiring.reasons
    finally:
        node.vendor.fake.change(dict.fromkeys(hang))
    while plugin.retiring.reasons:
        release(node, plugin, 60)
    assert (node.existing(), node.recorded(), node.vendor.lasting()) == (node.before[0], [], node.before[1])


def test_a_card_of_an_operators_partitions_is_refused_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = VendorClaim(Ascend, [result("npu-0")])
    node = _nodes(folder, scene, monkeypatch)(0)
    answer = node.first.prepare([node.ref])[node.ref.uid]
    assert "vnpu:" in str(answer)
    assert (node.existing(), node.vendor.lasting()) == node.before
