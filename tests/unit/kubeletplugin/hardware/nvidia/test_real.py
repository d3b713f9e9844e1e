"""The same code on a real card and its driver. Reads only; skipped on a machine without them.

``LODE_DRIVER_ROOT`` is the root of the driver's files, if it is not ``/``.
"""

import os
from pathlib import Path

import pytest

from driver.clock import SystemClock
from driver.observe import logger
from driver.settings import NvidiaSettings
from kubeletplugin.hardware import Hardware, Use
from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
from kubeletplugin.hardware.nvidia.commands import SystemCommands
from kubeletplugin.hardware.nvidia.found import Finder
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.sysfs import Sysfs

ROOT = DriverRoot(os.environ.get("LODE_DRIVER_ROOT", "/"))
FOUND = ROOT.library("libnvidia-ml.so.1")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOUND is None, reason="no libnvidia-ml.so.1: the driver of NVIDIA's cards is not installed"),
]


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    node = NvidiaNode(ROOT, ROOT, "lode-test", NvidiaSettings(run_folder=str(tmp_path / "run")))
    hardware = nvidia_hardware(node, SystemCommands(), logger("test"), SystemClock())
    if not hardware.cards():
        pytest.skip("the driver has no card with device nodes")
    return hardware


def test_every_card_that_the_driver_has_is_read() -> None:
    found = Finder(Nvml(str(ROOT.seen(FOUND or ""))), Sysfs(), SystemClock()).find()
    assert found.unread == {}
    assert len({card.uuid for card in found.cards}) == len(found.cards)


def test_what_is_published_about_a_card_is_known(hardware: Hardware) -> None:
    for card in hardware.cards():
        assert "unknown" not in (card.type, card.model, card.architecture, card.driver_version)
        assert card.memory_mib > 0
        assert card.compute_capability != "0.0.0"
        assert card.cuda_version != "0.0.0"


def test_the_partitions_of_a_card_fit_on_it_one_at_a_time(hardware: Hardware) -> None:
    for card in hardware.cards():
        for part in card.scheme.partitions if card.scheme else ():
            assert card.scheme
            assert all(amount <= card.scheme.counters[counter] for counter, amount in part.draws.items())


def test_what_exists_on_a_card_and_its_health_can_be_read(hardware: Hardware) -> None:
    health = hardware.health()
    for card in hardware.cards():
        hardware.observe(card)
        assert card.name in health


def test_what_a_card_measures_can_be_read(hardware: Hardware) -> None:
    for card in hardware.cards():
        found = hardware.readings(card)
        assert found.unread == frozenset()
        assert 0 <= found.values.get("utilization", 0) <= 1
        assert 0 <= found.values["memoryUsed"] <= card.memory_mib * 1024**2
        assert 0 < found.values["temperature"] < 120
        assert found.values.get("power", 1) > 0


def test_a_container_would_get_the_cards_nodes_and_the_drivers_libraries(hardware: Hardware) -> None:
    for card in hardware.cards():
        if "whole" in hardware.observe(card).excluded:
            continue
        edits = hardware.edits(Use("claim", card), {})
        assert f"/dev/nvidia{card.index}" in [node.path for node in edits.device_nodes]
        assert any(mount.container_path.endswith("/libcuda.so.1") for mount in edits.mounts)
