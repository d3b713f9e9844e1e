"""The simulated backend does what every backend must."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from driver.parameters import GpuConfig, NpuConfig
from kubeletplugin.hardware import Action, Card, Hardware, Readings, Share, Use
from kubeletplugin.hardware.actions import action_to
from kubeletplugin.hardware.simulated import FileStore, MemoryStore, SimulatedHardware, load_profile
from kubeletplugin.hardware.simulated.state import StateStore
from tests.simulation.files import MemoryFiles
from tests.unit.kubeletplugin.hardware.contract import ChosenIdContract, HardwareContract, MigModeContract


class SimulatedBench:
    def __init__(self, profile: str, *, in_memory: bool):
        self.files = MemoryFiles()
        self.profile = load_profile(profile, self.files)
        self.boots = 1
        self.memory = MemoryStore() if in_memory else None

    def start(self) -> Hardware:
        return SimulatedHardware(self.profile, "n1", store=self.store())

    def store(self) -> StateStore:
        return self.memory or FileStore(self.files, "/state/hardware.json", f"boot-{self.boots}")

    def uses(self) -> Sequence[Use]:
        first, *rest = self.start().cards()
        uses = []
        if first.scheme:
            parts = first.scheme.partitions
            smallest = [part for part in parts if part.profile == parts[0].profile]
            uses += [Use("mine", first, smallest[0]), Use("yours", first, smallest[1])]
        if first.unit == "npu" or not first.memory_mib:
            return uses or [Use(f"claim-{card.index}", card) for card in (first, *rest)]
        second, *others = rest
        share, cards = Share("a", 1024, 10), tuple(card.uuid for card in others)
        sharing = [GpuConfig(sharing="mps"), GpuConfig(sharing="timeSlicing", interval="long")]
        uses += [Use("mps", second, share=share, config=sharing[0])]
        if others:
            uses += [Use("slices", others[0], share=share, config=sharing[1])]
            uses += [Use("hami", others[1], share=share, config=GpuConfig(sharing="hamiCore"), cards_of_request=cards)]
        return uses

    def unsupported(self) -> Use:
        card = self.start().cards()[0]
        return Use("claim", card, config=NpuConfig() if card.unit == "gpu" else GpuConfig(sharing="mps"))

    def occupy(self, action: Action) -> None:
        state = self.store().load()
        self.store().save(replace(state, in_use=state.in_use | {action.key}))

    def vacate(self, action: Action) -> None:
        state = self.store().load()
        self.store().save(replace(state, in_use=state.in_use - {action.key}))

    def make_foreign(self, action: Action) -> None:
        self.store().save(self.store().load().with_action(action, {"uuid": f"foreign {action_to(action)}"}))

    def reboot(self) -> None:
        self.boots += 1
        if self.memory:
            self.memory.save(self.memory.load().rebooted())

    def lose(self, card: Card) -> None:
        state = self.store().load()
        self.store().save(replace(state, lost=state.lost | {card.uuid}))

    def work(self, card: Card) -> Readings:
        return Readings(self.profile.readings[card.name])


@pytest.fixture(params=[True, False], ids=["in memory", "in a file"])
def bench(request: pytest.FixtureRequest, profile: str) -> SimulatedBench:
    return SimulatedBench(profile, in_memory=request.param)


@pytest.mark.parametrize("profile", ["a100x4", "h100x8", "b200x8", "gb200x4", "rtx-pro-6000x2", "dgx-station-a100"])
class TestGpus(HardwareContract, MigModeContract):
    pass


@pytest.mark.parametrize("profile", ["ascend310px4", "ascend910bx8", "atlas-300i-duo"])
class TestNpus(HardwareContract, ChosenIdContract):
    pass


@pytest.mark.parametrize(
    "profile", ["t4x2", "l40sx2", "v100x8", "gb300x4", "b300x8", "ascend910cx8", "ascend950x8", "gb10"]
)
class TestCardsThatCannotBeDivided(HardwareContract):
    pass
