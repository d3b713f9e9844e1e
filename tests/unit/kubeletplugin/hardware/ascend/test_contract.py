"""The backend of Ascend chips does what every backend must, through DCMI's C interface."""

from collections.abc import Mapping, Sequence

import pytest

from driver.parameters import GpuConfig
from kubeletplugin.hardware import Action, Card, Hardware, Readings, Use
from kubeletplugin.hardware.actions import VnpuInstance
from kubeletplugin.hardware.readings import Measure
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910A, ASCEND_910B4, ASCEND_910C, Model
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.contract import ChosenIdContract, HardwareContract
from tests.unit.kubeletplugin.hardware.measuring_contract import MeasuringContract

MIB = 1024**2
NOT_SUPPORTED, TIMEOUT = -8255, -8006
_ASKED: Mapping[Measure, Sequence[str]] = {
    "utilization": ("dcmi_get_device_utilization_rate",),
    "memoryUsed": ("dcmi_get_device_hbm_info", "dcmi_get_device_memory_info_v3"),
    "temperature": ("dcmi_get_device_temperature",),
    "power": ("dcmi_get_device_power_info",),
}
"""The functions that are asked for a measure."""


class AscendBench:
    def __init__(self, machine: Machine, model: Model):
        self.machine, self.model = machine, model
        for _ in range(2):
            machine.add(model)

    def start(self) -> Hardware:
        return self.machine.start()

    def uses(self) -> Sequence[Use]:
        first, second = self.start().cards()
        if not first.scheme:
            return [Use("mine", first), Use("yours", second)]
        parts = first.scheme.partitions
        smallest = [part for part in parts if part.profile == parts[0].profile]
        return [Use("mine", first, smallest[0]), Use("yours", first, smallest[1]), Use("whole", second)]

    def unsupported(self) -> Use:
        return Use("claim", self.start().cards()[0], config=GpuConfig(sharing="mps"))

    def occupy(self, action: Action) -> None:
        self._set(action, "1")

    def vacate(self, action: Action) -> None:
        self._set(action, "0")

    def make_foreign(self, action: Action) -> None:
        self._set(action, "0")

    def reboot(self) -> None:
        """vNPUs come back."""

    def lose(self, card: Card) -> None:
        self.machine.dcmi.change({f"chip.{self._chip(card.uuid)}.lost": 1})

    def work(self, card: Card) -> Readings:
        chips = self._chips(card)
        for number, chip in enumerate(chips):
            at_work = {"utilization": 40 + 20 * number, "used": 2048, "temperature": 55 + number, "power": 1234}
            self.machine.dcmi.change({f"chip.{chip}.{name}": value for name, value in at_work.items()})
        values: dict[Measure, float] = {
            "utilization": 0.4 + 0.1 * (len(chips) - 1),
            "memoryUsed": 2048 * MIB * len(chips),
            "temperature": 54 + len(chips),
            "power": 123.4 * len(chips),
        }
        divided = any(self.machine.dcmi.vnpus(chip) for chip in chips)
        return Readings(
            {name: value for name, value in values.items() if not divided or name in ("temperature", "power")}
        )

    def mute(self, card: Card, measure: Measure, code: int) -> None:
        """Of the card's last chip."""
        chip = self._chips(card)[-1]
        self.machine.dcmi.change({f"chip.{chip}.fault.{name}": code or None for name in _ASKED[measure]})

    def codes(self) -> tuple[int, int]:
        return NOT_SUPPORTED, TIMEOUT

    def _chips(self, card: Card) -> Sequence[int]:
        """The numbers of the card's chips: a 910C has two."""
        first = self._chip(card.uuid)
        return range(first, first + self.model.chips)

    def _set(self, action: Action, used: str) -> None:
        assert isinstance(action, VnpuInstance)
        chip = self._chip(action.card)
        self.machine.dcmi.change({f"chip.{chip}.vdev.{action.id}": f"{action.template} {used}"})

    def _chip(self, uuid: str) -> int:
        state = self.machine.dcmi.state()
        return next(int(key.split(".")[1]) for key, value in state.items() if value == uuid)


@pytest.fixture
def bench(machine: Machine, model: Model) -> AscendBench:
    return AscendBench(machine, model)


@pytest.mark.parametrize("model", [ASCEND_310P3, ASCEND_910A, ASCEND_910B4], ids=lambda model: model.name)
class TestCardsThatCanBeDivided(HardwareContract, MeasuringContract, ChosenIdContract):
    pass


@pytest.mark.parametrize("model", [ASCEND_910C], ids=lambda model: model.name)
class TestCardsThatCannotBeDivided(HardwareContract, MeasuringContract):
    pass
