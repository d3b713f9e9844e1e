"""Nodes with the vendors' libraries, as histories use them: fakes in C (``tests/fakes``), behind the real backends."""

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.actions import HamiRegion, MigInstance, MigMode, MpsDaemon, TimeSlice, VnpuInstance
from kubeletplugin.hardware.nvidia.backend import MigUse
from tests.fakes import dcmi, nvml
from tests.fakes.dcmi import models as dcmi_models
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910B3, ASCEND_910C
from tests.fakes.erring_files import ErringRoot, ErringSysfs
from tests.fakes.npusmi import CUTS, EMPTY, FEWER, GARBAGE, HANGS, MISSING, NOT_AVAILABLE, STATUS, FakeTool
from tests.fakes.nvml import models as nvml_models
from tests.fakes.nvml.models import A100, H100
from tests.fakes.state import FakeState
from tests.fakes.sysfs_tree import add_function, add_hca
from tests.simulation.clock import VirtualClock
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

Existing = Mapping[str, str]
"""What exists on the cards: which one it is, by the key of the action that makes it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Something that the backend asks: the vendor's library, its tool, or files."""

    fake: FakeState
    codes: Sequence[int | str]
    """Errors that can pass: none says that there is no such thing."""
    changing: Sequence[str] = ()
    """The functions that err more often: those that make and remove what claims have."""
    meant: Collection[tuple[str, int | str]] = frozenset()
    """The functions, each with such an error that is a fact where this function says it."""
    subjects: Sequence[str] = ()
    """What the state's keys of each card begin with."""


class VendorMachine(ABC):
    """One machine. Everything of it is in a folder, and outlives the programs that use it."""

    strategies: ClassVar[Sequence[str]] = ("",)
    """How containers can share a card; "" is without a strategy."""
    resource: ClassVar[str]
    """The resource of the vendor's device plugin."""

    @property
    @abstractmethod
    def fake(self) -> FakeState:
        """The state of what is asked first, in whose calls the plugin is killed."""

    @property
    @abstractmethod
    def sysfs(self) -> ErringSysfs:
        """The kernel's view of the machine. Its state has the errors of device files, too."""

    @property
    def files(self) -> Asked:
        """The files that are asked beside ``asked``."""
        cards = ["mlx5_0", "mlx5_1", *self.sysfs.names("bus/pci/devices"), *self.device_files()]
        return Asked(self.sysfs.state, _FILE_ERRORS, ("way", "read", "device"), _FILE_FACTS, cards)

    @abstractmethod
    def device_files(self) -> Sequence[str]:
        """The names of the device files of cards."""

    @property
    @abstractmethod
    def asked(self) -> Sequence[Asked]:
        """All that can err, ``fake`` first."""

    @abstractmethod
    def start(self, clock: VirtualClock) -> Hardware:
        """A new instance of the backend."""

    @abstractmethod
    def existing(self) -> Existing:
        """What exists on the cards, whoever made it."""

    @abstractmethod
    def devices(self) -> Mapping[str, str]:
        """What a device plugin of the vendor calls its device of each card, by the card's uuid."""

    @abstractmethod
    def reboot(self) -> None:
        """Start the machine again."""

    @abstractmethod
    def fail(self) -> str:
        """Let the first card fail for good, without a call that errs; returns its name."""


_FILE_ERRORS = ("ENOENT", "EIO", "EIO", "EACCES", "EMFILE")
_FILE_FACTS = frozenset((question, "ENOENT") for question in ("read", "listed", "is_there", "devices"))
"""What is not there is so."""
_NVML_CODES = (999, 999, 999, 4, 10, 16, 20, 15, 1, 18)
_NVML_MEANT = frozenset({("nvmlDeviceSetMigMode", 16)})
_NVML_CHANGING = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlComputeInstanceDestroy",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstances",
)
_DCMI_CODES = (-8006, -8006, -8003, -8005, -8010, -8011, -8002, -8012)
_DCMI_CHANGING = ("dcmi_create_vdevice", "dcmi_set_destroy_vdevice", "dcmi_get_device_info", "dcmi_get_device_info")


@dataclass
class NvidiaMachine(VendorMachine):
    """Two cards of NVIDIA's, and NVML."""

    bench: NvidiaBench
    erring: ErringSysfs
    strategies = ("", "", "timeSlicing", "mps", "hamiCore")
    resource = "nvidia.com/gpu"

    @property
    def fake(self) -> FakeState:
        """See ``VendorMachine``."""
        return self.bench.nvml

    @property
    def sysfs(self) -> ErringSysfs:
        """See ``VendorMachine``."""
        return self.erring

    def device_files(self) -> Sequence[str]:
        """See ``VendorMachine``."""
        return ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"]

    @property
    def asked(self) -> Sequence[Asked]:
        """See ``VendorMachine``."""
        return Asked(self.fake, _NVML_CODES, _NVML_CHANGING, _NVML_MEANT, self._cards()), self.files

    def start(self, clock: VirtualClock) -> Hardware:
        """See ``VendorMachine``."""
        self.bench.clock = clock
        return self.bench.start()

    def existing(self) -> Existing:
        """See ``VendorMachine``."""
        state, run = self.fake.state(), Path(self.bench.machine.run)
        found: dict[str, str] = {}
        for card in range(int(state["gpus"])):
            uuid = state[f"gpu.{card}.uuid"]
            if state.get(f"gpu.{card}.mig", "0 0") != "0 0":
                found[MigMode(uuid).key] = state[f"gpu.{card}.mig"]
            if state[f"gpu.{card}.computemode"] != "0":
                found[MpsDaemon(uuid).key] = ""
            for number, profile, start in nvml.numbered_instances(state, card):
                found[MigInstance(uuid, profile, start).key] = f"instance {number}"
        found |= {MpsDaemon(each.name).key: "" for each in run.glob("mps/*")}
        found |= {TimeSlice(each.name, "default").key: "" for each in run.glob("timeslice/*")}
        return found | {HamiRegion("", each.name).key: "" for each in run.glob("hami/*/*")}

    def devices(self) -> Mapping[str, str]:
        """See ``VendorMachine``."""
        state = self.fake.state()
        return {(uuid := state[f"{card}.uuid"]): uuid for card in self._cards()}

    def reboot(self) -> None:
        """See ``VendorMachine``."""
        self.bench.reboot()

    def fail(self) -> str:
        """See ``VendorMachine``."""
        self.fake.change({"gpu.0.field.230": None, "event.1": f"0 8 79 {2**32 - 1} {2**32 - 1}"})
        return "gpu-0"

    def _cards(self) -> Sequence[str]:
        return [f"gpu.{card}" for card in range(int(self.fake.state()["gpus"]))]


@dataclass
class AscendMachine(VendorMachine):
    """Ascend's chips, and DCMI."""

    machine: Machine
    resource = "huawei.com/Ascend910"

    @property
    def fake(self) -> FakeState:
        """See ``VendorMachine``."""
        return self.machine.dcmi

    @property
    def asked(self) -> Sequence[Asked]:
        """See ``VendorMachine``."""
        chips = [f"chip.{chip}" for chip in self._chips()]
        return Asked(self.fake, _DCMI_CODES, _DCMI_CHANGING, subjects=chips), self.files

    @property
    def sysfs(self) -> ErringSysfs:
        """See ``VendorMachine``."""
        return self.machine.sysfs

    def device_files(self) -> Sequence[str]:
        """See ``VendorMachine``."""
        return [f"davinci{number}" for number in range(4)]

    def start(self, clock: VirtualClock) -> Hardware:
        """See ``VendorMachine``."""
        self.machine.clock = clock
        return self.machine.start()

    def existing(self) -> Existing:
        """See ``VendorMachine``."""
        state = self.fake.state()
        return {
            VnpuInstance(state[f"chip.{chip}.vdie"], template, number).key: template
            for chip in self._chips()
            for number, template in dcmi.vnpus(state, chip).items()
        }

    def devices(self) -> Mapping[str, str]:
        """See ``VendorMachine``. Of two dies that are given together, the first is that of the card."""
        state = self.fake.state()
        return {
            state[f"chip.{chip}.vdie"]: f"Ascend910-{state[f'chip.{chip}.physical']}"
            for chip in self._chips()
            if chip % 2 == 0
        }

    def reboot(self) -> None:
        """See ``VendorMachine``; vNPUs stay."""

    def fail(self) -> str:
        """See ``VendorMachine``."""
        self.fake.change({"chip.0.event.1": "0x80CD8008 3 a fault"})
        return "npu-0"

    def _chips(self) -> Sequence[int]:
        return sorted(int(key.split(".")[1]) for key in self.fake.state() if key.endswith(".physical"))


@dataclass
class ToolMachine(AscendMachine):
    """Ascend's chips, where DCMI cannot be loaded and ``npu-smi`` is there."""

    tool: FakeTool

    @property
    def fake(self) -> FakeState:
        """See ``VendorMachine``."""
        return self.tool.state

    @property
    def asked(self) -> Sequence[Asked]:
        """See ``VendorMachine``."""
        chips = [f"chip {card}/{chip}" for card, chip in self.tool.chips]
        meant = {(topic, FEWER) for topic in ("info -t board", "info -t memory")} | {("info -m", NOT_AVAILABLE)}
        tool = Asked(self.fake, _TOOL_ERRORS, ("info -m", "info -t board", "info -t memory"), meant, chips)
        return tool, self.files

    def start(self, clock: VirtualClock) -> Hardware:
        """See ``VendorMachine``."""
        self.machine.clock = clock
        return self.machine.start(library="/missing", run=self.tool)

    def existing(self) -> Existing:
        """See ``VendorMachine``."""
        return {}

    def devices(self) -> Mapping[str, str]:
        """See ``VendorMachine``."""
        return {
            str(fields["board"]["VDie ID"]).replace(" ", "-"): f"Ascend910-{number}"
            for (_, chip), (number, name, fields) in self.tool.chips.items()
            if chip == 0 or name != _PAIRED
        }

    def fail(self) -> str:
        """See ``VendorMachine``. Nothing watches the chips, and what is seen is that the first is gone."""
        (number, _, _) = self.tool.chips.pop(min(self.tool.chips))
        self.machine.files.more.remove(f"davinci{number}")
        return "npu-0"


_PAIRED = "Ascend910"
"""The name of a chip of which two are one card."""
_HBM = {"HBM Capacity(MB)": 65536}
_TOOL_ERRORS = (STATUS, HANGS, MISSING, EMPTY, GARBAGE, NOT_AVAILABLE, FEWER, *CUTS)


def _tool(folder: Path, name: str, board: int, chips: int, memory: Mapping[str, int]) -> ToolMachine:
    """A machine with two cards of so many chips each."""
    machine, tool = Machine(folder), FakeTool()
    for number in range(2 * chips):
        card, chip = divmod(number, chips)
        bus_id = f"0000:{0x81 + number:02x}:00.0"
        fields = {
            "Software Version": "25.2.0",
            "Board ID": f"{board:#x}",
            "PCIe Bus Info": bus_id.upper(),
            "Chip Name": name,
            "VDie ID": f"A1B2C3D4 20A00E23 15380A14 CC0300A4 0000000{number}",
        }
        tool.chips[card, chip] = (
            number,
            name if name == _PAIRED else f"Ascend {name}",
            {"board": fields, "memory": memory},
        )
        machine.files.more.add(f"davinci{number}")
        add_function(folder / "sys", f"pci0000:{0x80 + number:02x}", bus_id, numa_node=card)
    _add_fabric(folder)
    return ToolMachine(machine, tool)


def _nvidia(folder: Path, mig: MigUse, model: nvml_models.Model, **state: str | int) -> NvidiaMachine:
    bench = NvidiaBench(folder, model, 0, mig)
    for card in range(2):
        bench.machine.add(model, uuid=f"GPU-00000000-0000-4000-8000-00000000000{card}")
    bench.nvml.change({key.replace("_", "."): value for key, value in state.items()})
    for card in range(2):
        bus_id = bench.nvml.state()[f"gpu.{card}.pci"].lower()
        add_function(folder / "sys", f"pci0000:{0x80 + card:02x}", bus_id, numa_node=card)
    _add_fabric(folder)
    sysfs = bench.sysfs = ErringSysfs(str(folder / "sys"))
    bench.root = ErringRoot(bench.machine.host, sysfs.state)
    return NvidiaMachine(bench, sysfs)


def _add_fabric(folder: Path) -> None:
    """An HCA beside the first two cards each."""
    for number in range(2):
        add_hca(folder / "sys", f"mlx5_{number}", f"pci0000:{0x80 + number:02x}", f"0000:{0xF0 + number:02x}:00.0")


def _ascend(folder: Path, model: dcmi_models.Model, cards: int = 2, **state: str | int) -> AscendMachine:
    machine = Machine(folder)
    for _ in range(cards):
        machine.add(model)
    machine.dcmi.change({key.replace("_", "."): value for key, value in state.items()})
    _add_fabric(folder)
    return AscendMachine(machine)


_OPERATORS: Mapping[str, str | int] = {"gpu_1_mig": "1 1", "gpu_1_gi_5": "9 4 4", "gpu_1_gi_5_ci_0": 2}
"""MIG mode that the operator has turned on, and an instance that the operator made."""
MACHINES: Mapping[str, Callable[[Path], VendorMachine]] = {
    "H100": lambda folder: _nvidia(folder, "dynamic", H100),
    "H100 with an operator's instance": lambda folder: _nvidia(folder, "dynamic", H100, **_OPERATORS),
    "H100, static": lambda folder: _nvidia(folder, "static", H100, **_OPERATORS),
    "A100, one in MIG mode": lambda folder: _nvidia(folder, "dynamic", A100, gpu_1_mig="1 1"),
    "310P3": lambda folder: _ascend(folder, ASCEND_310P3),
    "310P3 with an operator's vNPU": lambda folder: _ascend(folder, ASCEND_310P3, chip_2_vdev_118="vir02 0"),
    "910B3": lambda folder: _ascend(folder, ASCEND_910B3),
    "910C": lambda folder: _ascend(folder, ASCEND_910C),
    "310P3, npu-smi": lambda folder: _tool(folder, "310P3", 0x64, 2, {"DDR Capacity(MB)": 21527}),
    "910B3, npu-smi": lambda folder: _tool(
        folder, "910B3", 0x30, 1, {"DDR Capacity(MB)": 0, "HBM Capacity(MB)": 65536}
    ),
    "910C, npu-smi": lambda folder: _tool(folder, _PAIRED, 0xB3, 2, _HBM),
}
"""Every machine, by what it has."""


def machine_of(seed: random.Random, folder: Path) -> tuple[str, VendorMachine]:
    """A machine, and what it has."""
    name = seed.choice(list(MACHINES))
    return name, MACHINES[name](folder)


@contextmanager
def fakes_folder() -> Iterator[Path]:
    """An empty folder, in memory where that is possible, of which the fakes know."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        before = {variable: os.environ.get(variable) for variable in ("FAKE_NVML", "FAKE_DCMI")}
        os.environ |= {"FAKE_NVML": f"{name}/nvml", "FAKE_DCMI": f"{name}/dcmi"}
        try:
            yield Path(name)
        finally:
            for variable, value in before.items():
                if value is None:
                    del os.environ[variable]
                else:
                    os.environ[variable] = value
