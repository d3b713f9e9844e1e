"""Finds the chips of the node with ``npu-smi``, where DCMI cannot be loaded. Whole cards only: no vNPUs, no health."""

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence

from driver.errors import TransientFault
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.facts import Chip

ANSWER_SECONDS = 4.0
"""Longest time of the tool."""

Run = Callable[[Sequence[str]], str]
"""Runs the tool with arguments and returns its output; may raise OSError or subprocess.SubprocessError."""


def runner(path: str) -> Run:
    """A ``Run`` of the tool at ``path``."""

    def run(arguments: Sequence[str]) -> str:
        command = [path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
        return done.stdout

    return run


def find(run: Run) -> Node:
    """The chips that the tool lists. One that cannot be read is reported, and the others are found.

    Raises:
        TransientFault: the tool fails.
    """
    try:
        rows = list(mapped(run(["info", "-m"])))
    except (OSError, subprocess.SubprocessError) as error:
        raise TransientFault(f"npu-smi info -m: {error}") from error
    chips, faults, version = [], [], ""
    for card, device, name in rows:
        where = ["-i", str(card), "-c", str(device)]
        try:
            board = fields(run(["info", "-t", "board", *where]))
            memory = fields(run(["info", "-t", "memory", *where]))
            chips.append(_chip(card, device, name, board, memory))
            version = version or board.get("software version", "")
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            faults.append(f"card {card}, chip {device}: npu-smi: {error!r}")
    counts = {card: sum(other == card for other, _, _ in rows) for card, _, _ in rows}
    return Node(tuple(chips), counts, version, False, tuple(faults))


def mapped(text: str) -> Iterator[tuple[int, int, str]]:
    """Card, chip and name of every NPU in the table of ``npu-smi info -m``; rows of MCUs have no logic id."""
    for line in text.splitlines():
        row = re.match(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(?:\d+\s+)?(\S.*?)\s*$", line)
        if row:
            yield int(row[1]), int(row[2]), row[4]


def fields(text: str) -> dict[str, str]:
    """The ``name : value`` lines of an answer, by name in lower case."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _chip(card: int, device: int, name: str, board: dict[str, str], memory: dict[str, str]) -> Chip:
    sizes = [int(size) for label, size in memory.items() if "capacity" in label and size.isdecimal()]
    identity = board["vdie id"].split()
    return Chip(
        card,
        device,
        int(board["chip phy id"]),
        "-".join(part.upper().zfill(8) for part in identity),
        board.get("chip name", name).removeprefix("Ascend").strip() or name,
        memory_mib=max(sizes, default=0),
        bus_id=board.get("pcie bus info", "").lower(),
        templates=(),
    )
