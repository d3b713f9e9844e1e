"""The cards of a simulated node fail as real ones do, and others than the programs change them."""

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import Card, CardGone
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.simulated import load_profile
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.simulation.hardware import NodeHardware


@pytest.fixture
def node() -> NodeHardware:
    return NodeHardware(load_profile("a100x4", MemoryFiles()), "n1")


def first_card(node: NodeHardware) -> Card:
    return node.cards_of_node.cards()[0]


def existing(node: NodeHardware) -> set[str]:
    return set(node.store.load().existing)


def test_a_card_that_hangs_or_is_lost_answers_no_question_and_others_do(node: NodeHardware) -> None:
    hardware = node.of(lambda: None)
    first, second, third, _ = hardware.cards()
    node.hanging.add(first.name)
    node.lost.add(second.name)
    with pytest.raises(TransientFault):
        hardware.observe(first)
    with pytest.raises(CardGone):
        hardware.observe(second)
    hardware.observe(third)
    assert [card.name for card in hardware.cards()] == ["gpu-0", "gpu-2", "gpu-3"]
    node.mend(())
    hardware.observe(first)
    hardware.observe(second)


def test_somebody_else_turns_on_the_mode_that_a_partition_needs_and_off_with_the_last(node: NodeHardware) -> None:
    card = first_card(node).uuid
    mode, one, two = MigMode(card).key, MigInstance(card, "1g.5gb", 0), MigInstance(card, "1g.5gb", 1)
    node.make_foreign(one)
    node.make_foreign(two)
    assert existing(node) == node.foreign == {mode, one.key, two.key}
    node.remove_foreign(one.key, ())
    assert existing(node) == node.foreign == {mode, two.key}
    node.remove_foreign(two.key, ())
    assert existing(node) == node.foreign == set()


def test_what_claims_need_stays_when_somebody_else_removes_their_own(node: NodeHardware) -> None:
    card = first_card(node).uuid
    mode, mine, theirs = MigMode(card), MigInstance(card, "1g.5gb", 0), MigInstance(card, "1g.5gb", 1)
    node.cards_of_node.ensure(mode)
    node.cards_of_node.ensure(mine)
    node.make_foreign(theirs)
    assert node.foreign == {theirs.key}
    node.mend({mode.key, mine.key})
    assert existing(node) == {mode.key, mine.key}


def test_where_there_is_no_room_nothing_is_made(node: NodeHardware) -> None:
    card = first_card(node).uuid
    node.make_foreign(MigInstance(card, "7g.40gb", 0))
    before = existing(node)
    node.make_foreign(MigInstance(card, "1g.5gb", 0))
    assert (existing(node), node.foreign) == (before, before)


def test_a_reboot_removes_mig_instances_whoever_made_them(node: NodeHardware) -> None:
    node.make_foreign(MigInstance(first_card(node).uuid, "1g.5gb", 0))
    node.reboot()
    assert (existing(node), node.foreign) == (set(), set())


def test_after_a_reboot_cards_may_have_other_numbers_and_keep_their_uuids(node: NodeHardware) -> None:
    before = {card.uuid: card.index for card in node.cards_of_node.cards()}
    node.moves = 1
    assert {card.uuid: card.index for card in node.cards_of_node.cards()} == before
    node.reboot()
    cards = node.of(lambda: None).cards()
    assert [card.index for card in cards] == [0, 1, 2, 3]
    assert {card.uuid: (card.index - 1) % 4 for card in cards} == before
    node.reboot()
    assert node.cards_of_node.cards() == cards
    node.moves = -node.moved
    node.reboot()
    assert {card.uuid: card.index for card in node.cards_of_node.cards()} == before


def test_guarded_hardware_is_asked_in_threads_which_a_node_can_run_out_of(node: NodeHardware) -> None:
    hardware = node.guarded(lambda: None, VirtualClock())
    card = first_card(node)
    node.threads = False
    with pytest.raises(TransientFault, match="cannot be asked now: can't start new thread"):
        hardware.observe(card)
    node.mend(())
    hardware.observe(card)


def test_who_asks_about_a_card_while_it_is_asked_about_finds_it_busy_and_does_not_wait(node: NodeHardware) -> None:
    asked: list[str] = []

    def meanwhile() -> None:
        for other in hardware.cards()[:2]:
            try:
                hardware.observe(other)
            except TransientFault as fault:
                asked.append(str(fault))

    calls = iter([meanwhile])
    hardware = node.guarded(lambda: next(calls, lambda: None)(), VirtualClock())
    hardware.observe(first_card(node))
    assert asked == [f"card {first_card(node).uuid} is busy with other questions"]
