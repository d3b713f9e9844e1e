"""A node is served by the backends of the hardware that it has."""

import pytest

from driver.errors import OperatorFault
from kubeletplugin.hardware import Card, CardGone, CardSource, Hardware, Use
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware, chosen
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from tests.simulation.files import MemoryFiles


class Node:
    """A node that may have GPUs and NPUs."""

    def __init__(self, *present: str):
        self.present = set(present)
        self.made: list[str] = []

    def choices(self) -> list[BackendChoice]:
        return [self._choice("gpus", "t4x2"), self._choice("npus", "ascend310px4")]

    def _choice(self, name: str, profile: str) -> BackendChoice:
        def make() -> Hardware:
            self.made.append(name)
            return SimulatedHardware(load_profile(profile, MemoryFiles()), "n1")

        return BackendChoice(name, lambda: name in self.present, make)


def names(source: CardSource) -> list[str]:
    return [card.name for card in source.cards()]


@pytest.mark.parametrize(
    ("present", "cards"),
    [
        ([], []),
        (["gpus"], ["gpu-0", "gpu-1"]),
        (["npus"], ["npu-0", "npu-1", "npu-2", "npu-3"]),
        (["npus", "gpus"], ["gpu-0", "gpu-1", "npu-0", "npu-1", "npu-2", "npu-3"]),
    ],
)
def test_whatever_hardware_the_node_has_is_found(present: list[str], cards: list[str]) -> None:
    node = Node(*present)
    hardware = CombinedHardware(node.choices())
    assert names(hardware) == cards
    assert sorted(hardware.health()) == cards
    assert sorted(node.made) == sorted(present)


def test_a_node_without_cards_makes_no_backend() -> None:
    node = Node()
    hardware = CombinedHardware(node.choices())
    for _ in range(3):
        assert (hardware.cards(), hardware.health()) == ((), {})
    assert node.made == []


def test_hardware_that_comes_later_is_found_then() -> None:
    node = Node("gpus")
    hardware = CombinedHardware(node.choices())
    assert len(hardware.cards()) == 2
    node.present.add("npus")
    assert len(hardware.cards()) == 6
    assert node.made == ["gpus", "npus"]


def test_each_card_is_asked_through_its_own_backend() -> None:
    node = Node("gpus", "npus")
    hardware = CombinedHardware(node.choices())
    cards = SimulatedHardware(load_profile("ascend310px4", MemoryFiles()), "n1").cards()
    assert cards[0].scheme
    use = Use("claim", cards[0], cards[0].scheme.partitions[0])
    control = hardware.of_card(cards[0].uuid)
    (action,) = control.actions(use, ())
    handle = control.ensure(action)
    assert [found.action for found in control.observe(cards[0]).found] == [action]
    assert dict(control.edits(use, {action.key: handle}).env)["ASCEND_VISIBLE_DEVICES"] == "void"
    control.release(action, handle)
    assert control.observe(cards[0]).found == ()


def test_a_card_that_no_backend_has_is_gone() -> None:
    card = Card(0, "absent", "nvidia", "T4", "Tesla T4", "Turing", 15360, "", "", "")
    with pytest.raises(CardGone, match="absent"):
        CombinedHardware(Node("gpus").choices()).of_card(card.uuid).observe(card)


def test_two_vendors_of_gpus_on_one_node_are_refused_until_the_setting_names_one() -> None:
    node = Node("gpus")
    others = SimulatedHardware(load_profile("a100x4", MemoryFiles()), "n1")
    choices = [*node.choices(), BackendChoice("others", lambda: True, lambda: others)]
    hardware = CombinedHardware(choices)
    for asked in (hardware.cards, hardware.health):
        with pytest.raises(OperatorFault, match=r"a card gpu-0; set kubeletplugin\.hardware to gpus or others"):
            asked()
    assert names(chosen("gpus", choices, tuple)) == ["gpu-0", "gpu-1"]


def test_the_setting_can_name_one_backend() -> None:
    node = Node()
    assert names(chosen("npus", node.choices(), tuple)) == ["npu-0", "npu-1", "npu-2", "npu-3"]
    assert chosen("auto", node.choices(), tuple).cards() == ()
