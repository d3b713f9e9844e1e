"""What NVML says of a card that is divided, of an old driver, and of a card that is lost meanwhile."""

from pathlib import Path

import pytest

from kubeletplugin.hardware import CardGone, Use
from kubeletplugin.hardware.readings import MEASURES
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.contract import make, undo
from tests.unit.kubeletplugin.hardware.nvidia.bench import GIB, GPU_IS_LOST, NvidiaBench

OTHERS = {"memoryUsed", "temperature", "power"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaBench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return NvidiaBench(tmp_path, H100, 1)


def test_a_card_in_mig_mode_has_no_utilization(bench: NvidiaBench) -> None:
    hardware = bench.start()
    (card,) = hardware.cards()
    bench.work(card)
    assert card.scheme
    made = make(hardware, Use("claim", card, card.scheme.partitions[0]))
    assert hardware.readings(card).values.keys() == OTHERS
    assert hardware.readings(card).unread == frozenset()
    undo(hardware, made)
    assert hardware.readings(card).values.keys() == set(MEASURES)


def test_an_old_driver_counts_what_it_keeps_for_itself_as_used(tmp_path: Path, bench: NvidiaBench) -> None:
    bench.library = bench.nvml.library({"nvmlDeviceGetMemoryInfo_v2"})
    hardware = bench.start()
    (card,) = hardware.cards()
    bench.work(card)
    assert hardware.readings(card).values["memoryUsed"] == 4 * GIB


@pytest.mark.parametrize("function", ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo_v2"])
def test_a_card_that_is_lost_meanwhile_is_gone_and_not_only_unread(bench: NvidiaBench, function: str) -> None:
    hardware = bench.start()
    (card,) = hardware.cards()
    bench.work(card)
    bench.nvml.change({f"gpu.0.fault.{function}": GPU_IS_LOST})
    with pytest.raises(CardGone, match=card.uuid):
        hardware.readings(card)


def test_a_fault_of_one_call_leaves_one_reading_out_once(bench: NvidiaBench) -> None:
    hardware = bench.start()
    (card,) = hardware.cards()
    measured = bench.work(card)
    bench.nvml.change({"fault.nvmlDeviceGetTemperature.1": 999})
    assert hardware.readings(card).unread == {"temperature"}
    assert hardware.readings(card) == measured
