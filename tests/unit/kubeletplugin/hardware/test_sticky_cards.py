"""A card that is lost is reported as one that does not work."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from driver.errors import TransientFault
from driver.observe import logger
from kubeletplugin.hardware import Card, CardState, Hardware, HardwarePorts, Health
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.remembered_cards import CardMemory, Failures, RememberedCards
from kubeletplugin.hardware.simulated import MemoryStore, SimulatedHardware, load_profile
from kubeletplugin.hardware.simulated.profile import shipped_profiles
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.simulation.hardware_decorator import HardwareDecorator

FILE = "/plugin/failed-cards.json"


class Node:
    def __init__(self) -> None:
        self.store, self.files = MemoryStore(), MemoryFiles()
        profile = load_profile("t4x2", self.files)
        self.backend = SimulatedHardware(profile, "n1", self.files, "/faults", store=self.store)
        self.before = HardwareDecorator(self.backend)
        """Stands before the backend."""
        self.start()

    def start(self, boot_id: str = "boot-1", left_out: tuple[Card, ...] = ()) -> None:
        """Start the program anew."""
        file = BootFile(self.files, FILE, boot_id, list[Card], logger("test"))
        failures = BootFile(self.files, "/health/health.json", boot_id, Failures, logger("test"))
        ports, memory = HardwarePorts(self.before, self.before), CardMemory(file, failures)
        self.hardware = RememberedCards(ports, VirtualClock(), 0, memory, left_out=left_out)

    def ask(self) -> tuple[Card, ...]:
        """Ask for the cards and their health, as publishing does."""
        cards = self.hardware.cards()
        self.hardware.health()
        return cards

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


class Unreadable(HardwareDecorator):
    """Hardware that cannot read every card."""

    def unread_cards(self) -> tuple[str, ...]:
        return ("card 0: DCMI: dcmi_get_device_die_v2: timeout (code -8006)",)


def test_a_failed_card_is_not_said_to_be_gone_while_not_all_can_be_read() -> None:
    node = Node()
    node.ask()
    node.lose("gpu-0")
    node.ask()
    node.before = Unreadable(node.backend)
    for _ in range(2):
        node.start()
        node.ask()
        found = node.hardware.health()["gpu-0"]
        assert (found.state, found.recovery) == ("fatal", "none")
        assert "timeout (code -8006)" in found.message
    node.before = HardwareDecorator(node.backend)
    node.start()
    node.ask()
    assert node.hardware.health()["gpu-0"].recovery == "reboot"


def test_a_lost_card_stays_lost_over_restarts_until_it_is_back() -> None:
    node = Node()
    before = node.ask()
    assert node.files.read(FILE) is None
    node.lose("gpu-0")
    node.ask()
    for _ in range(2):
        node.start()
        assert node.ask() == before
        assert node.hardware.health()["gpu-0"].state == "fatal"
    node.lose()
    node.ask()
    assert node.files.read(FILE) is None


def test_a_card_that_is_left_out_is_not_lost() -> None:
    """The settings are read when the program starts."""
    node = Node()
    first, second = node.ask()
    node.lose("gpu-0")
    node.ask()
    node.start(left_out=(first,))
    assert node.ask() == (second,)


def test_a_card_that_failed_before_it_was_lost_is_known_to_the_next_program() -> None:
    node = Node()
    before = node.hardware.cards()
    node.files.write("/faults/gpu-0", b"Xid 79")
    node.ask()
    node.lose("gpu-0")
    node.start()
    assert node.ask() == before
    assert "fallen off the bus" in node.hardware.health()["gpu-0"].message


def test_a_program_that_has_no_answer_yet_does_not_take_the_failed_cards_for_all() -> None:
    node = Node()
    node.ask()
    node.lose("gpu-0")
    node.ask()
    node.start()
    node.before.decorated = Hanging(node.backend)
    with pytest.raises(TransientFault):
        node.hardware.cards()


def test_after_a_reboot_a_card_that_is_not_there_is_not_missed() -> None:
    node = Node()
    node.ask()
    node.lose("gpu-0")
    node.ask()
    node.start("boot-2")
    assert [card.name for card in node.ask()] == ["gpu-1"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"bootId": "boot-1", "value": [{"index": 0}]}'])
def test_a_damaged_file_names_no_cards(content: bytes) -> None:
    node = Node()
    node.files.write(FILE, content)
    node.start()
    assert [card.name for card in node.ask()] == ["gpu-0", "gpu-1"]


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
    node.before.decorated = Renumbered(node.backend)
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
    node.before.decorated = Hanging(node.backend, "gpu-0")
    assert node.hardware.cards() == before
    health = node.hardware.health()
    why = "the card does not answer: gpu-0 did not answer within 5 s"
    assert health["gpu-0"] == Health("fatal", why), "nobody has said that it is gone, so no reboot is asked for"
    assert health["gpu-1"] == Health()


def test_hardware_that_was_never_seen_does_not_answer() -> None:
    node = Node()
    node.before.decorated = Hanging(node.backend)
    with pytest.raises(TransientFault):
        node.hardware.cards()
    with pytest.raises(TransientFault):
        node.hardware.health()


def test_while_every_card_answers_a_failed_question_is_asked_again() -> None:
    node = Node()
    node.hardware.cards()
    node.before.decorated = Hanging(node.backend)
    with pytest.raises(TransientFault):
        node.hardware.health()


def test_every_field_of_a_failed_card_is_kept() -> None:
    files = MemoryFiles()
    cards = [card for name in shipped_profiles() for card in load_profile(name, files).cards]
    file = BootFile(files, FILE, "boot-1", list[Card], logger("test"))
    file.choose(cards)
    file.save()
    assert file.load() == cards
