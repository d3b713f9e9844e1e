"""Where DCMI cannot be loaded, ``npu-smi`` finds whole cards."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from kubeletplugin.hardware import Readings, Use
from kubeletplugin.hardware.ascend import npusmi
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.dcmi import DcmiError
from kubeletplugin.hardware.devices import DeviceFiles
from tests.fakes.dcmi.models import ASCEND_910B3
from tests.fakes.npusmi import listed, table
from tests.simulation.clock import VirtualClock
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine

HEADINGS = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
FIVE = (*HEADINGS[:3], "Chip Phy-ID", "Chip Name")
MAPPING = (
    HEADINGS,
    ("1", "0", "0", "Ascend 310P3"),
    ("1", "1", "1", "Ascend 310P3"),
    ("1", "2", "-", "Mcu"),
    ("4", "0", "2", "Ascend 310P3"),
)
DIE = "A6B2C3D4 20A00E23 15380A14 CC0300A4 {card:08X}"


BOARD_310P = {
    "NPU ID": 1,
    "Software Version": "25.2.0",
    "Firmware Version": "7.1.0.5.220",
    "Board ID": "0x64",
    "PCIe Bus Info": "0000:{bus}:00.0",
    "Chip Name": "310P3",
    "Die ID": DIE,
}
BOARD_910B = {"Chip Type": "Ascend", "Chip Name": "910B1", "Board ID": "0x30", "VDie ID": DIE, "NDie ID": "0 0 0 0 0"}
BOARD_910C = {"Chip Type": "Ascend", "Chip Name": "Ascend910", "Board ID": "0xb3", "VDie ID": DIE}
BOARD_950 = {"Chip Name": "Ascend950PR", "DDie ID": DIE}
IDS = "vdie id, die id, ddie id"
BOARD = listed(BOARD_310P)
MEMORY = listed({"NPU ID": 1, "DDR Capacity(MB)": 21527, "DDR Clock Speed(MHz)": 2133})
HBM = listed({"NPU ID": 1, "DDR Capacity(MB)": 0, "HBM Capacity(MB)": 65536})


class Tool:
    """``npu-smi`` with fixed answers.

    Args:
        failing: calls whose arguments have one of these texts fail, as long as it is there.
    """

    def __init__(self, answers: Mapping[str, str], *failing: str):
        self.answers = dict(answers)
        self.failing = set(failing)
        self.calls: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> str:
        command = " ".join(arguments)
        self.calls.append(command)
        if any(part in command for part in self.failing):
            raise subprocess.CalledProcessError(1, ["npu-smi", *arguments])
        return self.answers[command]


def answers() -> dict[str, str]:
    chips = [(1, 0, "81"), (1, 1, "82"), (4, 0, "c1")]
    of_chips: dict[str, str] = {}
    for card, device, bus in chips:
        where = f"-i {card} -c {device}"
        of_chips[f"info -t board {where}"] = BOARD.format(card=10 * card + device, bus=bus)
        of_chips[f"info -t memory {where}"] = MEMORY
    return {"info -m": table(MAPPING), **of_chips}


def found(tool: Tool) -> Node:
    return npusmi.NpuSmi(tool, DeviceFiles("/missing"), VirtualClock()).node()


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
    node = found(Tool(answers(), "-i 1 -c 1"))
    assert [(chip.card_id, chip.device_id) for chip in node.chips] == [(1, 0), (4, 0)]
    assert "card 1, chip 1: npu-smi info -t board -i 1 -c 1: " in node.faults[0]
    nameless = {**answers(), "info -t board -i 4 -c 0": "nonsense\n"}
    node = found(Tool(nameless))
    assert len(node.chips) == 2
    assert node.faults == ("card 4, chip 0: npu-smi info -t board -i 4 -c 0: prints none of the fields " + IDS,)


REAL: Mapping[str, tuple[Sequence[Sequence[str]], Mapping[str, object], str, tuple[int, str, int]]] = {
    "910B, four columns": (
        [HEADINGS, ("1", "0", "0", "Ascend 910B1"), ("1", "1", "-", "Mcu")],
        BOARD_910B,
        HBM,
        (0, "Ascend 910B1", 65536),
    ),
    "910B, five columns": (
        [
            FIVE,
            ("1", "0", "0", "4", "Ascend 910B1"),
            ("1", "1", "-", "-", "Mcu"),
        ],
        BOARD_910B,
        HBM,
        (4, "Ascend 910B1", 65536),
    ),
    "310P, five columns": (
        [FIVE, ("1", "0", "0", "4", "Ascend 310P3")],
        BOARD_310P,
        MEMORY,
        (4, "Ascend 310P3", 21527),
    ),
    "310P, total memory": (
        [HEADINGS, ("1", "0", "0", "Ascend 310P3")],
        BOARD_310P,
        listed({"Total DDR Capacity(MB)": 43693}),
        (0, "Ascend 310P3", 43693),
    ),
    "950, six columns": (
        [
            ("NPU ID", "Slot ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"),
            ("0", "3", "0", "0", "5", "Ascend950PR"),
        ],
        BOARD_950,
        HBM,
        (5, "Ascend 950PR", 65536),
    ),
}
"""Tables of chips, fields of a board and of its memory, as public outputs of tools have them; what is found in them."""


@pytest.mark.parametrize("name", REAL)
def test_what_tools_print_of_chips_is_read_by_the_names_of_columns_and_fields(machine: Machine, name: str) -> None:
    rows, board, memory, expected = REAL[name]
    card = int(rows[1][0])
    printed = {
        "info -m": table(rows),
        f"info -t board -i {card} -c 0": listed(board).format(bus="81", card=7),
        f"info -t memory -i {card} -c 0": memory,
    }
    machine.files.more.add(f"davinci{expected[0]}")
    (found,) = machine.start(library="/nowhere", run=Tool(printed)).cards()
    assert (found.index, found.model, found.memory_mib) == expected
    assert found.uuid == "A6B2C3D4-20A00E23-15380A14-CC0300A4-00000007"


def test_both_dies_of_a_910c_are_one_card(machine: Machine) -> None:
    rows = [FIVE, *(("2", str(n), str(n), str(n), "Ascend910") for n in (0, 1))]
    boards = {f"info -t board -i 2 -c {n}": listed(BOARD_910C).format(card=n) for n in (0, 1)}
    sizes = {f"info -t memory -i 2 -c {n}": HBM for n in (0, 1)}
    machine.files.more |= {"davinci0", "davinci1"}
    (found,) = machine.start(library="/nowhere", run=Tool({"info -m": table(rows), **boards, **sizes})).cards()
    assert (found.type, found.memory_mib) == ("910C", 131072)


def test_a_tool_that_prints_another_table_is_not_understood() -> None:
    with pytest.raises(TransientFault, match="NPU ID"):
        found(Tool({"info -m": "\tCard    Chip\n\t0    0\n"}))


@pytest.mark.parametrize("topic", ["board", "memory"])
def test_what_the_tool_did_not_say_once_is_asked_again_and_what_it_said_is_not(machine: Machine, topic: str) -> None:
    tool = Tool(answers(), f"-t {topic} -i 1 -c 0")
    hardware = with_files(machine).start(library="/nowhere", run=tool)
    during = hardware.cards()
    if topic == "memory":
        assert during[0].memory_mib == 0
        assert hardware.observe(during[0]).unread.keys() == {"share"}
        assert "npu-smi info -t memory -i 1 -c 0" in hardware.health()["npu-0"].message
    else:
        assert [card.name for card in during] == ["npu-1", "npu-2"]
    tool.failing.clear()
    machine.clock.advance(10)
    assert hardware.cards() == machine.start(library="/nowhere", run=Tool(answers())).cards()
    tool.calls.clear()
    tool.failing.add("-c")
    assert len(hardware.cards()) == 3
    assert tool.calls == ["info -m"]
    assert hardware.observe(hardware.cards()[0]).unread == {}


def test_a_tool_that_fails_is_asked_again(machine: Machine) -> None:
    with pytest.raises(TransientFault, match="info -m"):
        found(Tool(answers(), "info -m"))
    with pytest.raises(TransientFault):
        machine.start(library="/nowhere", run=npusmi.runner("/nowhere/npu-smi")).cards()


CHIP = "info -t board -i 1 -c 0"
HBM_UNKNOWN = listed({"DDR Capacity(MB)": 21527, "HBM Capacity(MB)": "NA"})


@pytest.mark.parametrize(
    ("line", "printed", "left_out"),
    [
        (CHIP, BOARD.format(card=10, bus="81").replace("A6B2C3D4", "NA      "), True),
        (CHIP, BOARD.format(card=10, bus="81")[:-3], True),
        (CHIP, BOARD.format(card=10, bus="81").replace("310P3", "NA"), True),
        (CHIP, BOARD.format(card=10, bus="NA"), False),
        (CHIP, BOARD.format(card=10, bus="81").replace("0x64", "NA"), False),
        ("info -t memory -i 1 -c 0", MEMORY.replace("21527", "NA"), False),
        ("info -t memory -i 1 -c 0", HBM_UNKNOWN, False),
    ],
    ids=["identity", "cut", "name", "bus id", "board", "memory", "HBM"],
)
def test_no_value_in_what_the_tool_prints_is_no_answer_and_is_asked_again(
    machine: Machine, line: str, printed: str, left_out: bool
) -> None:
    tool = Tool({**answers(), line: printed})
    hardware = with_files(machine).start(library="/nowhere", run=tool)
    assert ("npu-0" not in [card.name for card in hardware.cards()]) is left_out
    assert any(line in why for why in hardware.unread_cards()) is left_out
    assert left_out or line in hardware.health()["npu-0"].message
    tool.answers = answers()
    machine.clock.advance(10)
    assert hardware.cards() == machine.start(library="/nowhere", run=Tool(answers())).cards()


def test_a_chip_that_the_tool_does_not_list_is_not_lost_while_its_device_file_is_there(machine: Machine) -> None:
    tool = Tool(answers())
    hardware = with_files(machine).start(library="/nowhere", run=tool)
    cards = hardware.cards()
    for listed_now in (table(MAPPING[:-1]), table(MAPPING)[:-9], "No device\n", ""):
        tool.answers["info -m"] = listed_now
        assert hardware.cards() == cards
        health = hardware.health()["npu-2"]
        assert (health.state, "npu-smi info -m" in health.message) == ("unknown", True)
    machine.clock.advance(120)
    assert hardware.health()["npu-2"].state == "degraded"
    tool.answers = answers()
    assert hardware.health()["npu-2"].healthy
    tool.answers["info -m"] = table(MAPPING[:-1])
    assert hardware.health()["npu-2"].state == "unknown"
    machine.files.more.discard("davinci2")
    assert hardware.cards() == cards[:2]
    assert hardware.unread_cards() == ()


def test_a_chip_that_was_never_listed_may_be_there_if_its_device_file_is(machine: Machine) -> None:
    tool = Tool({**answers(), "info -m": table(MAPPING[:-1])})
    hardware = with_files(machine).start(library="/nowhere", run=tool)
    first = hardware.cards()[0]
    (why,) = hardware.unread_cards()
    assert "/dev/davinci2" in why
    with pytest.raises(TransientFault, match="davinci2"):
        hardware.observe(replace(first, index=2, uuid="another"))


def test_what_is_no_text_is_no_reason_to_fail(tmp_path: Path) -> None:
    tool = tmp_path / "npu-smi"
    tool.write_text("#!/bin/sh\nprintf 'Chip Name : \\377\\n'\n")
    tool.chmod(0o755)
    assert npusmi.fields(npusmi.runner(str(tool))(["info"])) == {"chip name": "\ufffd"}


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
    tool = Tool({**answers(), "info -t common -i 1": COMMON, "info -t common -i 4": "nonsense\n"})
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
