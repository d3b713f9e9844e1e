"""Every kind of device is so much of a card; what is lifted does not count until it is put back."""

from dataclasses import replace

import pytest

from controller.allocation import CARD, UseChange
from driver.model import Claim
from driver.wire import allocation_from, slice_from
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, memory, names, pool, want
from tests.unit.kubeletplugin.publish.publishing_node import running

CARD_DRAWS = {"c.memory": 8, "c.compute": 7}
SLICES = pool(
    device("gpu", draws=CARD_DRAWS),
    device(
        "gpu-share",
        {"kind": "share"},
        draws=CARD_DRAWS,
        capacity={
            "memory": memory("24Gi"),
            "cores": memory("100", "0", least="0", step="1"),
            "slots": memory("2", "1"),
        },
        shared=True,
    ),
    device("gpu-mig", {"kind": "mig"}, draws={"c.memory": 1, "c.compute": 1}),
    device("old", {"kind": "nic"}),
    sets={"c": {"memory": 8, "compute": 7}},
)


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        (want("gpu"), CARD),
        (want("share", capacity={"memory": "6Gi"}), CARD // 4),
        (want("share", capacity={"memory": "6Gi", "cores": "30"}), CARD * 3 // 10),
        (want("share"), CARD),
        (want("mig"), CARD // 7),
        (want("nic"), CARD),
        (want("gpu", admin=True), 0),
    ],
)
def test_a_device_is_part_of_a_card(wanted: object, part: int) -> None:
    built = fleet(*SLICES)
    answer = built.allocate("n1", {}, [claim(wanted)])  # type: ignore[arg-type]
    assert isinstance(answer, tuple)
    assert sum(built.ledger.card_parts(answer[0]).values()) == part


@pytest.mark.parametrize(
    ("cards", "eighths"),
    [
        ("h100x8", {"": 8, "1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}),
        ("a100x4", {"": 8, "1g.5gb": 1, "1g.10gb": 2, "2g.10gb": 2, "3g.20gb": 4, "4g.20gb": 4, "7g.40gb": 8}),
        ("ascend310px4", {"": 8, "vir01": 1, "vir02_1c": 2, "vir02": 2, "vir04_3c": 4, "vir04": 4}),
    ],
)
def test_a_partition_that_the_plugin_publishes_is_its_part_of_the_card(cards: str, eighths: dict[str, int]) -> None:
    node, publishers = running(cards)
    publishers.run(5)
    built, found = fleet(), dict[str, int]()
    for part in node.slices():
        built.ledger.upsert_slice(slice_from(part))
    for part in node.slices():
        for one in part["spec"].get("devices", ()):
            result = {"request": "r", "driver": "lode.dev", "pool": part["spec"]["pool"]["name"], "device": one["name"]}
            its = sum(built.ledger.card_parts(allocation_from({"devices": {"results": [result]}})).values())
            assert found.setdefault(one["attributes"]["profile"]["string"], its) == its
    assert {name: found[name] for name in eighths} == {name: CARD * size // 8 for name, size in eighths.items()}


def test_a_claim_that_ends_on_trial_does_not_count_until_that_is_undone() -> None:
    built = fleet(*SLICES)

    def allocated(one: Claim) -> Claim:
        answer = built.allocate("n1", {}, [one])
        assert isinstance(answer, tuple)
        return replace(one, allocation=answer[0])

    written, assumed = allocated(claim(want("gpu"), name="written")), allocated(claim(want("nic"), name="assumed"))
    built.ledger.upsert_claim(written)
    assert assumed.allocation is not None
    assert written.allocation is not None
    built.ledger.assume(assumed.uid, assumed.allocation)
    before = built.ledger.usage_snapshot(), built.ledger.free_counters()
    ended = [
        UseChange("uid-written", written.allocation, ends=True),
        UseChange("uid-assumed", assumed.allocation, ends=True),
    ]
    for change in ended:
        built.ledger.apply(change)
    assert built.ledger.usage_snapshot() == {}
    assert names(built.allocate("n1", {}, [claim(want("gpu"))])) == [["gpu"]]
    for change in reversed(ended):
        built.ledger.revert(change)
    assert (built.ledger.usage_snapshot(), built.ledger.free_counters()) == before
