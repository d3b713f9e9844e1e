"""Which devices of one counter set may be in use at the same time: those with a compatibility group in common."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from driver.model import Device
from tests.unit.controller.allocation.small_fleets import (
    NODE,
    claim,
    device,
    fleet,
    hold,
    most_placed,
    names,
    pool,
    refused,
    want,
)

SETS = {"card": {"units": 8}, "other": {"units": 8}}


def part(name: str, *groups: str, card: str = "card", shared: bool = False) -> Device:
    plain = device(name, draws={f"{card}.units": 1}, shared=shared)
    return replace(plain, consumes=tuple(replace(one, compatibility_groups=groups) for one in plain.consumes))


TOGETHER = (
    ([part("a", "x"), part("b", "x")], True),
    ([part("a", "x"), part("b", "y")], False),
    ([part("a", "x", "y"), part("b", "y", "z")], True),
    # Each two of them have a group in common, but not all three.
    ([part("a", "x", "y"), part("b", "y", "z"), part("c", "z", "x")], False),
    ([part("a", "x", "y"), part("b", "y", "z"), part("c", "y")], True),
    # Without groups they go with one another only.
    ([part("a"), part("b")], True),
    ([part("a"), part("b", "x")], False),
    # On another counter set nothing is compared.
    ([part("a", "x"), part("b", "y", card="other")], True),
    # Whole devices that draw on nothing go with all.
    ([part("a", "x"), device("b")], True),
)


@pytest.mark.parametrize(("devices", "compatible"), TOGETHER)
def test_devices_in_use_on_a_counter_set_have_a_group_in_common(devices: Sequence[Device], compatible: bool) -> None:
    """For one request, for several, and for claims that come one after the other."""
    built = fleet(*pool(*devices, sets=SETS))
    at_once = [[claim(want(count=len(devices)))], [claim(*[want()] * len(devices))]]
    for asked in at_once:
        assert isinstance(built.allocate(NODE, {}, asked), tuple) == compatible
    before = [claim(want(), name=f"c{number}") for number in range(len(devices) - 1)]
    if compatible:
        hold(built, *before, claim(want(), name="last"))


def test_a_device_that_goes_with_none_in_use_is_passed_over() -> None:
    built = fleet(*pool(part("a", "x"), part("b", "y"), part("c", "x"), sets=SETS))
    hold(built, claim(want(), name="one"))
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["c"]]
    assert refused(built.allocate(NODE, {}, [claim(want(count=2))])).sentences
    built.ledger.forget("uid-one")
    assert names(built.allocate(NODE, {}, [claim(want(count=2))])) == [["a", "c"]]


def test_devices_with_other_groups_are_not_interchangeable() -> None:
    built = fleet(*pool(part("a", "x"), part("b", "y"), part("c", "y"), sets=SETS))
    assert names(built.allocate(NODE, {}, [claim(want(count=2))])) == [["b", "c"]]
    assert names(built.allocate(NODE, {}, [claim(want(), want())])) == [["b", "c"]]


def test_what_stands_in_the_way_is_said() -> None:
    built = fleet(*pool(part("a", "x"), part("b", "y"), sets=SETS))
    hold(built, claim(want(), name="one"))
    assert "compatibilityGroups" in " ".join(refused(built.allocate(NODE, {}, [claim(want())])).sentences)


def test_further_shares_of_a_device_in_use_and_admin_access_need_no_group() -> None:
    built = fleet(*pool(part("a", "x", shared=True), part("b", "y", shared=True), sets=SETS))
    hold(built, claim(want(), name="one"))
    assert names(built.allocate(NODE, {}, [claim(want(), want())])) == [["a", "a"]]
    assert names(built.allocate(NODE, {}, [claim(want(count=2, admin=True))])) == [["a", "b"]]


def test_room_counts_only_devices_that_go_together() -> None:
    built = fleet(*pool(part("a", "x"), part("b", "y"), part("c", "x"), sets=SETS))
    built.ledger.upsert_node(NODE, {})
    assert most_placed(built, [claim(want())]) == {NODE: 2}
