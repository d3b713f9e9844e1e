"""What DCMI says of a chip with vNPUs, of a chip that is lost meanwhile, and values that stand for none."""

import pytest

from kubeletplugin.hardware import CardGone, Readings
from tests.fakes.dcmi.models import ASCEND_910B3
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine

NO_DEVICE = -8008
AT_WORK = {"utilization": 40, "used": 2048, "temperature": 55, "power": 1234}


@pytest.fixture
def machine_at_work(machine: Machine) -> Machine:
    machine.add(ASCEND_910B3, **AT_WORK)
    return machine


def test_of_a_chip_with_vnpus_the_temperature_and_the_power_are_known(machine_at_work: Machine) -> None:
    hardware = machine_at_work.start()
    (card,) = hardware.cards()
    assert hardware.readings(card).values.keys() == {"utilization", "memoryUsed", "temperature", "power"}
    machine_at_work.dcmi.change({"chip.0.vdev.100": "vir05_1c_16g 1"})
    assert hardware.readings(card) == Readings({"temperature": 55, "power": 123.4})


def test_a_chip_that_is_lost_meanwhile_is_gone_and_not_only_unread(machine_at_work: Machine) -> None:
    hardware = machine_at_work.start()
    (card,) = hardware.cards()
    machine_at_work.dcmi.change({"chip.0.fault.dcmi_get_device_power_info": NO_DEVICE})
    with pytest.raises(CardGone):
        hardware.readings(card)


@pytest.mark.parametrize(("name", "measure"), [("utilization", "utilization"), ("power", "power")])
def test_a_value_that_cannot_be_stands_for_none(machine_at_work: Machine, name: str, measure: str) -> None:
    hardware = machine_at_work.start()
    (card,) = hardware.cards()
    machine_at_work.dcmi.change({f"chip.0.{name}": {"utilization": 65535, "power": -1}[name]})
    answer = hardware.readings(card)
    assert measure not in answer.values
    assert answer.unread == frozenset()
