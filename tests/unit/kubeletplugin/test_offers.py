"""A card is offered as what it can be beside what exists on it, whoever made that."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.kinds import EVERY_OFFER, Offer
from driver.names import Names
from kubeletplugin.hardware import Action, Card, CardState, FoundObject, Partition
from kubeletplugin.hardware.actions import MigInstance, MigMode, TimeSlice, VnpuInstance
from kubeletplugin.hardware.answer import Unread
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, Inventory, Restrictions, build_inventory
from kubeletplugin.offers import CardOffer, Recorded, offer_of
from tests.simulation.files import MemoryFiles


def card(profile: str) -> Card:
    return SimulatedHardware(load_profile(profile, MemoryFiles()), "node-a").cards()[0]


GPU, NPU, T4 = card("a100x4"), card("ascend310px4"), card("t4x2")
MODE = MigMode(GPU.uuid)
UPPER = MigInstance(GPU.uuid, "3g.20gb", 4)
WHOLE_AND_SHARE = {"whole", "share"}


def offered(of: Card, found: Iterable[Action], own: Iterable[Action] = (), devices: Iterable[str] = ()) -> CardOffer:
    state = CardState(tuple(FoundObject(action) for action in found))
    return offer_of(of, state, Recorded(frozenset(action.key for action in own), frozenset(devices)))


def partitions(of: Card) -> tuple[Partition, ...]:
    return of.scheme.partitions if of.scheme else ()


def published(offer: CardOffer, kinds: Iterable[Offer] = EVERY_OFFER) -> Inventory:
    name = offer.card.name
    now = Restrictions(withheld={name: tuple(offer.withheld)}, taken={name: offer.taken})
    return build_inventory([offer.card], Fabric(), tuple(kinds), 4, Names("lode.dev"), restrictions=now)


def fitting(offer: CardOffer) -> set[str]:
    """The names of the published devices that the published counters cover."""
    return {item.device.name for item in published(offer).allocatable}


def test_a_card_with_nothing_on_it_is_offered_as_everything() -> None:
    assert offered(GPU, ()) == CardOffer(GPU)
    assert offered(T4, [TimeSlice(T4.uuid, "long")]) == CardOffer(T4)


def test_what_claims_have_excludes_nothing_and_their_counters_say_what_is_free() -> None:
    assert offered(GPU, [MODE, UPPER], own=[MODE, UPPER]) == CardOffer(GPU)
    assert offered(GPU, [MODE], own=[MODE, UPPER]) == CardOffer(GPU), "the mode is on before the instance exists"


def test_what_depends_on_a_fact_that_was_never_read_is_withheld_with_the_call_that_failed() -> None:
    why = "DCMI: dcmi_get_device_hbm_info: timeout (code -8006)"
    found = offer_of(NPU, CardState(unread={"share": why}), Recorded())
    assert found.withheld.keys() == {"share"}
    assert why in found.withheld["share"]


@pytest.mark.parametrize("reason", ["excluded", "unread"])
def test_beside_partitions_of_claims_that_are_not_offered_now_nothing_can_be_allocated(reason: str) -> None:
    withheld: dict[Offer, str] = {"partitions": "why"}
    state = CardState(excluded=withheld) if reason == "excluded" else CardState(unread=withheld)
    assert offer_of(NPU, state, Recorded()).withheld.keys() == {"partitions"}
    held = partitions(NPU)[0]
    offer = offer_of(NPU, state, Recorded(devices=frozenset({NPU.part_name(held)})))
    assert "why" in offer.reason
    assert fitting(offer) == set()
    assert NPU.part_name(held) in {item.device.name for item in published(offer).offered}


def test_a_mode_that_nobody_turned_on_for_a_claim_excludes_the_whole_card() -> None:
    found = offered(GPU, [MODE])
    assert set(found.withheld) == WHOLE_AND_SHARE
    assert f"nvidia-smi -i {GPU.uuid} -mig 0" in found.withheld["whole"]
    assert found.card == GPU


def test_beside_partitions_of_somebody_else_counters_are_left_for_what_fits() -> None:
    found = offered(GPU, [MODE, UPPER])
    assert UPPER.key in found.reason
    assert found.withheld == {}
    assert fitting(found) == {GPU.part_name(part) for part in partitions(GPU) if not _upper(part)}


def _upper(part: Partition) -> bool:
    return any(f"memory-slice-{index}" in part.draws for index in range(4, 8)) or part.draws["compute-slices"] > 4


def test_vnpus_of_somebody_else_leave_what_they_do_not_consume() -> None:
    found = offered(NPU, [VnpuInstance(NPU.uuid, "vir04", 100)])
    assert (found.taken["aicore"], found.taken["memory"]) == (4, NPU.counters["memory"] - 12288)
    assert fitting(found) == {
        NPU.part_name(part) for part in partitions(NPU) if part.draws["aicpu"] <= 3 and part.draws.get("vpc", 0) <= 6
    }


@pytest.mark.parametrize("unknown", [MigInstance(GPU.uuid, "1g.5gb+gfx", 0), MigInstance(GPU.uuid, "1g.5gb", 7)])
def test_beside_a_partition_that_is_not_known_nothing_fits(unknown: Action) -> None:
    found = offered(GPU, [MODE, unknown])
    assert unknown.key in found.reason
    assert fitting(found) == set()


def test_what_does_not_fit_stays_published_because_a_claim_may_have_been_allocated_it() -> None:
    assert published(offered(GPU, [MODE, UPPER])).devices == published(CardOffer(GPU)).devices


def test_a_card_without_counters_is_not_published_beside_partitions_of_somebody_else() -> None:
    assert published(offered(GPU, [MODE, UPPER]), ["whole"]).devices == ()
    assert len(published(CardOffer(GPU), ["whole"]).devices) == 1


def test_devices_that_claims_hold_stay() -> None:
    assert set(offered(GPU, [MODE], devices=[GPU.name]).withheld) == {"share"}
    assert offered(GPU, [MODE], devices=[GPU.name, GPU.share_name]).withheld == {}


def test_the_reason_of_the_hardware_comes_first() -> None:
    state = CardState((FoundObject(MODE),), {"share": "sharing is off", "partitions": "needs a reset"})
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
    assert {name for name in fitting(found) if "mig" in name} == {
        GPU.part_name(part) for part in partitions(GPU) if all(left[c] >= amount for c, amount in part.draws.items())
    }


def test_nothing_is_offered_of_a_card_whose_state_was_never_read() -> None:
    found = offer_of(GPU, Unread("nvmlDeviceGetMigMode: error (code 999)"), Recorded())
    assert set(found.withheld) == set(EVERY_OFFER)
    assert all("code 999" in why for why in found.withheld.values())
    assert not published(found).devices


def test_what_claims_hold_of_an_unread_card_stays_published_and_nothing_fits_beside_it() -> None:
    part = GPU.part_name(partitions(GPU)[0])
    found = offer_of(GPU, Unread("silent"), Recorded(devices=frozenset({part})))
    assert part in {item.device.name for item in published(found).offered}
    assert fitting(found) == set()
    whole = offer_of(GPU, Unread("silent"), Recorded(devices=frozenset({GPU.name})))
    assert [device.name for device in published(whole).devices] == [GPU.name]


def test_nothing_is_offered_of_a_card_while_a_claim_holds_a_partition_that_it_does_not_list() -> None:
    unread = replace(GPU, scheme=None, partitions_unread="nvmlDeviceGetMigMode: error (code 999)")
    held = Recorded(placed=frozenset({(GPU.uuid, "gpu-0-mig-1g-5gb-6")}))
    found = offer_of(unread, CardState(), held)
    assert set(found.withheld) == set(EVERY_OFFER)
    assert all("gpu-0-mig-1g-5gb-6" in why and "code 999" in why for why in found.withheld.values())
    other = replace(unread, uuid="GPU-2")
    assert offer_of(other, CardState(), held) == CardOffer(other), "another card has the number now"


def test_nothing_is_offered_of_a_card_that_a_claim_has_under_another_number() -> None:
    """The names of its own number may be held by claims that hold another card."""
    held = Recorded(placed=frozenset({(GPU.uuid, "gpu-1-share")}))
    found = offer_of(GPU, CardState(), held)
    assert set(found.withheld) == set(EVERY_OFFER)
    assert not published(found).devices
    part = GPU.part_name(partitions(GPU)[0])
    beside = offer_of(GPU, CardState(), replace(held, devices=frozenset({part})))
    assert part in {item.device.name for item in published(beside).offered}
    assert fitting(beside) == set()
