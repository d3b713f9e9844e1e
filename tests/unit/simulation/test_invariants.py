"""The invariant checks find every conflict between holdings."""

from typing import Any

import pytest

from driver.model import DeviceId, Result
from driver.names import Names
from driver.quantity import Quantity
from simulation.invariants import Catalogue, Holding

NAMES = Names("lode.dev")
POOL = "n1/lode.dev"


def device(name: str, kind: str, index: int, counters: dict[str, str], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {"kind": {"string": kind}, "index": {"int": index}},
        "consumesCounters": [
            {"counterSet": f"gpu-{index}", "counters": {n: {"value": v} for n, v in counters.items()}}
        ],
        **more,
    }


def published(**spec: Any) -> dict[str, Any]:
    pool = {"name": POOL, "generation": 1, "resourceSliceCount": 2}
    return {"metadata": {"name": "s"}, "spec": {"driver": "lode.dev", "pool": pool, "nodeName": "n1", **spec}}


ALL = {"memory": "8", "compute": "7"}
SHARED = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100"}},
}
DEVICES = [
    device("gpu-0", "gpu", 0, ALL),
    device("gpu-0-share", "gpu-share", 0, ALL, **SHARED),
    device("gpu-0-mig-a", "mig", 0, {"memory": "4", "compute": "3"}),
    device("gpu-0-mig-b", "mig", 0, {"memory": "4", "compute": "3"}),
    device("gpu-0-mig-c", "mig", 0, {"memory": "1", "compute": "1"}),
    device("gpu-1", "gpu", 1, ALL),
]


def catalogue() -> Catalogue:
    known = Catalogue(NAMES)
    known.learn(published(devices=DEVICES))
    counters = {name: {"value": value} for name, value in ALL.items()}
    known.learn(published(sharedCounters=[{"name": f"gpu-{i}", "counters": counters} for i in (0, 1)]))
    return known


def hold(
    holder: str, name: str, share: str = "", *, driver: str = "lode.dev", admin: bool = False, **used: str
) -> Holding:
    consumed = {key: Quantity.parse(value) for key, value in used.items()}
    return Holding(holder, Result("r", DeviceId(driver, POOL, name), share, consumed, admin))


COMPATIBLE: dict[str, list[Holding]] = {
    "nothing is held": [],
    "two cards in two claims": [hold("a", "gpu-0"), hold("b", "gpu-1")],
    "two partitions of a card": [hold("a", "gpu-0-mig-a"), hold("b", "gpu-0-mig-b")],
    "two shares that fill a card": [
        hold("a", "gpu-0-share", "1", memory="40Gi", cores="50"),
        hold("b", "gpu-0-share", "2", memory="40Gi", cores="50"),
    ],
    "admin access": [hold("a", "gpu-0"), hold("b", "gpu-0", admin=True)],
    "a device of another driver": [hold("a", "x", driver="other"), hold("b", "x", driver="other")],
}

CONFLICTING: dict[str, tuple[str, list[Holding]]] = {
    "a card twice": ("is exclusive, held by a, b", [hold("a", "gpu-0"), hold("b", "gpu-0")]),
    "a card twice in one claim": ("is exclusive", [hold("a", "gpu-0"), hold("a", "gpu-0")]),
    "a card with a share id": ("with a share id", [hold("a", "gpu-0", "1")]),
    "a share without a share id": ("not all set", [hold("a", "gpu-0-share", memory="1Gi", cores="0")]),
    "one share id twice": (
        "not all set and different",
        [hold(c, "gpu-0-share", "1", memory="1Gi", cores="0") for c in "ab"],
    ),
    "more memory than a card has": (
        "memory 81Gi of 80Gi",
        [
            hold("a", "gpu-0-share", "1", memory="80Gi", cores="0"),
            hold("b", "gpu-0-share", "2", memory="1Gi", cores="0"),
        ],
    ),
    "a share that does not say its cores": (
        "consumed capacities are incomplete",
        [hold("a", "gpu-0-share", "1", memory="1Gi")],
    ),
    "a card and a share of it": (
        "card 0 is held as",
        [hold("a", "gpu-0"), hold("b", "gpu-0-share", "1", memory="1Gi", cores="0")],
    ),
    "a card and a partition of it": ("counter gpu-0/memory 12 of 8", [hold("a", "gpu-0"), hold("b", "gpu-0-mig-a")]),
    "more partitions than fit": (
        "counter gpu-0/memory 9 of 8",
        [hold("a", "gpu-0-mig-a"), hold("b", "gpu-0-mig-b"), hold("c", "gpu-0-mig-c")],
    ),
    "a device that was never published": ("was never published", [hold("a", "gpu-9")]),
}


@pytest.mark.parametrize("case", COMPATIBLE)
def test_holdings_that_fit_have_no_conflict(case: str) -> None:
    assert list(catalogue().conflicts(COMPATIBLE[case])) == []


@pytest.mark.parametrize("case", CONFLICTING)
def test_holdings_that_do_not_fit_are_named(case: str) -> None:
    message, holdings = CONFLICTING[case]
    assert message in "\n".join(catalogue().conflicts(holdings))


def test_what_is_held_of_a_card_that_somebody_else_divided_later_is_held_once() -> None:
    known = catalogue()
    less = {"memory": {"value": "4"}, "compute": {"value": "4"}}
    known.learn(published(sharedCounters=[{"name": "gpu-0", "counters": less}]))
    assert list(known.conflicts([hold("a", "gpu-0")])) == []
    assert list(known.conflicts([hold("a", "gpu-0"), hold("b", "gpu-0-mig-c")]))
