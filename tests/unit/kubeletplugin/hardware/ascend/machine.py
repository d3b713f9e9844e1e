"""A machine with Ascend chips, around the fake library."""

from collections.abc import Collection, Mapping
from pathlib import Path

from driver.kinds import Severity
from driver.observe import logger
from kubeletplugin.hardware.ascend.backend import AscendHardware, Host
from kubeletplugin.hardware.ascend.dcmi import Dcmi
from kubeletplugin.hardware.ascend.faults import DEFAULT_LEVELS, Severities
from kubeletplugin.hardware.ascend.npusmi import Run
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.edits import DeviceNode
from tests.fakes.dcmi import FakeDcmi
from tests.fakes.dcmi.models import Model
from tests.fakes.erring_files import ErringSysfs, raise_for
from tests.fakes.state import MemoryState
from tests.fakes.sysfs_tree import add_function
from tests.simulation.clock import VirtualClock

MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc", "dvpp_cmdlist")


class FakeDeviceFiles(DeviceFiles):
    """The device files that the drivers of the fake libraries make.

    Calls are ``device``, about a name, and ``devices``; they err as those of ``ErringSysfs``.
    """

    def __init__(self, fake: FakeDcmi):
        super().__init__()
        self.state = MemoryState()
        self._fake = fake
        self.missing: set[str] = set()
        self.more: set[str] = set()

    def find(self, name: str, as_name: str = "") -> DeviceNode | None:
        how = self.state.called("device", name)
        if how == "ENOENT" or name not in self._names():
            return None
        raise_for(how, f"/dev/{name}")
        return DeviceNode(f"/dev/{as_name or name}", f"/dev/{name}", 236, sum(name.encode()))

    def numbers(self, prefix: str) -> tuple[int, ...]:
        raise_for(self.state.called("devices"), "/dev")
        digits = (name.removeprefix(prefix) for name in self._names() if name.startswith(prefix))
        return tuple(sorted(int(each) for each in digits if each.isdecimal()))

    def _names(self) -> set[str]:
        state = self._fake.state()
        chips = {f"davinci{value}" for key, value in state.items() if key.endswith(".physical")}
        vnpus = {f"vdavinci{key.rpartition('.')[2]}" for key in state if ".vdev." in key}
        return {*chips, *vnpus, *MANAGERS, *self.more} - self.missing


class Machine:
    """The fake library, sysfs, device files and the driver's files below ``root``."""

    def __init__(self, root: Path):
        self.root = root
        self.dcmi = FakeDcmi(root / "dcmi")
        self.files = FakeDeviceFiles(self.dcmi)
        self.sysfs = ErringSysfs(str(root / "sys"), self.files.state)
        self.clock = VirtualClock()

    def add(self, model: Model, **changes: str | int | None) -> list[int]:
        """Add a card, in a slot of its own; see ``FakeDcmi.add``."""
        numbers = self.dcmi.add(model, **changes)
        for number in numbers:
            bus_id = self.dcmi.state().get(f"chip.{number}.pci")
            if bus_id:
                add_function(self.root / "sys", f"pci0000:{0x80 + number:02x}", bus_id, numa_node=number // 8)
        return numbers

    def has(self, *paths: str) -> None:
        """The host has these files of the driver."""
        for path in paths:
            file = self.root / "host" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")

    def start(
        self,
        without: Collection[str] = (),
        run: Run | None = None,
        levels: Mapping[str, Severity] = DEFAULT_LEVELS,
        codes: Mapping[str, Severity] | None = None,
        library: str = "",
        ask: Ask = call_directly,
    ) -> AscendHardware:
        """A new instance of the backend, with a driver that lacks some functions."""
        return AscendHardware(
            Dcmi(library or str(self.dcmi.library(without))),
            Host(self.sysfs, self.files, self.clock, str(self.root / "host"), run),
            logger("test"),
            Severities(levels, codes or {}),
            ask=ask,
        )
