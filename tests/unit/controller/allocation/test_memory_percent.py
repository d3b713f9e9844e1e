"""A share of so many per cent of its card's memory: what is booked, and what makes no sense."""

import pytest

from controller.explaining.messages import render
from driver.model import DeviceClass
from tests.unit.controller.allocation.nodefit.test_device_order import placement, results, share, shared_cards
from tests.unit.controller.allocation.small_fleets import (
    NODE,
    claim,
    device,
    fleet,
    hold,
    memory,
    pool,
    q,
    refused,
    want,
)

PERCENTS = (
    ("32510Mi", "1Mi", 33, "10729Mi"),  # 10728.3, rounded up by the step
    ("32510Mi", "1Gi", 33, "10752Mi"),  # half a GiB and ten more
    ("24Gi", "1Mi", 100, "24Gi"),
    ("24Gi", "1Mi", 1, "246Mi"),
)


@pytest.mark.parametrize(("total", "step", "percent", "taken"), PERCENTS)
def test_a_percentage_of_memory_is_rounded_up_by_the_request_policy_and_booked_as_an_amount(
    total: str, step: str, percent: int, taken: str
) -> None:
    least = "512Mi" if step == "1Gi" else "1Mi"
    card = device("s", {"kind": "share"}, capacity={"memory": memory(total, least=least, step=step)}, shared=True)
    built = fleet(*pool(card))
    asked = claim(want("share"), config=(placement(memoryPercent=percent),), name="held")
    (got,) = results(tuple(hold(built, asked)))
    assert got.consumed == {"memory": q(taken)}
    assert got.share_id
    more = claim(want("share"), config=(placement(memoryPercent=101 - percent),))
    rest = refused(built.allocate(NODE, {}, [more]))
    assert "with too little memory left" in render(rest)


def test_a_percentage_is_of_each_card() -> None:
    built = fleet(*pool(*shared_cards(1000, 3000)))
    got = results(built.allocate(NODE, {}, [claim(want("share", count=2), config=(placement(memoryPercent=50),))]))
    assert [one.consumed["memory"] for one in got] == [q("500Mi"), q("1500Mi")]


def test_an_amount_the_request_names_wins_over_a_percentage_of_its_class() -> None:
    built = fleet(*pool(*shared_cards(1000)))
    built.upsert_class(DeviceClass("share", (), (placement(memoryPercent=50),)))
    (got,) = results(built.allocate(NODE, {}, [claim(share(100))]))
    assert got.consumed["memory"] == q("100Mi")


def test_percentages_that_make_no_sense_are_refused_all_at_once() -> None:
    built = fleet(*pool(*shared_cards(1000)))
    config = (placement(memoryPercent=50), placement(policy="best"))
    assert "policy: unsupported value: 'best'" in render(
        refused(built.allocate(NODE, {}, [claim(share(1), config=config)]))
    )
    twice = claim(share(1), want("gpu", admin=True), config=(placement(memoryPercent=50),))
    answer = refused(built.allocate(NODE, {}, [twice]))
    assert [(fault.field, fault.key) for fault in answer.faults] == [
        ("spec.devices.requests[0].exactly.capacity.requests[memory]", "ns/c"),
        ("spec.devices.requests[1].exactly.adminAccess", "ns/c"),
    ]
    assert "1Mi is asked for beside memoryPercent 50 of its PlacementConfig; say one of them" in render(answer)


def test_no_part_can_be_had_of_a_card_that_is_not_shareable() -> None:
    built = fleet(*pool(device("g0", capacity={"memory": "1Gi"}), device("g1", capacity={"memory": "1Gi"})))
    answer = refused(built.allocate(NODE, {}, [claim(want(), config=(placement(memoryPercent=50),))]))
    assert "2 cannot be shared, so memoryPercent does not apply" in render(answer)
