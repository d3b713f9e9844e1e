"""Where DCMI cannot be loaded, ``npu-smi`` finds whole cards."""

import subprocess
from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from kubeletplugin.hardware import Readings, Use
from kubeletplugin.hardware.ascend import npusmi
from kubeletplugin.hardware.ascend.dcmi import DcmiError
from tests.fakes.dcmi.models import ASCEND_910B3
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine

MAPPING = """
	NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
	1                              0                              0                              Ascend 310P3
	1                              1                              1                              Ascend 310P3
	1                              2                              -                              Mcu
	4                              0                              2                              Ascend 310P3
"""
BOARD = """
	NPU ID                         : {card}
	Software Version               : 25.2.0
	Firmware Version               : 7.1.0.5.220
	Board ID                       : 0x64
	PCIe Bus Info                  : 0000:{bus}:00.0
	Chip Name                      : Ascend310P3
	VDie ID                        : A6B2C3D4 20A00E23 15380A14 CC0300A4 {card:08X}
	Chip Phy ID                    : {phy}
"""
MEMORY = """
	NPU ID                         : 1
	DDR Capacity(MB)               : 21527
	DDR Clock Speed(MHz)           : 2133
"""


class Tool:
    """``npu-smi`` with fixed answers; those about some cards fail."""

    def __init__(self, answers: Mapping[str, str], *failing: str):
        self.answers = answers
        self.failing = failing

    def __call__(self, arguments: Sequence[str]) -> str:
        command = " ".join(arguments)
        if any(part in command for part in self.failing):
            raise subprocess.CalledProcessError(1, ["npu-smi", *arguments])
        return self.answers[command]


def answers() -> dict[str, str]:
    chips = [(1, 0, "81", 0), (1, 1, "82", 1), (4, 0, "c1", 2)]
    of_chips: dict[str, str] = {}
    for card, device, bus, phy in chips:
        where = f"-i {card} -c {device}"
        of_chips[f"info -t board {where}"] = BOARD.format(card=10 * card + device, bus=bus, phy=phy)
        of_chips[f"info -t memory {where}"] = MEMORY
    return {"info -m": MAPPING, **of_chips}


def with_files(machine: Machine) -> Machine:
    machine.files.more |= {f"davinci{number}" for number in range(3)}
    return machine


def test_cards_are_found_whole_and_the_reason_is_logged_once(machine: Machine) -> None:
    hardware = with_files(machine).start(library="/nowhere", run=Tool(answers()))
    with capture_logs() as logs:
        cards = hardware.cards()
        assert hardware.cards() == cards
    assert [(card.name, card.type, card.model, card.memory_mib) for card in cards] == [
        (f"npu-{number}", "310P", "Ascend 310P3", 21527) for number in range(3)
    ]
    assert cards[0].uuid == "A6B2C3D4-20A00E23-15380A14-CC0300A4-0000000A"
    assert (cards[2].pci_bus_id, cards[2].driver_version) == ("0000:c1:00.0", "25.2.0")
    assert ["npu-smi" in line["problem"] for line in logs] == [True]


def test_cards_are_given_whole_and_are_not_watched(machine: Machine) -> None:
    hardware = with_files(machine).start(library="/nowhere", run=Tool(answers()))
    card = hardware.cards()[0]
    assert card.scheme is None
    assert hardware.observe(card).found == ()
    assert hardware.actions(Use("claim", card), ()) == ()
    assert hardware.edits(Use("claim", card), {}).device_nodes[0].path == "/dev/davinci0"
    assert hardware.health()[card.name].healthy


def test_a_chip_that_cannot_be_read_is_reported_and_the_others_are_found() -> None:
    node = npusmi.find(Tool(answers(), "-i 1 -c 1"))
    assert [(chip.card_id, chip.device_id) for chip in node.chips] == [(1, 0), (4, 0)]
    assert "card 1, chip 1" in node.faults[0]
    nameless = {**answers(), "info -t board -i 4 -c 0": "nonsense"}
    assert len(npusmi.find(Tool(nameless)).chips) == 2


def test_a_tool_that_fails_is_asked_again(machine: Machine) -> None:
    with pytest.raises(TransientFault, match="info -m"):
        npusmi.find(Tool(answers(), "info -m"))
    with pytest.raises(TransientFault):
        machine.start(library="/nowhere", run=npusmi.runner("/nowhere/npu-smi")).cards()


COMMON = """
	NPU ID                         : 1
	Chip Count                     : 2

	Chip ID                        : 0
	Memory Usage Rate(%)           : 10
	Aicore Usage Rate(%)           : 35
	Aicore Freq(MHZ)               : 1080
	Temperature(C)                 : 43

	Chip ID                        : 1
	HBM Usage Rate(%)              : 50
	Memory Usage Rate(%)           : 3
	Aicore Usage Rate(%)           : NA
	Temperature(C)                 : 45
	NPU Real-time Power(W)         : 69.5

	Chip Name                      : mcu
	Temperature(C)                 : 41
	NPU Real-time Power(W)         : 13.4
"""


def test_what_the_tool_prints_of_a_chip_is_what_it_measures(machine: Machine) -> None:
    tool = Tool({**answers(), "info -t common -i 1": COMMON, "info -t common -i 4": "nonsense"})
    hardware = with_files(machine).start(library="/nowhere", run=tool)
    first, second, third = hardware.cards()
    memory = 21527 * 1024**2
    assert hardware.readings(first) == Readings({"utilization": 0.35, "memoryUsed": 0.1 * memory, "temperature": 43})
    assert hardware.readings(second) == Readings({"memoryUsed": 0.5 * memory, "temperature": 45, "power": 69.5})
    assert hardware.readings(third) == Readings()


def test_a_tool_that_fails_leaves_a_card_unread(machine: Machine) -> None:
    hardware = with_files(machine).start(library="/nowhere", run=Tool(answers(), "common"))
    with pytest.raises(TransientFault, match="info -t common -i 1"):
        hardware.readings(hardware.cards()[0])


def test_the_tool_is_not_asked_where_the_library_answers(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    assert len(machine.start(run=Tool({})).cards()) == 1


def test_without_the_tool_the_library_is_needed(machine: Machine) -> None:
    with pytest.raises(DcmiError):
        machine.start(library="/nowhere").cards()
