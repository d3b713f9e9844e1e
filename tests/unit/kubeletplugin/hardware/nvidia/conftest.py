"""The fake library, with a state of its own for each test."""

from pathlib import Path

import pytest

from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from tests.fakes.nvml import FakeNvml


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    state = tmp_path / "nvml"
    monkeypatch.setenv("FAKE_NVML", str(state))
    return FakeNvml(state)


@pytest.fixture
def nvml(fake: FakeNvml) -> Nvml:
    return Nvml(str(fake.library()))
