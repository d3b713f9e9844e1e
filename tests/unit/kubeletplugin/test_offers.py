"""A card is offered as what it can be beside what exists on it, whoever made that."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware import Action, Card, CardState, Found, Partition
from kubeletplugin.hardware.actions import MigInstance, MigMode, TimeSlice, VnpuInstance
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.offers import CardOffer, Recorded, offer_of
from simulation.files import MemoryFiles


def card(profile: str) -> Card:
    return SimulatedHardware(load_profile(profile, MemoryFiles()), "node-a").cards()[0]


GPU, NPU, T4 = card("a100x4"), card("ascend310px4"), card("t4x2")
MODE = MigMode(GPU.uuid)
UPPER = MigInstance(GPU.uuid, "3g.20gb", 4)
WHOLE_AND_SHARE = {"whole", "share"}


def offered(of: Card, found: Iterable[Action], own: Iterable[Action] = (), devices: Iterable[str] = ()) -> CardOffer:
    state = CardState(tuple(Found(action) for action in found))
    return offer_of(of, state, Recorded(frozenset(action.key for action in own), frozenset(devices)))


def names(offer: CardOffer) -> set[str]:
    return {offer.card.part_name(part) for part in partitions(offer.card)}


def partitions(of: Card) -> tuple[Partition, ...]:
    return of.scheme.partitions if of.scheme else ()


def test_a_card_with_nothing_on_it_is_offered_as_everything() -> None:
    assert offered(GPU, ()) == CardOffer(GPU)
    assert offered(T4, [TimeSlice(T4.uuid, "long")]) == CardOffer(T4)


def test_what_claims_have_excludes_nothing_and_their_counters_say_what_is_free() -> None:
    assert offered(GPU, [MODE, UPPER], own=[MODE, UPPER]) == CardOffer(GPU)
    assert offered(GPU, [MODE], own=[MODE, UPPER]) == CardOffer(GPU), "the mode is on before the instance exists"


def test_a_mode_that_nobody_turned_on_for_a_claim_excludes_the_whole_card() -> None:
    found = offered(GPU, [MODE])
    assert set(found.withheld) == WHOLE_AND_SHARE
    assert f"nvidia-smi -i {GPU.uuid} -mig 0" in found.withheld["whole"]
    assert found.card == GPU


def test_partitions_of_somebody_else_exclude_what_does_not_fit_beside_them() -> None:
    found = offered(GPU, [MODE, UPPER])
    assert set(found.withheld) == WHOLE_AND_SHARE
    assert UPPER.key in found.reduced
    assert {part.slot for part in partitions(found.card)} == {0, 1, 2, 3}
    assert found.card.scheme
    assert [found.card.scheme.counters[f"memory-slice-{i}"] for i in range(8)] == [1, 1, 1, 1, 0, 0, 0, 0]


def test_vnpus_of_somebody_else_leave_what_they_do_not_consume() -> None:
    found = offered(NPU, [VnpuInstance(NPU.uuid, "vir04", 100)])
    assert set(found.withheld) == WHOLE_AND_SHARE
    assert found.card.scheme
    assert (found.card.scheme.counters["aicore"], found.card.scheme.counters["memory"]) == (4, 12288)
    assert {part.profile for part in partitions(found.card)} == {
        part.profile for part in partitions(NPU) if part.draws["aicpu"] <= 3 and part.draws.get("vpc", 0) <= 6
    }


@pytest.mark.parametrize("unknown", [MigInstance(GPU.uuid, "1g.5gb+gfx", 0), MigInstance(GPU.uuid, "1g.5gb", 7)])
def test_beside_a_partition_that_is_not_known_nothing_is_offered(unknown: Action) -> None:
    found = offered(GPU, [MODE, unknown])
    assert set(found.withheld) == {"whole", "share", "partitions"}
    assert unknown.key in found.withheld["partitions"]
    assert partitions(found.card) == ()


def test_devices_that_claims_hold_stay() -> None:
    held = [GPU.name, GPU.share_name, f"{GPU.name}-mig-7g-40gb-0"]
    found = offered(GPU, [MODE, UPPER], devices=held)
    assert found.withheld == {}
    assert held[-1] in names(found)
    assert set(offered(GPU, [MODE, UPPER], devices=[GPU.name]).withheld) == {"share"}


def test_the_reason_of_the_hardware_comes_first() -> None:
    state = CardState((Found(MODE),), {"share": "sharing is off", "partitions": "needs a reset"})
    found = offer_of(GPU, state, Recorded())
    assert found.withheld["share"] == "sharing is off"
    assert set(found.withheld) == {"whole", "share", "partitions"}


@given(st.lists(st.sampled_from(partitions(GPU)), max_size=4))
def test_what_is_offered_fits_beside_what_is_there(present: list[Partition]) -> None:
    """Law: no partition that is offered needs more than the card has beside partitions of somebody else."""
    assert GPU.scheme
    left = dict(GPU.scheme.counters)
    distinct = {(part.profile, part.slot): part for part in present}.values()
    for part in distinct:
        left |= {counter: left[counter] - amount for counter, amount in part.draws.items()}
    found = offered(GPU, [MODE, *(MigInstance(GPU.uuid, part.profile, part.slot) for part in distinct)])
    fitting = {
        GPU.part_name(part) for part in partitions(GPU) if all(left[c] >= amount for c, amount in part.draws.items())
    }
    assert names(found) == fitting
