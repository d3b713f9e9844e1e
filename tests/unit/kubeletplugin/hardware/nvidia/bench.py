"""A node with NVIDIA's cards, as the tests of the backend use it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from driver.observe import logger
from driver.parameters import GpuConfig, NpuConfig
from driver.settings import NvidiaSettings
from kubeletplugin.hardware import Action, Card, Hardware, Readings, Share, Use
from kubeletplugin.hardware.actions import MigInstance
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
from kubeletplugin.hardware.nvidia.backend import MigUse
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.readings import Measure
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.nvml import FakeNvml
from tests.fakes.nvml.machine import FakeMachine
from tests.fakes.nvml.models import H100, Model
from tests.simulation.clock import VirtualClock

GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN = 15, 3, 999
GIB = 1024**3
_AT_WORK = {
    "utilization": 73,
    "memory.used": 4 * GIB,
    "memory.reserved": GIB // 2,
    "temperature": 61,
    "power": 287500,
}
_ASKED: Mapping[Measure, Sequence[str]] = {
    "utilization": ("nvmlDeviceGetUtilizationRates",),
    "memoryUsed": ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
    "temperature": ("nvmlDeviceGetTemperature",),
    "power": ("nvmlDeviceGetPowerUsage",),
}
"""The functions that are asked for a measure."""


class NvidiaBench:
    """``HardwareBench`` of the contract suite, with more that its own tests use."""

    def __init__(
        self,
        folder: Path,
        model: Model = H100,
        cards: int = 4,
        mig: MigUse = "dynamic",
        toolkit: str = "",
        without: Collection[str] = (),
    ):
        self.machine = FakeMachine(folder)
        self.mig: MigUse = mig
        self.toolkit = toolkit
        self.library = FakeNvml.library(without)
        self.clock = VirtualClock()
        self.sysfs = Sysfs("/missing")
        self.root: DriverRoot | None = None
        """The driver's files; None for those of the machine."""
        for _ in range(cards):
            self.machine.add(model)

    @property
    def nvml(self) -> FakeNvml:
        return self.machine.nvml

    def start(self) -> Hardware:
        return self.backend()

    def backend(self, ask: Ask = call_directly) -> Hardware:
        machine = self.machine
        node = NvidiaNode(
            host=machine.root,
            root=self.root or machine.root,
            unit_prefix="lode.dev",
            settings=NvidiaSettings(run_folder=machine.run, nvidia_ctk=self.toolkit, mig=self.mig),
            proc=machine.proc,
            sys=self.sysfs,
            nvml=str(self.library),
        )
        return nvidia_hardware(node, machine.commands, logger("test"), self.clock, ask)

    def uses(self) -> Sequence[Use]:
        first, second, *others = self.start().cards()
        share, together = Share("a", 1024, 10), tuple(card.uuid for card in others)
        uses = [
            Use("mps", second, share=share, config=GpuConfig(sharing="mps")),
            Use("slices", others[0], share=share, config=GpuConfig(sharing="timeSlicing", interval="long")),
            Use("hami", others[1], share=share, config=GpuConfig(sharing="hamiCore"), cards_of_request=together),
        ]
        if first.scheme and not self.machine.nvml.state().get("gpu.0.mig.reset"):
            parts = first.scheme.partitions
            smallest = [part for part in parts if part.profile == parts[0].profile]
            uses = [Use("mine", first, smallest[0]), Use("yours", first, smallest[1]), *uses]
        return uses

    def unsupported(self) -> Use:
        return Use("claim", self.start().cards()[0], config=NpuConfig())

    def occupy(self, action: Action) -> None:
        self.nvml.change({f"{self._instance(action)}.ci.0.busy": 1})

    def vacate(self, action: Action) -> None:
        self.nvml.change({f"{self._instance(action)}.ci.0.busy": None})

    def make_foreign(self, action: Action) -> None:
        assert isinstance(action, MigInstance)
        index, profile = self._card(action.card), self._profile(action)
        self.nvml.change({f"gpu.{index}.mig": "1 1", f"gpu.{index}.gi.9": profile, f"gpu.{index}.gi.9.ci.0": 0})

    def reboot(self) -> None:
        self.machine.reboot()

    def lose(self, card: Card) -> None:
        self.nvml.change({f"gpu.{self._card(card.uuid)}.fault": GPU_IS_LOST})

    def work(self, card: Card) -> Readings:
        index = self._card(card.uuid)
        self.nvml.change({f"gpu.{index}.{name}": value for name, value in _AT_WORK.items()})
        busy = self.nvml.state().get(f"gpu.{index}.mig", "0").startswith("1")
        values: dict[Measure, float] = {"utilization": 0.73, "memoryUsed": 3.5 * GIB, "temperature": 61, "power": 287.5}
        return Readings({name: value for name, value in values.items() if not (busy and name == "utilization")})

    def mute(self, card: Card, measure: Measure, code: int) -> None:
        index = self._card(card.uuid)
        self.nvml.change({f"gpu.{index}.fault.{name}": code or None for name in _ASKED[measure]})

    def codes(self) -> tuple[int, int]:
        return NOT_SUPPORTED, UNKNOWN

    def _card(self, uuid: str) -> int:
        state = self.nvml.state()
        return next(index for index in range(int(state["gpus"])) if state[f"gpu.{index}.uuid"] == uuid)

    def _profile(self, action: MigInstance) -> str:
        state, prefix = self.nvml.state(), f"gpu.{self._card(action.card)}.profile."
        key = next(k for k, value in state.items() if k.startswith(prefix) and value == f"MIG {action.profile}")
        fields = state[key.removesuffix(".name")].split()
        return f"{fields[0]} {action.start} {fields[10]}"

    def _instance(self, action: Action) -> str:
        assert isinstance(action, MigInstance)
        prefix, wanted = f"gpu.{self._card(action.card)}.gi.", self._profile(action)
        return next(key for key, value in self.nvml.state().items() if key.startswith(prefix) and value == wanted)
