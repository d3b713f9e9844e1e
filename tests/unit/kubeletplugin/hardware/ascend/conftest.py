"""A machine with Ascend chips: the fake library, sysfs and device files, each with a state of its own."""

from pathlib import Path

import pytest

from tests.unit.kubeletplugin.hardware.ascend.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("FAKE_DCMI", str(tmp_path / "dcmi"))
    return Machine(tmp_path)
