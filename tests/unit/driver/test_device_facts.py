"""The status of a claim says which card each device is, and what keeps containers within their share of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.device_facts import MOST_BYTES, device_statuses
from driver.limits import MAX_ATTRIBUTE_BYTES
from driver.model import (
    Allocation,
    AttributeValue,
    Capacity,
    Device,
    DeviceId,
    NodeRequirement,
    NodeSelector,
    NodeSelectorTerm,
    OpaqueConfig,
    Result,
    Version,
)
from driver.names import PCI_BUS_ID, Names
from driver.parameters import GpuConfig
from driver.quantity import Quantity

NAMES = Names("lode.dev")
STRATEGIES = get_args(GpuConfig.model_fields["sharing"].annotation)
ON_N1 = NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", ("n1",)),)),))


def device(name: str, profile: str = "", memory: str = "80Gi", cores: str = "100") -> Device:
    attributes: dict[str, AttributeValue] = {"uuid": "GPU-7", "type": "A100", "profile": profile, "index": 0}
    capacity = {"memory": Capacity(Quantity.parse(memory)), "cores": Capacity(Quantity.parse(cores))}
    named = {NAMES.attribute(key): value for key, value in attributes.items()}
    return Device(name, {**named, PCI_BUS_ID: "0000:3b:00.0"}, capacity)


PUBLISHED: Mapping[str, Device] = {
    one.name: one
    for one in (
        device("gpu-0-share"),
        device("gpu-1"),
        device("gpu-1-mig-1g-10gb-3", "1g.10gb", "9728Mi", "14"),
        device("npu-3-vir02-1c-0", "vir02_1c", "12Gi", "25"),
    )
}
CARD = {"apiVersion": "lode.dev/v1alpha1", "kind": "DeviceFacts", "node": "n1", "uuid": "GPU-7", "type": "A100"}


def share(cores: int = 30, request: str = "card", share_id: str = "a") -> Result:
    consumed = {"memory": Quantity.whole(1024, "BinarySI"), "cores": Quantity.whole(cores), "slots": Quantity.whole(1)}
    return Result(request, DeviceId("lode.dev", "n1/lode.dev", "gpu-0-share"), share_id, consumed)


def card(name: str = "gpu-1", request: str = "card", *, admin: bool = False) -> Result:
    return Result(request, DeviceId("lode.dev", "n1/lode.dev", name), admin_access=admin)


def config(*requests: str, kind: str = "GpuConfig", driver: str = "lode.dev", **fields: Any) -> OpaqueConfig:
    return OpaqueConfig(driver, {"kind": kind, **fields}, requests)


def written(
    results: Sequence[Result], *entries: OpaqueConfig, known: Mapping[str, Device] = PUBLISHED
) -> list[dict[str, Any]]:
    """The entries of ``status.devices``."""
    allocation = Allocation(tuple(results), entries, ON_N1)
    return [*device_statuses(allocation, NAMES, lambda found: known.get(found.device))]


def said(results: Sequence[Result], *entries: OpaqueConfig) -> list[tuple[str, str, list[str]]]:
    """Device, strategy and what it enforces of each entry that says it."""
    found = [entry for entry in written(results, *entries) if "sharing" in entry["data"]]
    return [(entry["device"], entry["data"]["sharing"], entry["data"]["enforces"]) for entry in found]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("gpu-1", {"card": "gpu-1", "memory": "80Gi", "cores": 100}),
        ("gpu-1-mig-1g-10gb-3", {"card": "gpu-1", "profile": "1g.10gb", "memory": "9728Mi", "cores": 14}),
        ("npu-3-vir02-1c-0", {"card": "npu-3", "profile": "vir02_1c", "memory": "12Gi", "cores": 25}),
    ],
)
def test_whole_cards_and_partitions_say_which_card_they_are(name: str, facts: dict[str, Any]) -> None:
    (entry,) = written([card(name)])
    assert entry == {
        "driver": "lode.dev",
        "pool": "n1/lode.dev",
        "device": name,
        "data": {**CARD, "pciBusID": "0000:3b:00.0", **facts},
    }


def test_a_share_says_its_amounts_and_who_enforces_them() -> None:
    (entry,) = written([share()], config(sharing="mps"))
    data = entry["data"]
    assert {name: data[name] for name in ("card", "memory", "cores", "sharing", "enforces", "enforcedBy")} == {
        "card": "gpu-0",
        "memory": "1Ki",
        "cores": 30,
        "sharing": "mps",
        "enforces": ["memory", "cores"],
        "enforcedBy": "MPS daemon",
    }


@pytest.mark.parametrize(
    ("sharing", "enforced"),
    [("none", []), ("timeSlicing", ["time"]), ("mps", ["memory", "cores"]), ("hamiCore", ["memory", "cores"])],
)
def test_of_a_share_the_strategy_says_what_is_enforced(sharing: str, enforced: list[str]) -> None:
    assert said([share()], config(sharing=sharing)) == [("gpu-0-share", sharing, enforced)]


def test_every_strategy_has_a_note_and_names_who_enforces_anything() -> None:
    for sharing in STRATEGIES:
        (entry,) = written([share()], config(sharing=sharing))
        assert entry["data"]["note"]
        assert ("enforcedBy" in entry["data"]) == bool(entry["data"]["enforces"])


def test_cores_that_were_not_asked_for_are_not_limited() -> None:
    assert said([share(cores=0)], config(sharing="mps")) == [("gpu-0-share", "mps", ["memory"])]


def test_without_a_strategy_it_is_said_that_nothing_limits_a_share() -> None:
    assert said([share()]) == [("gpu-0-share", "none", [])]


def test_of_a_card_that_is_not_shared_no_limit_is_said() -> None:
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
    (first, second) = written([share(share_id="a"), share(share_id="b")])
    assert [first.pop("shareID"), second.pop("shareID")] == ["a", "b"]
    assert {name: first[name] for name in ("driver", "pool", "device")} == {
        "driver": "lode.dev",
        "pool": "n1/lode.dev",
        "device": "gpu-0-share",
    }


def test_who_only_looks_at_a_card_has_none_of_it() -> None:
    (entry,) = written([card(admin=True)], config(sharing="mps"))
    assert entry["data"] == {**CARD, "card": "gpu-1", "pciBusID": "0000:3b:00.0", "adminAccess": True}


def test_a_device_that_a_claim_also_looks_at_has_one_entry_as_the_api_requires() -> None:
    (entry,) = written([card(request="looks", admin=True), card()])
    assert "adminAccess" not in entry["data"]


def test_devices_of_other_drivers_are_left_to_them() -> None:
    other = Result("card", DeviceId("gpu.example", "n1", "gpu-1"))
    assert [entry["driver"] for entry in written([other, card()])] == ["lode.dev"]


def test_a_device_that_is_not_published_any_more_says_what_the_allocation_says() -> None:
    (entry,) = written([share()], known={})
    assert {name: entry["data"].get(name) for name in ("node", "card", "memory", "uuid")} == {
        "node": "n1",
        "card": "gpu-0",
        "memory": "1Ki",
        "uuid": None,
    }


def test_an_attribute_without_a_value_is_left_out() -> None:
    blank = Device("gpu-1", {NAMES.attribute("uuid"): "", NAMES.attribute("type"): 7})
    (entry,) = written([card()], known={"gpu-1": blank})
    assert not {"uuid", "type", "pciBusID", "memory", "cores"} & entry["data"].keys()


VALUES = st.one_of(
    st.text(max_size=2 * MAX_ATTRIBUTE_BYTES),
    st.text("\x1b\n\ud800€", max_size=8),
    st.integers(),
    st.booleans(),
    st.builds(Version, st.text()),
    st.lists(st.text(), max_size=2).map(tuple),
)
AMOUNTS = st.integers(-(10**60), 10**60).map(Quantity) | st.integers(0, 2**63).map(
    lambda n: Quantity.whole(n, "BinarySI")
)


@given(
    values=st.fixed_dictionaries(dict.fromkeys(("uuid", "type", "profile", "bus"), VALUES)),
    memory=AMOUNTS,
    cores=AMOUNTS,
    name=st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    sharing=st.sampled_from(STRATEGIES),
    shared=st.booleans(),
    node=st.from_regex(r"[a-z]([-a-z0-9]{0,251}[a-z0-9])?", fullmatch=True),
)
def test_whatever_slices_say_a_document_is_small_and_readable(
    *,
    values: dict[str, AttributeValue],
    memory: Quantity,
    cores: Quantity,
    name: str,
    sharing: str,
    shared: bool,
    node: str,
) -> None:
    attributes = {PCI_BUS_ID if key == "bus" else NAMES.attribute(key): value for key, value in values.items()}
    hostile = Device(name, attributes, {"memory": Capacity(memory), "cores": Capacity(cores)})
    consumed = {"memory": memory, "cores": cores} if shared else {}
    result = Result("card", DeviceId("lode.dev", "n1/lode.dev", name), "a" * 36 if shared else "", consumed)
    on_node = NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", (node,)),)),))
    allocation = Allocation((result,), (config(sharing=sharing),), on_node)
    (entry,) = device_statuses(allocation, NAMES, lambda _: hostile)
    text = json.dumps(entry["data"], ensure_ascii=False)
    assert len(text.encode()) <= MOST_BYTES
    assert all(value.isprintable() for value in entry["data"].values() if isinstance(value, str))
