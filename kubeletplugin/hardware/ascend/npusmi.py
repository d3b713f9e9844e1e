"""Finds the chips of the node with ``npu-smi``, where DCMI cannot be loaded. Whole cards only: no vNPUs, no health."""

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.facts import Chip
from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.known_answers import KnownAnswers

ANSWER_SECONDS = 4.0
"""Longest time of the tool."""
_IDENTITIES: Final = ("vdie id", "die id", "ddie id")
"""The fields with the hardware's own id of a chip: of 910B and 910C, of 310 and 310P, of 950."""
_HBM: Final = ("hbm capacity(mb)",)
_DDR: Final = ("ddr capacity(mb)", "total ddr capacity(mb)")
_NEEDED: Final = {"board": _IDENTITIES, "memory": (*_HBM, *_DDR)}
"""The fields of which an answer about a topic has one."""
_LIST: Final = ("info", "-m")
_LIST_LINE: Final = "npu-smi info -m"
DEVICE: Final = "davinci"
"""What the name of a chip's device file begins with."""

T = TypeVar("T")

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
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS, check=True)
        return done.stdout.decode(errors="replace")

    return run


def printed_by(run: Run, arguments: Sequence[str]) -> str | Unread:
    """What the tool prints; an output that ends within a line is not all of it."""
    line = f"npu-smi {' '.join(arguments)}"
    try:
        text = run(arguments)
    except (OSError, subprocess.SubprocessError) as error:
        return Unread(f"{line}: {error}")
    if text and not text.endswith("\n"):
        return Unread(f"{line}: what it prints ends within a line: {text[-20:]!r}")
    return text


class NpuSmi:
    """The chips that the tool lists. Thread-safe.

    Facts of a chip are asked until they are read. A chip that was found stays as it was while its device file is there
    and the tool does not list it: nothing else tells a chip that is lost from a tool that fails.

    Args:
        run: runs the tool.
    """

    def __init__(self, run: Run, devices: DeviceFiles, clock: Clock):
        self._run = run
        self._devices = devices
        self._known = KnownAnswers(clock)
        self._lock = threading.Lock()
        self._chips: dict[int, Chip] = {}
        """The chips found last, by number in ``/dev``."""
        self._version = ""

    def node(self) -> Node:
        """Find the chips of the node. One that cannot be read is reported, and the others are found.

        Raises:
            TransientFault: the tool does not list the chips, and none was found before.
            OSError: the folder of device files cannot be read.
        """
        rows = self._rows()
        with self._lock:
            before = dict(self._chips)
        if isinstance(rows, Unread):
            if not before:
                raise TransientFault(rows.why)
            why, rows = rows.why, ()
        else:
            why = f"{_LIST_LINE}: does not list it, and its device file is there"
        silent: list[str] = []
        found: dict[int, Chip] = {}
        for row in rows:
            chip = self._chip(row)
            if isinstance(chip, Unread):
                silent.append(f"card {row.card}, chip {row.chip}: {chip.why}")
            else:
                found[row.physical_id] = chip
        listed = {row.physical_id for row in rows}
        for number in self._devices.numbers(DEVICE):
            if number in before and number not in listed:
                found[number] = replace(before[number], silent=why)
            elif number not in listed:
                silent.append(f"/dev/{DEVICE}{number}: {why}")
        with self._lock:
            self._chips = found
        places = {(row.card, row.chip) for row in rows} | {(c.card_id, c.device_id) for c in found.values()}
        counts = Counter(card for card, _ in places)
        return Node(tuple(found.values()), counts, self._version, faults=tuple(silent), silent=tuple(silent))

    def _rows(self) -> tuple[Row, ...] | Unread:
        text = printed_by(self._run, _LIST)
        if isinstance(text, Unread):
            return text
        try:
            return mapped(text)
        except ValueError as error:
            return Unread(f"{_LIST_LINE}: {error}")

    def _chip(self, row: Row) -> Chip | Unread:
        fact, printed = partial(self._known.fact, row), _Printed(self._run, row)
        identity = fact("identity", partial(printed.value, "board", _IDENTITIES, _identity))
        name = fact("name", partial(printed.value, "board", ("chip name",), _text))
        for answer in (identity, name):
            if isinstance(answer, Unread):
                return answer
        version = fact("version", partial(printed.value, "board", ("software version",), _text))
        self._version = self._version or if_read(version) or ""
        short = (if_read(name) or row.name).removeprefix("Ascend").strip()
        return Chip(
            row.card,
            row.chip,
            row.physical_id,
            if_read(identity) or "",
            short or row.name,
            board_id=fact("board", partial(printed.value, "board", ("board id",), _hexadecimal)),
            hbm_mib=fact("hbm", partial(printed.value, "memory", _HBM, _decimal)),
            ddr_mib=fact("memory", partial(printed.value, "memory", _DDR, _decimal)),
            bus_id=fact("bus id", partial(printed.value, "board", ("pcie bus info",), _bus_id)),
            templates=(),  # the tool cannot make what is asked for and say which it is
        )


class _Printed:
    """What the tool prints about a chip now; it is run once for each topic at most."""

    def __init__(self, run: Run, row: Row):
        self._run = run
        self._of = ["-i", str(row.card), "-c", str(row.chip)]
        self._fields: dict[str, dict[str, str] | Unread] = {}

    def value(self, topic: str, names: Sequence[str], of: Callable[[str], T | None]) -> Answer[T]:
        """The value of the first of these fields that is printed; ``LACKS`` if the tool prints none of them.

        Args:
            of: the value of a text; None if it is none: the tool prints ``NA`` for what it does not know.
        """
        if topic not in self._fields:
            self._fields[topic] = self._asked(topic)
        printed = self._fields[topic]
        if isinstance(printed, Unread):
            return printed
        name = next((name for name in names if name in printed), None)
        if name is None:
            return LACKS
        value = of(printed[name])
        return Unread(f"{self._line(topic)}: {name} is {printed[name]!r}") if value is None else value

    def _asked(self, topic: str) -> dict[str, str] | Unread:
        text = printed_by(self._run, self._arguments(topic))
        if isinstance(text, Unread):
            return text
        printed, needed = fields(text), _NEEDED[topic]
        if not any(name in printed for name in needed):
            return Unread(f"{self._line(topic)}: prints none of the fields {', '.join(needed)}")
        return printed

    def _arguments(self, topic: str) -> list[str]:
        return ["info", "-t", topic, *self._of]

    def _line(self, topic: str) -> str:
        return f"npu-smi {' '.join(self._arguments(topic))}"


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


def _identity(text: str) -> str | None:
    words = text.split()
    if not words or not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", word) for word in words):
        return None
    return "-".join(word.upper().zfill(8) for word in words)


def _text(text: str) -> str | None:
    return None if text in ("", "NA") else text


def _hexadecimal(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"0[xX][0-9a-fA-F]+", text) else None


def _decimal(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _bus_id(text: str) -> str | None:
    return text.lower() if re.fullmatch(r"[0-9a-fA-F]{4,}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", text) else None
