"""The backend of NVIDIA's cards does what every backend must."""

from pathlib import Path

import pytest

from tests.fakes.nvml.models import A100, H100, T4, Model
from tests.unit.kubeletplugin.hardware.contract import HardwareContract, MigModeContract
from tests.unit.kubeletplugin.hardware.measuring_contract import MeasuringContract
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model) -> NvidiaBench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return NvidiaBench(tmp_path, model)


@pytest.mark.parametrize("model", [H100], ids=lambda model: model.name)
class TestCardsThatAreDividedForClaims(HardwareContract, MeasuringContract, MigModeContract):
    pass


@pytest.mark.parametrize("model", [A100, T4], ids=lambda model: model.name)
class TestCardsThatAreNot(HardwareContract, MeasuringContract):
    """An A100 needs a reset to be divided, and a T4 cannot be."""
