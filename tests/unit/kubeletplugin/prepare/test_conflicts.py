"""Against a plain count: every card's counters, added up."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kinds import EVERY_OFFER
from driver.model import DeviceId, Result
from driver.names import Names
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.inventory import Fabric, Inventory, build_inventory
from kubeletplugin.prepare.exclusion import by_devices
from tests.simulation.files import MemoryFiles


@cache
def cards(profile: str) -> Inventory:
    found = load_profile(profile, MemoryFiles()).cards[:1]
    return build_inventory(found, Fabric(), EVERY_OFFER, 100, Names())


def over_drawn(profile: str, results: list[Result]) -> bool:
    """Whether the card cannot give all of this at once."""
    inventory = cards(profile)
    by_name = {device.name: device for device in inventory.devices}
    exclusive = [r.device.device for r in results if not by_name[r.device.device].allow_multiple]
    if len(set(exclusive)) < len(exclusive):
        return True
    for counter_set in inventory.counter_sets:
        for counter, limit in counter_set.counters.items():
            total = sum(
                consumption.counters[counter].value
                for name in {r.device.device for r in results}
                for consumption in by_name[name].consumes
                if counter in consumption.counters
            )
            if total > limit.value:
                return True
    return False


def held(profile: str) -> st.SearchStrategy[Result]:
    shareable = {device.name for device in cards(profile).devices if device.allow_multiple}

    def made(name: str, share: str) -> Result:
        return Result("r", DeviceId("lode.dev", "n/lode.dev", name), share if name in shareable else "")

    return st.builds(made, st.sampled_from([d.name for d in cards(profile).devices]), st.uuids().map(str))


@settings(max_examples=200)
@given(
    st.sampled_from(["a100x4", "ascend310px4", "t4x2"]).flatmap(
        lambda profile: st.tuples(st.just(profile), st.lists(held(profile), min_size=1, max_size=5))
    )
)
def test_claims_are_taken_one_by_one_exactly_as_long_as_the_card_can_give(case: tuple[str, list[Result]]) -> None:
    profile, wanted = case
    inventory = cards(profile)
    by_name = {device.name: device for device in inventory.devices}
    taken: dict[str, list[Result]] = {}
    for index, result in enumerate(wanted):
        uid = f"claim-{index}"
        blocking = by_devices(uid, [result], taken, by_name, inventory.counter_sets)
        together = [*(r for results in taken.values() for r in results), result]
        assert bool(blocking) == over_drawn(profile, together)
        if not blocking:
            taken[uid] = [result]
        else:
            assert blocking <= set(taken)
            rest = {owner: results for owner, results in taken.items() if owner not in blocking}
            assert not by_devices(uid, [result], rest, by_name, inventory.counter_sets)
