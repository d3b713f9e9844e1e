"""Claims that together hold more than there is are found, and only these."""

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Fleet
from driver.model import Allocation, Claim, Device, DeviceId, Result
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, memory, pool, q, want
from tests.unit.controller.allocation.test_laws import cards, claims, consumption

POOL = f"{NODE}/{DRIVER}"


def holding(built: Fleet, name: str, *devices: str, share: str = "", gib: int = 0) -> Claim:
    """A claim that holds these devices, or a share of them."""
    consumed = {"memory": q(f"{gib}Gi")} if gib else {}
    results = tuple(Result("r0", DeviceId(DRIVER, POOL, one), share_id=share, consumed=consumed) for one in devices)
    made = claim(want(), name=name)
    held = Claim(made.namespace, made.name, made.uid, made.spec, allocation=Allocation(results))
    built.ledger.upsert_claim(held)
    return held


def test_one_device_in_two_claims() -> None:
    built = fleet(*pool(device("g0"), device("g1")))
    one, two = holding(built, "one", "g0", "g1"), holding(built, "two", "g1")
    assert built.ledger.conflicting_claims(one) == {"ns/two": f"the device of {DRIVER}/{POOL}/g1"}
    assert built.ledger.conflicting_claims(two) == {"ns/one": f"the device of {DRIVER}/{POOL}/g1"}
    built.ledger.remove_claim(two.uid)
    assert built.ledger.conflicting_claims(one) == {}


def test_a_device_that_nobody_publishes_any_more() -> None:
    built = fleet()
    one, _ = holding(built, "one", "g0"), holding(built, "two", "g0")
    assert list(built.ledger.conflicting_claims(one)) == ["ns/two"]


def test_more_capacity_than_there_is() -> None:
    built = fleet(*pool(device("s", {"kind": "share"}, shared=True, capacity={"memory": memory("4Gi", "1Gi")})))
    one, two = (holding(built, name, "s", share=name, gib=2) for name in ("one", "two"))
    assert built.ledger.conflicting_claims(one) == {}
    holding(built, "three", "s", share="three", gib=1)
    assert built.ledger.conflicting_claims(one) == dict.fromkeys(
        ("ns/two", "ns/three"), f"capacity memory of {DRIVER}/{POOL}/s"
    )
    assert set(built.ledger.conflicting_claims(two)) == {"ns/one", "ns/three"}


def test_a_card_and_a_partition_of_it() -> None:
    devices = [
        device("g0", draws={"c0.u": 2}),
        device("m0", draws={"c0.u": 1}),
        device("m1", draws={"c0.u": 1}),
        device("g1", draws={"c1.u": 2}),
    ]
    built = fleet(*pool(*devices, sets={"c0": {"u": 2}, "c1": {"u": 2}}))
    one, two, far = (holding(built, name, at) for name, at in (("one", "m0"), ("two", "m1"), ("far", "g1")))
    assert built.ledger.conflicting_claims(one) == built.ledger.conflicting_claims(two) == {}
    holding(built, "whole", "g0")
    assert set(built.ledger.conflicting_claims(one)) == {"ns/two", "ns/whole"}
    assert built.ledger.conflicting_claims(one)["ns/whole"] == f"counter c0.u of {DRIVER}/{POOL}/m0"
    assert built.ledger.conflicting_claims(far) == {}


@given(cards(), st.lists(claims(), max_size=6))
def test_what_is_allocated_here_never_conflicts(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: list[Claim]
) -> None:
    built = fleet(*pool(*made[0], sets=made[1]), step_limit=100_000)
    held: list[Claim] = []
    for number, one in enumerate(asked):
        answer = built.allocate(NODE, {}, [one])
        if isinstance(answer, tuple):
            held.append(Claim("ns", f"c{number}", f"u{number}", one.spec, allocation=answer[0]))
            built.ledger.upsert_claim(held[-1])
    assert not [built.ledger.conflicting_claims(one) for one in held if built.ledger.conflicting_claims(one)]


@given(cards(), st.lists(claims(), min_size=2, max_size=4))
def test_claims_that_were_allocated_apart_conflict_exactly_if_they_take_too_much_together(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: list[Claim]
) -> None:
    built, held = fleet(*pool(*made[0], sets=made[1]), step_limit=100_000), list[Claim]()
    for number, one in enumerate(asked):
        answer = built.allocate(NODE, {}, [one])
        if isinstance(answer, tuple):
            held.append(Claim("ns", f"c{number}", f"u{number}", one.spec, allocation=answer[0]))
    for one in held:
        built.ledger.upsert_claim(one)
    results = [result for one in held for result in (one.allocation.results if one.allocation else ())]
    assert bool(consumption(made[0], results)) == any(built.ledger.conflicting_claims(one) for one in held)
