"""A card that is lost is reported as one that does not work."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import Card, CardState, Hardware, Health
from kubeletplugin.hardware.decorator import HardwareDecorator
from kubeletplugin.hardware.known import KnownCards
from kubeletplugin.hardware.simulated import MemoryStore, SimulatedHardware, load_profile
from simulation.files import MemoryFiles


class Node:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.backend = SimulatedHardware(load_profile("t4x2", MemoryFiles()), "n1", store=self.store)
        self.hardware = KnownCards(self.backend)

    def lose(self, *names: str) -> None:
        all_cards = SimulatedHardware(load_profile("t4x2", MemoryFiles()), "n1").cards()
        lost = frozenset(card.uuid for card in all_cards if card.name in names)
        self.store.save(replace(self.store.load(), lost=lost))


def test_a_lost_card_stays_with_the_reason_until_it_is_back() -> None:
    node = Node()
    before = node.hardware.cards()
    node.lose("gpu-0")
    assert node.hardware.cards() == before
    health = node.hardware.health()
    assert (health["gpu-0"].state, health["gpu-0"].recovery) == ("fatal", "reboot")
    assert "fallen off the bus" in health["gpu-0"].message
    assert health["gpu-1"] == Health()
    node.lose()
    assert (node.hardware.cards(), node.hardware.health()) == (before, {"gpu-0": Health(), "gpu-1": Health()})


def test_a_card_that_was_never_seen_is_not_missed() -> None:
    node = Node()
    node.lose("gpu-0")
    assert [card.name for card in node.hardware.cards()] == ["gpu-1"]
    assert set(node.hardware.health()) == {"gpu-1"}


class Renumbered(HardwareDecorator):
    """Only the second card is left, and it has the number of the first."""

    def cards(self) -> tuple[Card, ...]:
        return (replace(self.decorated.cards()[1], index=0),)


def test_a_card_whose_number_another_has_now_is_forgotten() -> None:
    node = Node()
    _, second = node.hardware.cards()
    node.hardware.decorated = Renumbered(node.backend)
    assert [(card.index, card.uuid) for card in node.hardware.cards()] == [(0, second.uuid)]


class Hanging(HardwareDecorator):
    """The calls about some cards hang, and with them those about all."""

    def __init__(self, hardware: Hardware, *hanging: str):
        super().__init__(hardware)
        self._hanging = hanging

    def cards(self) -> tuple[Card, ...]:
        raise TransientFault("the hardware did not answer within 5 s")

    def health(self) -> Mapping[str, Health]:
        raise TransientFault("the hardware did not answer within 5 s")

    def observe(self, card: Card) -> CardState:
        if card.name in self._hanging:
            raise TransientFault(f"{card.name} did not answer within 5 s")
        return super().observe(card)


def test_a_card_that_hangs_does_not_work_and_the_others_stay_as_they_were() -> None:
    node = Node()
    before = node.hardware.cards()
    node.hardware.health()
    node.hardware.decorated = Hanging(node.backend, "gpu-0")
    assert node.hardware.cards() == before
    health = node.hardware.health()
    assert (health["gpu-0"].state, health["gpu-0"].message) == ("fatal", "the card does not answer")
    assert health["gpu-1"] == Health()


def test_hardware_that_was_never_seen_does_not_answer() -> None:
    node = Node()
    node.hardware.decorated = Hanging(node.backend)
    with pytest.raises(TransientFault):
        node.hardware.cards()
    with pytest.raises(TransientFault):
        node.hardware.health()


def test_while_every_card_answers_a_failed_question_is_asked_again() -> None:
    node = Node()
    node.hardware.cards()
    node.hardware.decorated = Hanging(node.backend)
    with pytest.raises(TransientFault):
        node.hardware.health()
