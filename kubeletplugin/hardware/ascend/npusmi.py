"""Finds the chips of the node with ``npu-smi``, where DCMI cannot be loaded. Whole cards only: no vNPUs, no health."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from driver.clock import SystemClock
from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.facts import Chip
from kubeletplugin.hardware.known_answers import KnownAnswers

ANSWER_SECONDS = 4.0
"""Longest time of the tool."""
_IDENTITIES: Final = ("vdie id", "die id", "ddie id")
"""The fields with the hardware's own id of a chip: of 910B and 910C, of 310 and 310P, of 950."""
_HBM: Final = ("hbm capacity(mb)",)
_DDR: Final = ("ddr capacity(mb)", "total ddr capacity(mb)")

Run = Callable[[Sequence[str]], str]
"""Runs the tool with arguments and returns its output; may raise OSError or subprocess.SubprocessError."""


@dataclass(frozen=True, slots=True)
class Row:
    """An NPU in the table of ``npu-smi info -m``."""

    card: int
    chip: int
    """Its number on its card."""
    physical_id: int
    """The number in ``/dev/davinci<n>``; older tools say only the logic id, which is the same outside containers."""
    name: str
    """``Ascend 910B1``"""


def runner(path: str) -> Run:
    """A ``Run`` of the tool at ``path``."""

    def run(arguments: Sequence[str]) -> str:
        command = [path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
        return done.stdout

    return run


def find(run: Run, known: KnownAnswers | None = None) -> Node:
    """The chips that the tool lists. One that cannot be read is reported, and the others are found.

    Args:
        known: keeps the facts of chips, which are asked until they are read; None asks for all of them.

    Raises:
        TransientFault: the tool fails, or prints no table of chips.
    """
    try:
        rows = mapped(run(["info", "-m"]))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise TransientFault(f"npu-smi info -m: {error}") from error
    answers = known or KnownAnswers(SystemClock())
    chips: list[Chip] = []
    silent: list[str] = []
    version = ""
    for row in rows:
        board = answers.fact(row, "board", partial(_fields, run, row, "board", _IDENTITIES))
        if isinstance(board, Unread):
            silent.append(f"card {row.card}, chip {row.chip}: {board.why}")
        elif board is not LACKS:
            memory = answers.fact(row, "memory", partial(_fields, run, row, "memory", (*_HBM, *_DDR)))
            chips.append(_chip(row, board, memory))
            version = version or board.get("software version", "")
    counts = {row.card: sum(other.card == row.card for other in rows) for row in rows}
    return Node(tuple(chips), counts, version, faults=tuple(silent), silent=tuple(silent))


def _fields(run: Run, row: Row, topic: str, needed: Sequence[str]) -> Answer[dict[str, str]]:
    """What the tool prints about a chip; it must have one of the fields that are needed."""
    arguments = ["info", "-t", topic, "-i", str(row.card), "-c", str(row.chip)]
    line = f"npu-smi {' '.join(arguments)}"
    try:
        printed = fields(run(arguments))
    except (OSError, subprocess.SubprocessError) as error:
        return Unread(f"{line}: {error}")
    if not any(name in printed for name in needed):
        return Unread(f"{line}: prints none of the fields {', '.join(needed)}")
    return printed


def mapped(text: str) -> tuple[Row, ...]:
    """Every NPU in the table of ``npu-smi info -m``; rows of MCUs have no logic id. Columns have their names in the
    first line: newer tools print more of them.

    Raises:
        ValueError: there is no table.
    """
    lines = [re.split(r"\t+|\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if "npu id" in (name.lower() for name in line)), None)
    if start is None:
        raise ValueError("prints no table with the column NPU ID")
    names = [name.lower() for name in lines[start]]
    found: list[Row] = []
    for values in lines[start + 1 :]:
        row = dict(zip(names, values, strict=False))
        card, chip, logic = (row.get(name, "") for name in ("npu id", "chip id", "chip logic id"))
        if card.isdecimal() and chip.isdecimal() and logic.isdecimal():
            physical = row.get("chip phy-id", "")
            number = int(physical if physical.isdecimal() else logic)
            found.append(Row(int(card), int(chip), number, row.get("chip name", "")))
    return tuple(found)


def fields(text: str) -> dict[str, str]:
    """The ``name : value`` lines of an answer, by name in lower case."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _chip(row: Row, board: Mapping[str, str], memory: Answer[dict[str, str]]) -> Chip:
    identity = next(board[name] for name in _IDENTITIES if name in board).split()
    number = re.fullmatch(r"0x[0-9a-f]+", board.get("board id", "").lower())
    return Chip(
        row.card,
        row.chip,
        row.physical_id,
        "-".join(part.upper().zfill(8) for part in identity),
        board.get("chip name", row.name).removeprefix("Ascend").strip() or row.name,
        board_id=int(number[0], 16) if number else LACKS,
        hbm_mib=_size(memory, _HBM),
        ddr_mib=_size(memory, _DDR),
        bus_id=board.get("pcie bus info", "").lower() or LACKS,
        templates=(),  # the tool cannot make what is asked for and say which it is
    )


def _size(memory: Answer[dict[str, str]], names: Sequence[str]) -> Answer[int]:
    if memory is LACKS or isinstance(memory, Unread):
        return memory
    return next((int(memory[name]) for name in names if memory.get(name, "").isdecimal()), LACKS)
