"""Every kind of device is so much of a card; what is lifted does not count until it is put back."""

from dataclasses import replace

import pytest

from controller.allocation import CARD
from driver.model import Claim
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, memory, names, pool, want

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
    assert sum(built.card_parts(answer[0]).values()) == part


def test_a_claim_that_is_lifted_does_not_count_until_it_is_put_back() -> None:
    built = fleet(*SLICES)

    def allocated(one: Claim) -> Claim:
        answer = built.allocate("n1", {}, [one])
        assert isinstance(answer, tuple)
        return replace(one, allocation=answer[0])

    written, assumed = allocated(claim(want("gpu"), name="written")), allocated(claim(want("nic"), name="assumed"))
    built.upsert_claim(written)
    assert assumed.allocation is not None
    built.assume(assumed.uid, assumed.allocation)
    before = built.usage_snapshot(), built.free_counters()
    for uid in ("uid-written", "uid-assumed"):
        built.lift(uid)
    assert built.usage_snapshot() == {}
    assert names(built.allocate("n1", {}, [claim(want("gpu"))])) == [["gpu"]]
    for uid in ("uid-written", "uid-assumed"):
        built.put_back(uid)
    assert (built.usage_snapshot(), built.free_counters()) == before
