"""The values of an attribute over all claims of a pod, against trying all devices."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import CompiledRequest, PodValues
from controller.allocation.rules import PodValuesTrackers
from driver.model import Device
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, names, pool, want

RAIL = f"{DRIVER}/rail"


def on(rail: str | None) -> Device:
    return device("d", {} if rail is None else {"rail": rail})


def test_a_device_may_join_while_the_missing_values_can_still_come() -> None:
    trackers = PodValuesTrackers([PodValues(RAIL, (0, 1), exactly=frozenset("03"), most=3)], claims=2)
    assert [trackers.conflict(0, on(rail)) for rail in ("0", "1", "", None)] == ["", RAIL, RAIL, ""]
    trackers.add(0, on("0"))
    assert [trackers.conflict(1, on(rail)) for rail in ("0", "3", None)] == ["", "", ""]
    trackers.add(1, on(None))
    assert [trackers.conflict(1, on(rail)) for rail in ("0", "3", None)] == [RAIL, "", RAIL]
    trackers.add(1, on("3"))
    assert trackers.are_complete
    trackers.drop(1, on("3"))
    assert not trackers.are_complete


def test_a_value_is_of_one_pod_until_it_gives_back_its_device() -> None:
    rules = [PodValues(RAIL, (number,), distinct=True, taken=frozenset("2"), most=2) for number in (0, 1)]
    trackers = PodValuesTrackers(rules, claims=2)
    trackers.add(0, on("0"))
    assert [trackers.conflict(0, on(rail)) for rail in "012"] == ["", "", RAIL]
    assert [trackers.conflict(1, on(rail)) for rail in "012"] == [RAIL, "", RAIL]
    trackers.drop(0, on("0"))
    assert trackers.conflict(1, on("0")) == ""


rails = st.lists(st.sampled_from(["0", "1", "2", ""]), min_size=1, max_size=6)
pods = st.lists(st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=2), min_size=1, max_size=2)


@given(rails, pods, st.one_of(st.none(), st.sets(st.sampled_from("012"), min_size=1, max_size=2)))
def test_devices_are_found_exactly_if_there_are_some(
    cards: list[str], wanted: list[list[int]], exactly: set[str] | None
) -> None:
    built = fleet(*pool(*(device(f"gpu-{number}", {"rail": rail}) for number, rail in enumerate(cards))))
    claims = [
        claim(want(count=count), name=f"{one}-{number}")
        for one, counts in enumerate(wanted)
        for number, count in enumerate(counts)
    ]
    first = len(wanted[0])
    of_pods = [tuple(range(first)), tuple(range(first, len(claims)))][: len(wanted)]
    values = None if exactly is None else frozenset(exactly)
    rules = [PodValues(RAIL, numbers, values, distinct=exactly is None) for numbers in of_pods]
    request = built.compile(claims, rules)
    assert isinstance(request, CompiledRequest)
    found = built.fit(built.slot(NODE, {}), request, claims)
    assert (found is not None) == _possible(cards, [sum(counts) for counts in wanted], values)
    if found is not None:
        held = [name for one in names(found) for name in one]
        assert len(set(held)) == len(held)
        sets = [{cards[int(name[4:])] for number in numbers for name in names(found)[number]} for numbers in of_pods]
        assert _meets(sets, values)


def _possible(cards: list[str], counts: list[int], exactly: frozenset[str] | None) -> bool:
    for chosen in product(*(combinations(range(len(cards)), count) for count in counts)):
        every = [number for some in chosen for number in some]
        sets = [{cards[number] for number in some} for some in chosen]
        if len(set(every)) == len(every) and _meets(sets, exactly):
            return True
    return False


def _meets(sets: list[set[str]], exactly: frozenset[str] | None) -> bool:
    if any("" in some for some in sets):
        return False
    if exactly is not None:
        return all(some == exactly for some in sets)
    return len(set().union(*sets)) == sum(map(len, sets))
