"""The status of a claim says what keeps containers within their share of a card."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest

from controller.reconcile.enforcement import device_statuses
from driver.model import Allocation, DeviceId, OpaqueConfig, Result
from driver.parameters import GpuConfig
from driver.quantity import Quantity

STRATEGIES = get_args(GpuConfig.model_fields["sharing"].annotation)


def share(cores: int = 30, request: str = "card", share_id: str = "a") -> Result:
    consumed = {"memory": Quantity.of(1024), "cores": Quantity.of(cores), "slots": Quantity.of(1)}
    return Result(request, DeviceId("lode.dev", "n1/lode.dev", "gpu-0-share"), share_id, consumed)


def card(request: str = "card") -> Result:
    return Result(request, DeviceId("lode.dev", "n1/lode.dev", "gpu-1"))


def config(*requests: str, kind: str = "GpuConfig", driver: str = "lode.dev", **fields: Any) -> OpaqueConfig:
    return OpaqueConfig(driver, {"kind": kind, **fields}, requests)


def said(results: Sequence[Result], *entries: OpaqueConfig) -> list[tuple[str, str, list[str]]]:
    """Device, strategy and what it enforces of each entry."""
    found = device_statuses(Allocation(tuple(results), entries))
    return [(entry["device"], entry["data"]["sharing"], entry["data"]["enforces"]) for entry in found]


@pytest.mark.parametrize(
    ("sharing", "enforced"),
    [("none", []), ("timeSlicing", ["time"]), ("mps", ["memory", "cores"]), ("hamiCore", ["memory", "cores"])],
)
def test_of_a_share_the_strategy_says_what_is_enforced(sharing: str, enforced: list[str]) -> None:
    assert said([share()], config(sharing=sharing)) == [("gpu-0-share", sharing, enforced)]


def test_the_table_has_every_strategy() -> None:
    for sharing in STRATEGIES:
        (entry,) = device_statuses(Allocation((share(),), (config(sharing=sharing),)))
        assert entry["data"]["note"]


def test_cores_that_were_not_asked_for_are_not_limited() -> None:
    assert said([share(cores=0)], config(sharing="mps")) == [("gpu-0-share", "mps", ["memory"])]


def test_without_a_strategy_it_is_said_that_nothing_limits_a_share() -> None:
    assert said([share()]) == [("gpu-0-share", "none", [])]


def test_nothing_is_said_of_a_card_that_is_not_shared() -> None:
    assert said([card()]) == []
    assert said([card()], config(sharing="none")) == []
    assert said([card()], config(kind="NpuConfig", sharing="none")) == []


def test_a_whole_card_has_no_share_that_could_be_limited() -> None:
    assert said([card()], config(sharing="mps")) == [("gpu-1", "mps", [])]
    assert said([card()], config(sharing="timeSlicing")) == [("gpu-1", "timeSlicing", ["time"])]


def test_the_last_entry_that_names_a_strategy_for_the_request_counts() -> None:
    entries = [
        config(sharing="mps"),
        config("other", sharing="hamiCore"),
        config(sharing="timeSlicing", driver="gpu.example"),
        config(kind="PlacementConfig", policy="spread"),
        config("card", interval="long"),
    ]
    assert said([share(request="card/small")], *entries) == [("gpu-0-share", "mps", ["memory", "cores"])]
    assert said([share(request="other")], *entries) == [("gpu-0-share", "hamiCore", ["memory", "cores"])]


def test_an_entry_is_known_by_its_device_and_share() -> None:
    (first, second) = device_statuses(Allocation((share(share_id="a"), share(share_id="b"))))
    assert [first.pop("shareID"), second.pop("shareID")] == ["a", "b"]
    assert {name: first[name] for name in ("driver", "pool", "device")} == {
        "driver": "lode.dev",
        "pool": "n1/lode.dev",
        "device": "gpu-0-share",
    }


def test_who_only_looks_at_a_card_is_not_limited() -> None:
    looks = Result("card", card().device, admin_access=True)
    assert said([looks], config(sharing="mps")) == []
