"""The backend of Ascend chips does what every backend must, through DCMI's C interface."""

from collections.abc import Sequence

import pytest

from driver.parameters import GpuConfig
from kubeletplugin.hardware import Action, Card, Hardware, Use
from kubeletplugin.hardware.actions import VnpuInstance
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910A, ASCEND_910B4, ASCEND_910C, Model
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.contract import ChosenIdContract, HardwareContract


class AscendBench:
    def __init__(self, machine: Machine, model: Model):
        self.machine = machine
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
class TestCardsThatCanBeDivided(HardwareContract, ChosenIdContract):
    pass


@pytest.mark.parametrize("model", [ASCEND_910C], ids=lambda model: model.name)
class TestCardsThatCannotBeDivided(HardwareContract):
    pass
