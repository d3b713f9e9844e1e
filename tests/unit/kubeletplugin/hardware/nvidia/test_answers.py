"""docs/hardware-answers.md says what happens while a function of NVML fails; the rows are measured."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kubeletplugin.hardware import Hardware
from tests.fakes.nvml import FakeNvml
from tests.fakes.nvml.models import H100
from tests.simulation.clock import VirtualClock
from tests.unit.docs.pages import ROOT
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench
from tests.unit.kubeletplugin.plugin_node import SHARE_A, Result, opaque, result, share
from tests.unit.kubeletplugin.unanswered import PAGE, Row, measured, rows_on_page

PREFIX = "nvml"
ROWS = rows_on_page(PAGE.read_text(), PREFIX)
FABRIC = "nvmlDeviceGetGpuFabricInfo"


class NvidiaMachine:
    """Two linked H100 with a MIG instance; implements ``VendorMachine``."""

    code = 999
    running: Sequence[Result] = (result("gpu-1-mig-1g-10gb-6"),)
    excluded: Sequence[Result] = (result("gpu-1"),)
    only_after: Mapping[str, str] = {"nvmlEventSetFree": "nvmlDeviceRegisterEvents"}
    wanted: Mapping[str, tuple[Sequence[Result], Sequence[Mapping[str, Any]]]] = {
        "whole": ([result("gpu-0")], ()),
        "MPS": ([share("gpu-0-share", SHARE_A)], [opaque(kind="GpuConfig", sharing="mps")]),
        "MIG": ([result("gpu-1-mig-1g-10gb-5")], ()),
    }

    def __init__(self, folder: Path, without: Sequence[str] = ()):
        self._bench = NvidiaBench(folder, H100, 2, without=without)
        self._bench.nvml.change({"gpu.0.nvlink.0.state": 1, "gpu.0.nvlink.0.peer": "0000:28:00.0"})

    @property
    def fake(self) -> FakeNvml:
        return self._bench.nvml

    def start(self, clock: VirtualClock) -> Hardware:
        self._bench.clock = clock
        return self._bench.start()

    def left(self) -> object:
        return [self.fake.instances(card) for card in (0, 1) if self.fake.instances(card)]


def rows_of(function: str, folder: Path) -> list[Row]:
    """The rows of a function, as measured; see ``AnswersTest``."""

    def machine(place: Path) -> NvidiaMachine:
        patch.setenv("FAKE_NVML", str(place / "nvml"))
        # The older function is called only where the driver lacks the newer one.
        return NvidiaMachine(place, [f"{FABRIC}V"] if function == FABRIC else [])

    with pytest.MonkeyPatch.context() as patch:
        return measured(machine, folder, function)


@pytest.mark.parametrize("function", sorted(ROWS))
def test_a_row_says_what_happens_while_the_function_fails(function: str, folder: Path) -> None:
    assert "\n".join(map(str, rows_of(function, folder))) == "\n".join(map(str, ROWS[function]))


def test_every_function_that_the_source_names_has_a_row() -> None:
    named = {
        name
        for module in (ROOT / "kubeletplugin/hardware/nvidia/nvml").glob("*.py")
        for name in re.findall(r'"(nvml[A-Z]\w+)"', module.read_text())
    }
    assert {name for name in named if not any(in_python(row) == in_python(name) for row in ROWS)} == set()


def in_python(function: str) -> str:
    """The function without the versions by which the library and its binding call it."""
    return re.sub(r"(_v\d+|V|WithFlags)$", "", function)
