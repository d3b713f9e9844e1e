"""Devices of device plugins pass the contract of every backend."""

from collections.abc import Sequence

import pytest

from driver.deviceplugins import DevicePluginSettings
from driver.observe import logger
from driver.parameters import GpuConfig
from kubeletplugin.hardware import Action, Card, Hardware, Readings, Share, Use
from kubeletplugin.hardware.actions import PluginAllocation
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
from kubeletplugin.hardware.deviceplugin.registry import KEPT_SECONDS, Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.hardware.place import Place
from tests.fakes.deviceplugin.host_tree import FakeHostTree
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.unit.kubeletplugin.hardware.contract import HardwareContract
from tests.unit.kubeletplugin.hardware.deviceplugin.fakes import FakePlugins

PLAIN, SHARED = "amd.com/gpu", "nvidia.com/gpu.shared"


class BridgeBench:
    def __init__(self) -> None:
        self.files, self.clock, self.boots = MemoryFiles(), VirtualClock(), 1
        self.lists = {
            PLAIN: [Reported(f"0000:{bus}:00.0") for bus in ("18", "19", "af")],
            SHARED: [Reported(f"{name}::{number}") for name in ("0000:c1:00.0", "0000:c2:00.0") for number in range(4)],
        }
        self.plugins: list[FakePlugins] = []

    def start(self) -> Hardware:
        record = BootFile(self.files, "/state/known.json", f"boot-{self.boots}", Known, logger("test"))
        facts = LabelledNode({}, lambda address: Place(("pci0000:15",), 1))
        registry = Registry(DevicePluginSettings(), record, lambda: facts, self.clock, logger("test"))
        plugins = FakePlugins(registry, self.lists)
        self.plugins.append(plugins)
        kept = KeptAnswers(self.files, "/state/answers", f"boot-{self.boots}")
        return DevicePluginHardware(plugins, registry, kept, FakeHostTree(["/dev/amd"]))

    def uses(self) -> Sequence[Use]:
        cards = {card.uuid: card for card in self.start().cards()}
        plain = [card for card in cards.values() if card.bridged and card.bridged.resource == PLAIN]
        shared = next(card for card in cards.values() if card.bridged and card.bridged.is_shared)
        two = (plain[0].uuid, plain[1].uuid)
        return [
            Use("two", plain[0], cards_of_request=two, cards_of_claim=two),
            Use("one", plain[2], cards_of_claim=(plain[2].uuid,)),
            Use("share", shared, share=Share("a", 0, 0), cards_of_claim=(shared.uuid,)),
            Use("share of two slots", shared, share=Share("b", 0, 0), cards_of_claim=(shared.uuid, shared.uuid)),
        ]

    def unsupported(self) -> Use:
        return Use("claim", self.start().cards()[0], config=GpuConfig(sharing="mps"))

    def occupy(self, action: Action) -> None:
        raise NotImplementedError

    def vacate(self, action: Action) -> None:
        raise NotImplementedError

    def make_foreign(self, action: Action) -> None:
        raise NotImplementedError

    def work(self, card: Card) -> Readings:
        return Readings()

    def reboot(self) -> None:
        self.boots += 1

    def lose(self, card: Card) -> None:
        assert card.bridged
        listed = self.lists[card.bridged.resource]
        self.lists[card.bridged.resource] = [each for each in listed if each.id not in card.bridged.ids]
        for plugins in self.plugins:
            plugins.list_again()


@pytest.fixture
def bench() -> BridgeBench:
    return BridgeBench()


class TestBridged(HardwareContract):
    pass


def test_one_question_has_all_devices_of_a_claim(bench: BridgeBench) -> None:
    hardware = bench.start()
    (two, *_) = bench.uses()
    (action,) = hardware.actions(two, ())
    assert isinstance(action, PluginAllocation)
    assert action.ids == ("0000:18:00.0", "0000:19:00.0")
    hardware.ensure(action)
    hardware.ensure(action)
    bench.start().ensure(action)
    assert [asked for plugins in bench.plugins for asked in plugins.asked] == [(PLAIN, action.ids)]


def test_claims_on_one_card_have_different_replicas(bench: BridgeBench) -> None:
    hardware = bench.start()
    uses = bench.uses()
    (first,) = hardware.actions(uses[2], ())
    (second,) = hardware.actions(uses[3], [first.key])
    assert isinstance(first, PluginAllocation)
    assert isinstance(second, PluginAllocation)
    assert (first.ids, second.ids) == (("0000:c1:00.0::0",), ("0000:c1:00.0::1", "0000:c1:00.0::2"))
    hardware.ensure(second)
    assert bench.start().actions(uses[3], ()) == (second,), "what is kept is found again"


def test_a_device_that_is_gone_stays_as_long_as_a_claim_has_it(bench: BridgeBench) -> None:
    hardware = bench.start()
    use = bench.uses()[1]
    (action,) = hardware.actions(use, ())
    hardware.ensure(action)
    bench.lose(use.card)
    bench.clock.sleep(KEPT_SECONDS)
    for _ in range(2):
        assert not hardware.health()[use.card.name].healthy
        assert use.card.uuid in {card.uuid for card in hardware.cards()}
    hardware.release(action, None)
    assert use.card.uuid not in {card.uuid for card in hardware.cards()}
