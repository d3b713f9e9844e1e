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
from simulation.clock import VirtualClock
from tests.fakes import dcmi, nvml
from tests.fakes.dcmi import models as dcmi_models
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910B3, ASCEND_910C
from tests.fakes.nvml import models as nvml_models
from tests.fakes.nvml.models import A100, H100
from tests.fakes.state import FakeState
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

Existing = Mapping[str, str]
"""What exists on the cards: which one it is, by the key of the action that makes it."""


class VendorMachine(ABC):
    """One machine. Everything of it is in a folder, and outlives the programs that use it."""

    codes: ClassVar[Sequence[int]]
    """Errors that can pass: none says that the driver lacks something."""
    meant: ClassVar[Collection[tuple[str, int]]] = frozenset()
    """The functions, each with such an error that is a fact where this function says it."""
    changing: ClassVar[Sequence[str]]
    """The functions that make and remove what claims have."""
    strategies: ClassVar[Sequence[str]] = ("",)
    """How containers can share a card; "" is without a strategy."""

    @property
    @abstractmethod
    def fake(self) -> FakeState:
        """The state of the library."""

    @abstractmethod
    def start(self, clock: VirtualClock) -> Hardware:
        """A new instance of the backend."""

    @abstractmethod
    def existing(self) -> Existing:
        """What exists on the cards, whoever made it."""

    def uuids(self) -> Sequence[str]:
        """What a device plugin of the vendor calls its devices; () if not by the uuids of the cards."""
        return ()

    @abstractmethod
    def cards(self) -> Sequence[str]:
        """What the state's keys of each card begin with."""

    @abstractmethod
    def reboot(self) -> None:
        """Start the machine again."""

    @abstractmethod
    def fail(self) -> str:
        """Let the first card fail for good, without a call that errs; returns its name."""


@dataclass
class NvidiaMachine(VendorMachine):
    """Two cards of NVIDIA's, and NVML."""

    bench: NvidiaBench
    codes = (999, 999, 999, 4, 10, 16, 20, 15, 1, 18)
    meant = frozenset({("nvmlDeviceSetMigMode", 16)})
    changing = (
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
    strategies = ("", "", "timeSlicing", "mps", "hamiCore")

    @property
    def fake(self) -> FakeState:
        """See ``VendorMachine``."""
        return self.bench.nvml

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

    def cards(self) -> Sequence[str]:
        """See ``VendorMachine``."""
        return [f"gpu.{card}" for card in range(int(self.fake.state()["gpus"]))]

    def uuids(self) -> Sequence[str]:
        """See ``VendorMachine``."""
        state = self.fake.state()
        return [state[f"{card}.uuid"] for card in self.cards()]

    def reboot(self) -> None:
        """See ``VendorMachine``."""
        self.bench.reboot()

    def fail(self) -> str:
        """See ``VendorMachine``."""
        self.fake.change({"gpu.0.field.230": None, "event.1": f"0 8 79 {2**32 - 1} {2**32 - 1}"})
        return "gpu-0"


@dataclass
class AscendMachine(VendorMachine):
    """Ascend's chips, and DCMI."""

    machine: Machine
    codes = (-8006, -8006, -8003, -8005, -8010, -8011, -8002, -8012)
    changing = ("dcmi_create_vdevice", "dcmi_set_destroy_vdevice", "dcmi_get_device_info", "dcmi_get_device_info")

    @property
    def fake(self) -> FakeState:
        """See ``VendorMachine``."""
        return self.machine.dcmi

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

    def cards(self) -> Sequence[str]:
        """See ``VendorMachine``."""
        return [f"chip.{chip}" for chip in self._chips()]

    def reboot(self) -> None:
        """See ``VendorMachine``; vNPUs stay."""

    def fail(self) -> str:
        """See ``VendorMachine``."""
        self.fake.change({"chip.0.event.1": "0x80CD8008 3 a fault"})
        return "npu-0"

    def _chips(self) -> Sequence[int]:
        return sorted(int(key.split(".")[1]) for key in self.fake.state() if key.endswith(".physical"))


def _nvidia(folder: Path, mig: MigUse, model: nvml_models.Model, **state: str | int) -> NvidiaMachine:
    bench = NvidiaBench(folder, model, 0, mig)
    for card in range(2):
        bench.machine.add(model, uuid=f"GPU-00000000-0000-4000-8000-00000000000{card}")
    bench.nvml.change({key.replace("_", "."): value for key, value in state.items()})
    return NvidiaMachine(bench)


def _ascend(folder: Path, model: dcmi_models.Model, cards: int = 2, **state: str | int) -> AscendMachine:
    machine = Machine(folder)
    for _ in range(cards):
        machine.add(model)
    machine.dcmi.change({key.replace("_", "."): value for key, value in state.items()})
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
