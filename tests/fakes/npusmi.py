"""A fake ``npu-smi``: what it prints of chips, and how it errs."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from tests.fakes.state import MemoryState

STATUS, HANGS, MISSING = "status", "hangs", "missing"
"""It ends with an error, does not end in time, or is not there."""
EMPTY, GARBAGE, NOT_AVAILABLE, FEWER = "empty", "garbage", "NA", "fewer"
"""It prints nothing, something else, no values, or not all chips."""
CUTS: Final = ("cut 30", "cut 90", "cut 150", "cut 210", "cut 270")
"""It prints so many characters, or one fewer where a line ends with them."""
_HEADINGS = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name")


def table(rows: Sequence[Sequence[str]]) -> str:
    """As ``npu-smi info -m`` prints it."""
    return "".join("\t" + "".join(f"{value:31}" for value in row).rstrip() + "\n" for row in rows)


def listed(values: Mapping[str, object]) -> str:
    """As ``npu-smi info -t`` prints it."""
    return "".join(f"\t{name:31}: {value}\n" for name, value in values.items())


class FakeTool:
    """``npu-smi`` of a machine.

    A call is counted and errs (``MemoryState``) as the function ``info -m`` or ``info -t <topic>``, and as one about
    ``chip <card>/<chip>``.
    """

    def __init__(self) -> None:
        self.state = MemoryState()
        self.chips: dict[tuple[int, int], tuple[int, str, Mapping[str, Mapping[str, object]]]] = {}
        """Number in ``/dev``, name, and the fields of each topic, by card and chip."""

    def __call__(self, arguments: Sequence[str]) -> str:
        function = " ".join(arguments[: 2 if arguments[1] == "-m" else 3])
        chip = (int(arguments[4]), int(arguments[6])) if function.startswith("info -t") else None
        how = self.state.called(function, f"chip {chip[0]}/{chip[1]}" if chip else "")
        match how:
            case "status":
                raise subprocess.CalledProcessError(255, ["npu-smi", *arguments])
            case "hangs":
                raise subprocess.TimeoutExpired(["npu-smi", *arguments], 4.0)
            case "missing":
                raise FileNotFoundError(2, "No such file or directory", "npu-smi")
            case "empty":
                return ""
            case "garbage":
                return "This device does not support querying.\n"
        if chip is None:
            return _errs(self._table(fewer=how == FEWER), how)
        fields = self.chips[chip][2][arguments[2]]
        values: Mapping[str, object] = dict.fromkeys(fields, "NA") if how == NOT_AVAILABLE else fields
        return _errs(listed({"NPU ID": chip[0], "Chip ID": chip[1], **values}), how)

    def _table(self, *, fewer: bool) -> str:
        rows = [
            (str(card), str(chip), str(number), str(number), name)
            for (card, chip), (number, name, _) in self.chips.items()
        ]
        return table([_HEADINGS, *(rows[:-1] if fewer else rows)])


def _errs(text: str, how: str) -> str:
    if not how.startswith("cut"):
        return text
    return text[: int(how.removeprefix("cut "))].rstrip("\n")
