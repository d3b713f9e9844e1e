"""Time slicing: the driver lets the processes on a card take turns.

It divides time only. A container can use all memory of the card: only the allocator counts the amounts of a share.
"""

from collections.abc import Mapping

from driver.errors import TransientFault
from driver.parameters import Interval
from kubeletplugin.hardware.actions import TimeSlice
from kubeletplugin.hardware.nvidia.commands import Commands
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.nvidia.runfolder import RunFolder
from kubeletplugin.hardware.port import FoundObject

_NUMBERS: Mapping[Interval, int] = {"default": 0, "short": 1, "medium": 2, "long": 3}
"""``nvidia-smi compute-policy --set-timeslice``; NVML has no such function."""
_FOLDER = "timeslice"


class TimeSlices:
    """The time slices that this program has set. The driver does not report them, so a file for each card keeps
    them."""

    def __init__(self, root: DriverRoot, commands: Commands, run: RunFolder):
        self._root = root
        self._commands = commands
        self._run = run

    def found(self, card: str) -> tuple[FoundObject, ...]:
        """The time slice of a card, if this program has set it."""
        text = self._run.read(_FOLDER, card)
        return tuple(FoundObject(TimeSlice(card, interval)) for interval in _NUMBERS if interval == text)

    def ensure(self, action: TimeSlice) -> None:
        """Set the time slice. The file is written first, so that a killed program leaves no time slice without a
        file."""
        self._run.write(_FOLDER, action.card, text=action.interval)
        self._set(action.card, action.interval)

    def release(self, action: TimeSlice) -> None:
        """Restore the driver's default time slice."""
        if self.found(action.card):
            self._set(action.card, "default")
            self._run.remove(_FOLDER, action.card)

    def _set(self, card: str, interval: Interval) -> None:
        program, library = self._root.binary("nvidia-smi"), self._root.library("libnvidia-ml.so.1")
        if program is None:
            raise TransientFault(f"no nvidia-smi below {self._root.on_host('/')}; set kubeletplugin.nvidia.driverRoot")
        command = [str(self._root.found(program)), "compute-policy", "-i", card]
        environment = {"LD_PRELOAD": str(self._root.found(library))} if library else {}
        self._commands.run([*command, f"--set-timeslice={_NUMBERS[interval]}"], environment)
