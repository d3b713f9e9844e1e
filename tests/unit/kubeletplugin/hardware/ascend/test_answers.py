"""docs/hardware-answers.md says what happens while a function of DCMI fails; the rows are measured."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kubeletplugin.hardware import Hardware
from tests.fakes.dcmi import FakeDcmi
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910A, ASCEND_910B3, ASCEND_910C, Model
from tests.simulation.clock import VirtualClock
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.plugin_node import SHARE_A, Result, result, share
from tests.unit.kubeletplugin.unanswered import PAGE, Row, measured, rows_on_page

PREFIX = "dcmi"
ROWS = rows_on_page(PAGE.read_text(), PREFIX)
LIBRARY = Path("kubeletplugin/hardware/ascend/dcmi/library.py")
EVENTS = "dcmi_get_device_current_fault_event"
MODELS: Mapping[str, Model] = {
    "dcmi_get_device_memory_info_v3": ASCEND_310P3,
    "dcmi_get_npu_work_mode": ASCEND_910A,
    "dcmi_get_multi_die_policy": ASCEND_910C,
}
"""Chips for which an answer matters that does not for a 910B3."""
INSTEAD: Mapping[str, str] = {
    "dcmi_get_device_chip_info": "dcmi_get_device_chip_info_v2",
    "dcmi_get_device_errorcode_v2": EVENTS,
    "dcmi_get_device_health": EVENTS,
}
"""Functions that matter only where the driver lacks a newer one, and which."""
_HALVES = {"310P3": "vir02", "910A": "vir04", "910B3": "vir05-1c-16g"}

Wanted = Mapping[str, tuple[Sequence[Result], Sequence[Mapping[str, Any]]]]


class AscendMachine:
    """Two cards with a vNPU on the second one, or of a 910C with a container that has it; implements
    ``VendorMachine``."""

    code = -8006
    only_after: Mapping[str, str] = {}

    def __init__(self, folder: Path, model: Model, without: Sequence[str]):
        self._machine = Machine(folder)
        self._without = without
        for _ in range(2):
            self._machine.add(model, utilization=40, used=2048, temperature=55, power=1234)
        self._machine.dcmi.change({"chip.0.topo.2": 3})
        second = f"npu-{model.chips}"
        self.wanted: Wanted = {"whole": ([result("npu-0")], ()), "share": ([share("npu-0-share", SHARE_A)], ())}
        self.running: Sequence[Result] = (result(second),)
        self.excluded: Sequence[Result] = (result(second),)
        if part := _HALVES.get(model.name):
            self.wanted = {**self.wanted, "vNPU": ([result(f"{second}-{part}-1")], ())}
            self.running = (result(f"{second}-{part}-0"),)

    @property
    def fake(self) -> FakeDcmi:
        return self._machine.dcmi

    def start(self, clock: VirtualClock) -> Hardware:
        self._machine.clock = clock
        return self._machine.start(self._without)

    def left(self) -> object:
        return [key for key in self.fake.state() if ".vdev." in key]


def rows_of(function: str, folder: Path) -> list[Row]:
    """The rows of a function, as measured; see ``AnswersTest``."""

    def machine(place: Path) -> AscendMachine:
        patch.setenv("FAKE_DCMI", str(place / "dcmi"))
        without = [INSTEAD[function]] if function in INSTEAD else []
        return AscendMachine(place, MODELS.get(function, ASCEND_910B3), without)

    with pytest.MonkeyPatch.context() as patch:
        return measured(machine, folder, function)


@pytest.mark.parametrize("function", sorted(ROWS))
def test_a_row_says_what_happens_while_the_function_fails(function: str, folder: Path) -> None:
    assert "\n".join(map(str, rows_of(function, folder))) == "\n".join(map(str, ROWS[function]))


def test_every_function_that_the_source_names_has_a_row() -> None:
    assert set(re.findall(r"\bdcmi_[a-z]\w+", LIBRARY.read_text())) == ROWS.keys()
