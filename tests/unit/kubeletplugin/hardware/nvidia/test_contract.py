"""The backend of NVIDIA's cards does what every backend must."""

from pathlib import Path

import pytest

from tests.fakes.nvml.models import A100, H100, T4, Model
from tests.unit.kubeletplugin.hardware.contract import HardwareContract
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench


@pytest.mark.parametrize("model", [H100, A100, T4], ids=lambda model: model.name)
class TestNvidia(HardwareContract):
    @pytest.fixture
    def bench(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model) -> NvidiaBench:
        monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
        return NvidiaBench(tmp_path, model)
