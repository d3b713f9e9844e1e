"""Shares of one card agree in how they share it: in the strategy and in the time slice."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import CompiledRequest, Fleet, NodeReasons, UseChange
from driver.model import Allocation, Claim, Device, DeviceClass, OpaqueConfig
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, memory, names, pool, want

Mode = tuple[str, str]
"""``sharing`` and ``interval``; "" for none."""
PLAIN: Mode = ("", "")
MODES: Sequence[Mode] = [
    PLAIN,
    ("none", ""),
    ("mps", ""),
    ("timeSlicing", ""),
    ("timeSlicing", "long"),
    ("hamiCore", ""),
]


def config(mode: Mode, *requests: str, driver: str = DRIVER) -> OpaqueConfig:
    fields = {"sharing": mode[0], "interval": mode[1]}
    content: dict[str, Any] = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig"}
    return OpaqueConfig(driver, content | {key: value for key, value in fields.items() if value}, requests)


def share(mode: Mode = PLAIN, gib: int = 1, name: str = "c") -> Claim:
    return claim(want("share", capacity={"memory": f"{gib}Gi"}), config=(config(mode),), name=name)


def cards(*gib: int) -> tuple[list[Device], dict[str, dict[str, int]]]:
    devices, sets = [], {}
    for number, size in enumerate(gib):
        sets[f"card-{number}"] = {"slices": 4}
        draws = {f"card-{number}.slices": 4}
        capacity = {"memory": memory(f"{size}Gi", "1Gi")}
        devices.append(device(f"share-{number}", {"kind": "share"}, draws=draws, capacity=capacity, shared=True))
    return devices, sets


def node(*gib: int) -> Fleet:
    devices, sets = cards(*gib)
    return fleet(*pool(*devices, sets=sets))


def give(built: Fleet, *asked: Claim) -> Sequence[list[str]]:
    """The devices that each claim gets, one after another."""
    found = []
    for one in asked:
        answer = built.allocate(NODE, {}, [one])
        found += names(answer)
        assert isinstance(answer, tuple)
        built.ledger.upsert_claim(replace(one, allocation=answer[0]))
    return found


def test_a_small_share_with_mps_sends_the_next_tenant_to_another_card() -> None:
    built = node(16, 16)
    tenants = give(built, share(("mps", ""), name="first"), share(name="second"), share(("mps", ""), name="third"))
    assert tenants == [["share-0"], ["share-1"], ["share-0"]]


def test_a_refusal_says_how_the_devices_are_shared() -> None:
    built = node(16, 16)
    give(built, share(("mps", ""), name="first"), share(("timeSlicing", "long"), name="second"))
    answer = built.allocate(NODE, {}, [share(name="third")])
    assert isinstance(answer, NodeReasons)
    (reason,) = answer.sentences
    assert "0 of 2 devices fit (1 shared with mps, 1 shared with timeSlicing long)" in reason
    assert "in use by ns/first, ns/second" in reason
    assert not answer.for_good
    built.ledger.remove_claim("uid-second")
    assert give(built, share(name="third")) == [["share-1"]]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (PLAIN, ("none", ""), True),
        (("timeSlicing", ""), ("timeSlicing", "default"), True),
        (("timeSlicing", "long"), ("timeSlicing", "long"), True),
        (("timeSlicing", "long"), ("timeSlicing", "short"), False),
        (("timeSlicing", "long"), PLAIN, False),
        (("hamiCore", ""), ("hamiCore", ""), True),
        (("hamiCore", ""), PLAIN, False),
        (("mps", ""), ("hamiCore", ""), False),
    ],
)
def test_who_can_share_a_card(one: Mode, other: Mode, together: bool) -> None:
    built = node(16)
    give(built, share(one, name="one"))
    assert isinstance(built.allocate(NODE, {}, [share(other, name="other")]), tuple) == together


def test_the_last_strategy_counts_and_the_claim_overrides_its_class() -> None:
    built = node(16, 16)
    of_class = DeviceClass("mps", (f'device.attributes["{DRIVER}"].kind == "share"',), (config(("mps", "")),))
    built.upsert_class(of_class)
    plain = claim(want("mps"), name="of-class")
    overridden = claim(want("mps"), config=(config(("none", "")),), name="overridden")
    assert give(built, share(name="default"), overridden, plain) == [["share-0"], ["share-0"], ["share-1"]]


def test_the_parameters_of_another_driver_and_of_other_requests_do_not_count() -> None:
    built = node(16)
    asked = claim(
        want("share", capacity={"memory": "1Gi"}),
        config=(config(("mps", ""), driver="gpu.example.com"), config(("mps", ""), "r7")),
        name="other",
    )
    assert give(built, share(name="default"), asked) == [["share-0"], ["share-0"]]


def test_an_alternative_has_the_strategy_of_its_own_parameters() -> None:
    built = node(16)
    give(built, share(name="default"))
    wants = tuple(want("share", capacity={"memory": "1Gi"}, name=name) for name in ("a", "b"))
    asked = claim(wants, config=(config(("mps", ""), "r0/a"),), name="alternatives")
    answer = built.allocate(NODE, {}, [asked])
    assert isinstance(answer, tuple)
    (allocation,) = answer
    assert [result.request for result in allocation.results] == ["r0/b"]


def test_devices_of_another_driver_are_shared_as_that_driver_says() -> None:
    (one,), _ = cards(16)
    built = fleet(*pool(replace(one, consumes=()), driver="gpu.example.com"))
    built.upsert_class(DeviceClass("share"))
    assert give(built, share(("mps", ""), name="first"), share(name="second")) == [["share-0"], ["share-0"]]


# Laws


@st.composite
def asking(draw: st.DrawFn, name: str = "c") -> Claim:
    """A claim with a few shares, each with parameters of its own."""
    modes = draw(st.lists(st.sampled_from(MODES), min_size=1, max_size=3))
    wants = [want("share", capacity={"memory": f"{draw(st.integers(1, 3))}Gi"}) for _ in modes]
    return claim(*wants, config=tuple(config(mode, f"r{at}") for at, mode in enumerate(modes) if mode[0]), name=name)


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
many = st.lists(asking(), min_size=1, max_size=5)


def mode_of(one: Claim, request: str) -> Mode:
    """The mode of a request of ``asking``."""
    for entry in one.spec.config:
        if entry.requests == (request,):
            interval = entry.parameters.get("interval", "")
            return str(entry.parameters["sharing"]), str(interval)
    return ("none", "")


def held(allocations: Sequence[tuple[Claim, Allocation]]) -> Iterator[tuple[str, Mode, int]]:
    """Device, mode and memory of each share."""
    for one, allocation in allocations:
        for result in allocation.results:
            yield result.device.device, mode_of(one, result.request), result.consumed["memory"].value


def sound(gib: Sequence[int], shares: Sequence[tuple[str, Mode, int]]) -> bool:
    """Whether the shares of each card agree, and are no more than the card."""
    for number, size in enumerate(gib):
        mine = [one for one in shares if one[0] == f"share-{number}"]
        if len({mode for _, mode, _ in mine}) > 1 or sum(amount for *_, amount in mine) > size << 30:
            return False
    return True


@settings(max_examples=100)
@given(sizes, many, asking(), st.booleans())
def test_a_pod_fits_exactly_if_there_are_cards_whose_shares_agree(
    gib: list[int], before: list[Claim], asked: Claim, split: bool
) -> None:
    built, used = node(*gib), list[tuple[Claim, Allocation]]()
    for number, one in enumerate(before):
        named = replace(one, name=f"b{number}", uid=f"b{number}")
        answer = built.allocate(NODE, {}, [named])
        if isinstance(answer, tuple):
            built.ledger.upsert_claim(replace(named, allocation=answer[0]))
            used.append((named, answer[0]))
            assert sound(gib, list(held(used)))
    pod = [asked, replace(asked, name="twin", uid="twin")] if split else [asked]
    wanted = [
        (mode_of(one, request.name), request.wants[0].capacity["memory"].value)
        for one in pod
        for request in one.spec.requests
    ]
    taken = list(held(used))
    possible = any(
        sound(gib, [*taken, *((f"share-{at}", mode, amount) for at, (mode, amount) in zip(place, wanted, strict=True))])
        for place in itertools.product(range(len(gib)), repeat=len(wanted))
    )
    answer = built.allocate(NODE, {}, pod)
    assert isinstance(answer, tuple) == possible
    if isinstance(answer, tuple):
        assert sound(gib, [*taken, *held(list(zip(pod, answer, strict=True)))])
    request = built.compile(pod)
    assert isinstance(request, CompiledRequest)
    built.ledger.upsert_node(NODE, {})
    found = [built.fit(slot, request, pod) for slot in built.candidates(request)]
    assert [one for one in found if one] == ([answer] if isinstance(answer, tuple) else [])


@settings(max_examples=50)
@given(sizes, many, asking())
def test_a_node_has_room_as_often_as_pods_are_given_devices(gib: list[int], before: list[Claim], asked: Claim) -> None:
    built = node(*gib)
    built.ledger.upsert_node(NODE, {})
    for number, one in enumerate(before):
        named = replace(one, uid=f"b{number}")
        answer = built.allocate(NODE, {}, [named])
        if isinstance(answer, tuple):
            built.ledger.upsert_claim(replace(named, allocation=answer[0]))
    most = 0
    request = built.compile([asked])
    assert isinstance(request, CompiledRequest)
    bound = built.most_fits(built.slot(NODE, {}), request)
    while isinstance(answer := built.allocate(NODE, {}, [asked]), tuple):
        built.ledger.apply(UseChange(asked.uid, answer[0]))
        most += 1
    assert most <= bound


@given(sizes, many)
def test_how_cards_are_shared_is_known_from_the_claims_alone(gib: list[int], asked: list[Claim]) -> None:
    built, again, empty = node(*gib), node(*gib), node(*gib)
    given_claims = []
    for number, one in enumerate(asked):
        named = replace(one, uid=f"u{number}")
        answer = built.allocate(NODE, {}, [named])
        if isinstance(answer, tuple):
            built.ledger.assume(named.uid, answer[0])
            given_claims.append(replace(named, allocation=answer[0]))
            built.ledger.upsert_claim(given_claims[-1])
    for one in reversed(given_claims):
        again.ledger.upsert_claim(one)
    assert built.ledger.usage_snapshot() == again.ledger.usage_snapshot()
    for one in given_claims:
        built.ledger.remove_claim(one.uid)
    assert built.ledger.usage_snapshot() == empty.ledger.usage_snapshot()
