"""The example at the top of ``controller.allocation.ledger``, event by event."""

from collections.abc import Sequence
from dataclasses import replace

from controller.allocation import DeviceLedger
from controller.allocation.devices.layout import bits
from driver.model import Allocation, DeviceId, Result
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, memory, pool, q

CARD = pool(
    device("whole", draws={"card.slices": 4}),
    device("half-0", draws={"card.slices": 2}),
    device("half-1", draws={"card.slices": 2}),
    device("share", draws={"card.slices": 4}, capacity={"memory": memory("40Gi")}, shared=True),
    sets={"card": {"slices": 4}},
)
ALL = ("whole", "half-0", "half-1", "share")
State = tuple[int, Sequence[str], Sequence[str], Sequence[str], int]
"""As a row of the example: free slices; devices in use, exhausted, and available; and the memory left, in Gi."""


def has(name: str, amount: str = "") -> Allocation:
    """An allocation of the device, or of so much of its memory."""
    found = DeviceId(DRIVER, f"{NODE}/{DRIVER}", name)
    return Allocation((Result("r0", found, share_id=amount, consumed={"memory": q(amount)} if amount else {}),))


def state(ledger: DeviceLedger) -> State:
    ledger.index.settle()
    (card,) = ledger.index.pools.values()

    def named(devices: int) -> Sequence[str]:
        return tuple(card.devices[number].id.device for number in bits(devices))

    left = q("40Gi").nanos - card.devices[3].use.consumed.get("memory", 0)
    slices = card.free[0] // q("1").nanos
    return slices, named(card.used), named(card.exhausted), named(card.available), left // q("1Gi").nanos


def test_the_example_is_as_it_says() -> None:
    ledger = fleet(*CARD).ledger
    assert state(ledger) == (4, (), (), ALL, 40)
    ledger.assume("a", has("half-0"))
    assert state(ledger) == (2, ("half-0",), ("half-0",), ("half-1",), 40)
    ledger.forget("a")
    ledger.assume("b", has("share", "10Gi"))
    assert state(ledger) == (0, ("share",), (), ("share",), 30)
    ledger.assume("c", has("share", "30Gi"))
    assert state(ledger) == (0, ("share",), (), ("share",), 0)
    ledger.forget("b")
    assert state(ledger) == (0, ("share",), (), ("share",), 10)
    ledger.forget("c")
    assert state(ledger) == (4, (), (), ALL, 40)


def test_if_two_programs_allocate_counters_are_below_0_and_the_claims_are_named() -> None:
    ledger = fleet(*CARD).ledger
    one = replace(claim(name="a"), allocation=has("half-0"))
    ledger.upsert_claim(one)
    ledger.upsert_claim(replace(claim(name="b"), allocation=has("share", "10Gi")))
    assert state(ledger)[:2] == (-2, ("half-0", "share"))
    assert ledger.conflicting_claims(one) == {"ns/b": f"counter card.slices of {DRIVER}/{NODE}/{DRIVER}/half-0"}
