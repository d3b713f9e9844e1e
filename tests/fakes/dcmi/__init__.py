"""A fake ``libdcmi.so``.

The library's state has, beside what every fake library has (``tests.fakes.state``):

- ``driver``; ``independent`` (the dies of a 910C), ``machines`` (vNPUs are for virtual machines), ``symmetric``;
- ``chip.<2 * card + device>.<name>``: physical, vdie, name, board, aicore, hbm, ddr, used (MiB of these), pci,
  superpod, ``topo.<chip>`` (how it reaches a chip after it), shared, alarm, utilization, temperature, power (tenths of
  a watt), ``total`` (what there is to divide),
  ``reported`` (what it says of that instead), ``template.<n>`` (what the driver lists), ``cut.<n>`` (what it can cut),
  ``vdev.<id>`` ("template used", with "-" for a template that it does not tell), ``event.<n>`` ("code severity name"),
  ``lost``. A missing key is a value that the driver lacks.
- ``dev``: a folder in which the library makes device files of vNPUs (``vdavinci100``), as the driver does. Needs root.

Amounts are AI cores, AI CPUs, MiB, VPC, VDEC, JPEGD, JPEGE and VENC.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.fakes.build import built
from tests.fakes.dcmi.models import Model
from tests.fakes.state import FakeState

LIBRARY = "libdcmi.so"


class FakeDcmi(FakeState):
    """The state of the fake library, in a file of its own."""

    def __init__(self, path: Path, driver: str = "25.2.0"):
        super().__init__(path)
        self.change({"driver": driver})

    @staticmethod
    def library(without: Collection[str] = ()) -> Path:
        """The compiled library, without some of its functions."""
        return built(Path(__file__).parent, LIBRARY, without)

    def add(self, model: Model, **changes: str | int | None) -> list[int]:
        """Add a card with all its chips; returns their numbers in the state's keys.

        ``changes`` replace keys of the chips, with ``_`` for a dot; None is a key that the driver lacks.
        """
        present = [int(name.split(".")[1]) for name in self.state() if name.endswith(".physical")]
        card = max((number // 2 for number in present), default=-1) + 1
        numbers = [2 * card + device for device in range(model.chips)]
        for number in numbers:
            self._add(number, len(present) + number % 2, model, changes)
        return numbers

    def vnpus(self, chip: int) -> dict[int, str]:
        """The templates of the vNPUs of a chip, by id."""
        return vnpus(self.state(), chip)

    def _add(self, number: int, physical: int, model: Model, changes: dict[str, str | int | None]) -> None:
        own: dict[str, str | int | None] = {
            "physical": physical,
            "vdie": f"A1B2C3D4-20A00E23-15380A14-CC0300A4-{number:08X}",
            "name": model.name,
            "board": model.board,
            "aicore": model.aicore,
            "pci": f"{number // 128:04x}:{0x81 + number % 64:02x}:00.0",
            model.memory_kind: model.memory_mib,
            "shared": 1,
            "alarm": 0,
            "total": _line(model.total) if model.total else None,
            **{f"template.{at}": f"{name} {_line(row)}" for at, (name, row) in enumerate(model.templates)},
            **{f"cut.{at}": f"{name} {_line(row)}" for at, (name, row) in enumerate(model.cuts or model.templates)},
            **{name.replace("_", "."): value for name, value in changes.items()},
        }
        self.change({f"chip.{number}.{name}": value for name, value in own.items() if value is not None})


def _line(amounts: Sequence[int]) -> str:
    return " ".join(map(str, amounts))


def vnpus(state: Mapping[str, str], chip: int) -> dict[int, str]:
    """The templates of the vNPUs of a chip, by id."""
    prefix = f"chip.{chip}.vdev."
    return {int(key.removeprefix(prefix)): value.split()[0] for key, value in state.items() if key.startswith(prefix)}
