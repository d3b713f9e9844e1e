"""The health of cards, as their chips report it."""

import pytest

from kubeletplugin.hardware.ascend.dcmi import DcmiCode
from kubeletplugin.hardware.port import Health
from tests.fakes.dcmi.models import ASCEND_910B3, ASCEND_910C
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine

EVENTS = "dcmi_get_device_current_fault_event"
CODES = "dcmi_get_device_errorcode_v2"
LEVEL = "dcmi_get_device_health"
CRITICAL = "0x80E01801 3 HBM multi-bit error"


def health(machine: Machine, without: tuple[str, ...] = ()) -> Health:
    return machine.start(without).health()["npu-0"]


def test_a_chip_without_faults_is_healthy(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    assert health(machine) == Health()


def test_a_fault_is_told_with_its_number_and_name_until_it_is_over(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({"chip.0.event.1": CRITICAL, "chip.0.alarm": 3})
    hardware = machine.start()
    for _ in range(2):
        found = hardware.health()["npu-0"]
        assert found == Health("fatal", "fault 80E01801: HBM multi-bit error", "80E01801", "reset")
    machine.dcmi.change({"chip.0.event.1": None, "chip.0.alarm": 0})
    assert hardware.health()["npu-0"] == Health()


def test_only_the_card_with_the_fault_is_unhealthy(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.add(ASCEND_910B3)
    machine.dcmi.change({"chip.2.event.1": CRITICAL})
    found = machine.start().health()
    assert {name: each.healthy for name, each in found.items()} == {"npu-0": True, "npu-1": False}


def test_the_operator_chooses_what_faults_mean(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({"chip.0.event.1": CRITICAL})
    assert machine.start(codes={"80E01801": "healthy"}).health()["npu-0"].healthy
    assert machine.start(levels={"critical": "degraded"}).health()["npu-0"].state == "degraded"


@pytest.mark.parametrize(("alarm", "state"), [(0, "healthy"), (1, "healthy"), (2, "degraded"), (3, "fatal")])
def test_a_driver_without_events_tells_the_level_of_the_worst_fault(machine: Machine, alarm: int, state: str) -> None:
    machine.add(ASCEND_910B3, alarm=alarm)
    machine.dcmi.change({"chip.0.event.1": CRITICAL})
    found = health(machine, (EVENTS,))
    assert found.state == state
    assert found.code == ("" if state == "healthy" else "80E01801")


def test_a_driver_with_nothing_but_the_level_is_believed(machine: Machine) -> None:
    machine.add(ASCEND_910B3, alarm=3)
    assert health(machine, (EVENTS, CODES)).state == "fatal"


def test_a_driver_with_nothing_but_numbers_has_faults_of_unknown_severity(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    assert health(machine, (EVENTS, LEVEL)) == Health()
    machine.dcmi.change({"chip.0.event.1": CRITICAL})
    assert health(machine, (EVENTS, LEVEL)).state == "degraded"


def test_a_driver_that_tells_nothing_leaves_the_health_unknown(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    assert health(machine, (EVENTS, CODES, LEVEL)).state == "unknown"


def test_a_chip_that_is_reset_or_lost_is_fatal(machine: Machine) -> None:
    machine.add(ASCEND_910B3, alarm=0xFFFFFFFF)
    assert health(machine).state == "fatal"
    machine.dcmi.change({"chip.0.alarm": 0, f"fault.{LEVEL}": int(DcmiCode.NOT_READY)})
    assert health(machine).state == "fatal"


def test_a_pair_is_as_healthy_as_its_worse_die(machine: Machine) -> None:
    machine.add(ASCEND_910C)
    machine.dcmi.change({"chip.1.event.1": CRITICAL})
    assert health(machine).state == "fatal"


TIMEOUT = int(DcmiCode.TIMEOUT)
IDENTITY = ("dcmi_get_device_die_v2", "dcmi_get_device_logic_id", "dcmi_get_device_phyid_from_logicid")


@pytest.mark.parametrize("function", [EVENTS, *IDENTITY])
@pytest.mark.parametrize("code", [DcmiCode.TIMEOUT, DcmiCode.INNER_ERROR, -8010, -8011])
def test_a_chip_that_does_not_answer_says_which_call_failed_and_is_not_gone(
    machine: Machine, function: str, code: int
) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    cards, before = hardware.cards(), hardware.health()
    machine.dcmi.change({f"fault.{function}": int(code)})
    assert hardware.cards() == cards
    found = hardware.health()["npu-0"]
    assert (found.state, found.recovery, found.away) == ("unknown", "none", True)
    assert f"{function}: " in found.message
    assert f"(code {int(code)})" in found.message
    machine.dcmi.change({f"fault.{function}": None})
    assert hardware.health() == before


@pytest.mark.parametrize("function", [EVENTS, *IDENTITY])
def test_a_chip_that_does_not_answer_for_long_needs_somebody_to_look(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    hardware.health()
    machine.dcmi.change({f"fault.{function}": TIMEOUT})
    hardware.health()
    machine.clock.advance(61)
    found = hardware.health()["npu-0"]
    assert (found.state, found.recovery, found.away) == ("degraded", "none", False)
    assert f"{function}: timeout (code -8006)" in found.message


@pytest.mark.parametrize("function", [EVENTS, *IDENTITY])
def test_a_fault_stays_while_the_chip_does_not_answer(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({"chip.0.event.1": CRITICAL})
    hardware = machine.start()
    hardware.health()
    machine.dcmi.change({f"fault.{function}": TIMEOUT, "chip.0.event.1": None})
    for _ in range(2):
        found = hardware.health()["npu-0"]
        assert (found.state, found.code) == ("fatal", "80E01801")
        assert function in found.message
        machine.clock.advance(61)
    machine.dcmi.change({f"fault.{function}": None})
    assert hardware.health()["npu-0"] == Health()


@pytest.mark.parametrize("function", [LEVEL, CODES])
def test_what_a_driver_with_events_is_not_asked_for_does_not_matter(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({f"fault.{function}": TIMEOUT})
    assert health(machine) == Health()


@pytest.mark.parametrize("function", [LEVEL, CODES])
def test_a_driver_without_events_is_believed_only_with_all_its_answers(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({f"fault.{function}": TIMEOUT})
    found = health(machine, (EVENTS,))
    assert found.state == "unknown"
    assert function in found.message


def test_a_chip_that_the_library_says_is_gone_is_fatal_until_it_answers(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    machine.dcmi.change({f"fault.{EVENTS}": int(DcmiCode.NO_DEVICE)})
    assert hardware.health()["npu-0"].state == "fatal"
    machine.dcmi.change({f"fault.{EVENTS}": TIMEOUT})
    assert hardware.health()["npu-0"].state == "fatal", "nothing has been learned since"
    machine.dcmi.change({f"fault.{EVENTS}": None})
    assert hardware.health()["npu-0"] == Health()


def test_a_fact_that_is_only_shown_and_never_read_is_told_and_the_card_is_healthy(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({"fault.dcmi_get_device_pcie_info_v2": TIMEOUT})
    found = health(machine)
    assert found.healthy
    assert "dcmi_get_device_pcie_info_v2: timeout (code -8006)" in found.message
