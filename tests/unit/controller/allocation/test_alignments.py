"""Claims of a pod whose devices must have a value of an attribute in common."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import Fleet
from driver.model import Alignment, AttributeValue, Claim, Constraint, Device, OpaqueConfig
from tests.unit.controller.allocation.small_fleets import (
    DRIVER,
    NODE,
    claim,
    device,
    fleet,
    names,
    pool,
    refused,
    want,
)

ROOT = f"{DRIVER}/root"
Roots = tuple[str, ...]
"""The values of a device; a device without any lacks the attribute."""


def on(name: str, kind: str, *roots: str) -> Device:
    value: AttributeValue = roots[0] if len(roots) == 1 else roots
    return device(name, {"kind": kind, **({"root": value} if roots else {})})


def gpus(count: int = 1, name: str = "gpu") -> Claim:
    return claim(want("gpu", count=count), name=name)


def nics(count: int = 1, name: str = "nic") -> Claim:
    return claim(want("nic", count=count), name=name)


def held(*roots: str) -> frozenset[tuple[type, str]]:
    return frozenset((str, root) for root in roots)


def tie(one: Claim, other: Claim, *requests: str, preferred: bool = False) -> list[Claim]:
    """The claims, which say that they are aligned."""
    alignment = Alignment(ROOT, (one.uid, other.uid), (one.name, other.name), requests, preferred=preferred)
    return [replace(it, aligned=(*it.aligned, alignment)) for it in (one, other)]


def beside(one: Claim, other: str, *roots: str) -> Claim:
    """The claim, aligned with one that holds devices with these values."""
    return replace(
        one,
        aligned=(Alignment(ROOT, (one.uid, "held"), (one.name, other), holder=other, values=held(*roots)),),
    )


BOARD = [
    on("gpu-0", "gpu", "a"),
    on("gpu-1", "gpu", "b"),
    on("gpu-2", "gpu", "b"),
    on("nic-0", "nic", "c"),
    on("nic-1", "nic", "b"),
]


def test_devices_of_two_claims_share_a_value_whichever_comes_first() -> None:
    built = fleet(*pool(*BOARD))
    one, other = tie(gpus(), nics())
    assert names(built.allocate(NODE, {}, [one, other])) == [["gpu-1"], ["nic-1"]]
    assert names(built.allocate(NODE, {}, [other, one])) == [["nic-1"], ["gpu-1"]]
    assert names(built.allocate(NODE, {}, [gpus(), nics()])) == [["gpu-0"], ["nic-0"]]


def test_all_devices_of_both_claims_share_it() -> None:
    built = fleet(*pool(*BOARD))
    assert names(built.allocate(NODE, {}, tie(gpus(2), nics()))) == [["gpu-1", "gpu-2"], ["nic-1"]]
    assert not isinstance(built.allocate(NODE, {}, tie(gpus(2), nics(2))), tuple)


def test_only_the_requests_for_which_it_is_said_are_bound() -> None:
    both = claim(want("gpu"), want("gpu"), name="gpu")
    built = fleet(*pool(*BOARD))
    assert names(built.allocate(NODE, {}, tie(both, nics(), "r1"))) == [["gpu-0", "gpu-1"], ["nic-1"]]


def test_a_list_of_values_needs_one_in_common() -> None:
    built = fleet(*pool(on("gpu-0", "gpu", "a", "b"), on("nic-0", "nic", "c"), on("nic-1", "nic", "b", "c")))
    assert names(built.allocate(NODE, {}, tie(gpus(), nics()))) == [["gpu-0"], ["nic-1"]]


def test_a_claim_that_is_allocated_binds_the_other() -> None:
    built = fleet(*pool(*BOARD))
    assert names(built.allocate(NODE, {}, [beside(gpus(), "nic", "b")])) == [["gpu-1"]]
    assert names(built.allocate(NODE, {}, [beside(gpus(2), "nic", "x", "b")])) == [["gpu-1", "gpu-2"]]


@pytest.mark.parametrize("first", ["gpu", "nic"])
def test_a_refusal_names_both_claims_the_attribute_and_what_is_missing(first: str) -> None:
    built = fleet(*pool(on("gpu-0", "gpu", "a"), on("nic-0", "nic", "c"), on("nic-1", "nic")))
    asked = tie(gpus(), nics())
    said = refused(built.allocate(NODE, {}, asked if first == "gpu" else asked[::-1])).sentences
    another = "1 with another lode.dev/root than claims gpu and nic can share"
    without = ", 1 without lode.dev/root, which claims gpu and nic have to share" if first == "gpu" else ""
    assert said[-1] == f"every request fits alone, but not together: {another}{without}"


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        (("b", "z"), "with another lode.dev/root than b or z of claim nic, which claims gpu and nic have to share"),
        ((), "not aligned: claims gpu and nic have to share lode.dev/root, and the devices of nic have none in common"),
    ],
)
def test_a_refusal_beside_a_claim_that_is_allocated_says_what_that_has(roots: Roots, said: str) -> None:
    built = fleet(*pool(on("gpu-0", "gpu", "a")))
    assert refused(built.allocate(NODE, {}, [beside(gpus(), "nic", *roots)])).sentences[-1].endswith(f": 1 {said}")


def test_what_is_preferred_or_cannot_be_known_binds_nobody() -> None:
    built = fleet(*pool(*BOARD))
    assert names(built.allocate(NODE, {}, tie(gpus(), nics(), preferred=True))) == [["gpu-0"], ["nic-0"]]
    assert names(built.allocate(NODE, {}, tie(gpus(), nics())[:1])) == [["gpu-0"]]


def test_like_pods_share_a_compiled_request_and_others_do_not() -> None:
    built = fleet(*pool(*BOARD))
    card, nic = gpus(name="gpu-b"), nics(name="nic-b")
    compiled = built.compile(tie(gpus(name="gpu-a"), nics(name="nic-a")))
    assert built.compile(tie(card, nic)) is compiled
    others = [tie(card, nic)[::-1], [card, nic], tie(card, nic, "r0"), [beside(card, "nic", "b"), nic]]
    assert len({compiled, *(built.compile(claims) for claims in others)}) == 1 + len(others)


def test_pods_on_one_node_are_aligned_each_for_itself() -> None:
    built = fleet(
        *pool(on("gpu-0", "gpu", "a"), on("gpu-1", "gpu", "b"), on("nic-0", "nic", "b"), on("nic-1", "nic", "a"))
    )
    pods = [tie(gpus(name=f"gpu-{pod}"), nics(name=f"nic-{pod}")) for pod in "ab"]
    found = names(built.allocate(NODE, {}, [one for pod in pods for one in pod]))
    assert found == [["gpu-0"], ["nic-1"], ["gpu-1"], ["nic-0"]]


# Against all choices there are

roots = st.lists(st.sampled_from("abcdef"), max_size=2, unique=True).map(tuple)
devices = st.lists(st.tuples(st.sampled_from(["gpu", "nic"]), roots), min_size=1, max_size=7).map(
    lambda made: [on(f"{kind}-{number}", kind, *values) for number, (kind, values) in enumerate(made)]
)


def policy(name: str) -> tuple[OpaqueConfig, ...]:
    parameters = {"apiVersion": f"{DRIVER}/v1alpha1", "kind": "PlacementConfig", "policy": name}
    return (OpaqueConfig(DRIVER, parameters),)


POLICIES = ((), (), policy("binpack"), policy("spread"))


@st.composite
def pods(draw: st.DrawFn) -> list[Claim]:
    """Two or three claims, some of them aligned with one another or with what is allocated; with any policy."""
    claims = []
    for number in range(draw(st.integers(2, 3))):
        wants = [want(draw(st.sampled_from(["gpu", "nic", "any"])), count=draw(st.integers(1, 2)))]
        if draw(st.booleans()):
            wants.append(want(draw(st.sampled_from(["gpu", "nic"]))))
        own = draw(st.sampled_from([(), (Constraint((), ROOT),), (Constraint((), "", ROOT),)]))
        claims.append(claim(*wants, constraints=own, config=draw(st.sampled_from(POLICIES)), name=f"c{number}"))
    for one, other in draw(st.lists(st.sampled_from(list(itertools.permutations(range(len(claims)), 2))), max_size=3)):
        claims[one], claims[other] = tie(claims[one], claims[other], *draw(st.sampled_from([(), ("r0",)])))
    if draw(st.integers(0, 3)) == 0:
        bound = beside(claims[0], "held", *draw(roots))
        claims[0] = replace(claims[0], aligned=(*claims[0].aligned, *bound.aligned))
    return claims


def values(one: Device) -> frozenset[str]:
    found = one.attributes.get(ROOT, ())
    return frozenset(found if isinstance(found, tuple) else (found,))  # type: ignore[arg-type]


Chosen = dict[tuple[str, str], tuple[Device, ...]]
"""The devices of each claim's requests."""


def choices(made: Sequence[Device], claims: Sequence[Claim]) -> Iterator[Chosen]:
    asked = [(one.uid, request) for one in claims for request in one.spec.requests]
    options = []
    for _, request in asked:
        [wanted] = request.wants
        able = [one for one in made if wanted.device_class in ("any", one.attributes[f"{DRIVER}/kind"])]
        options.append(list(itertools.combinations(able, wanted.count)))
    for chosen in itertools.product(*options):
        every = [one.name for some in chosen for one in some]
        if len(set(every)) == len(every):
            yield {(uid, request.name): some for (uid, request), some in zip(asked, chosen, strict=True)}


def is_sound(claims: Sequence[Claim], chosen: Chosen) -> bool:
    for one in claims:
        own = [values(it) for (uid, _), some in chosen.items() if uid == one.uid for it in some]
        for constraint in one.spec.constraints:
            if constraint.match_attribute and not frozenset.intersection(*own):
                return False
            if constraint.distinct_attribute and (
                not all(own) or any(a & b for a, b in itertools.combinations(own, 2))
            ):
                return False
        for alignment in one.aligned:
            bound = [
                values(it)
                for (uid, request), some in chosen.items()
                if uid == alignment.claims[1]
                or (uid == alignment.claims[0] and (not alignment.requests or request in alignment.requests))
                for it in some
            ]
            if alignment.values is not None:
                bound.append(frozenset(str(value) for _, value in alignment.values))
            if not frozenset.intersection(*bound):
                return False
    return True


@settings(max_examples=300)
@given(devices, pods())
def test_claims_are_aligned_exactly_if_any_choice_of_devices_is(made: list[Device], claims: list[Claim]) -> None:
    built = fleet(*pool(*made), step_limit=100_000)
    built.ledger.upsert_node(NODE, {})
    answer = built.allocate(NODE, {}, claims)
    assert isinstance(answer, tuple) == any(is_sound(claims, chosen) for chosen in choices(made, claims))
    assert found_by_fit(built, claims) == (answer if isinstance(answer, tuple) else None)
    if not isinstance(answer, tuple):
        assert answer.sentences
        assert not answer.undecided
        return
    known = {one.name: one for one in made}
    chosen: dict[tuple[str, str], tuple[Device, ...]] = {}
    for one, allocation in zip(claims, answer, strict=True):
        for result in allocation.results:
            key = one.uid, result.request
            chosen[key] = (*chosen.get(key, ()), known[result.device.device])
    assert is_sound(claims, chosen)


def found_by_fit(built: Fleet, claims: Sequence[Claim]) -> object:
    """What the question for candidates of many nodes finds, which is asked with bitsets first."""
    request = built.compile(claims)
    assert not isinstance(request, tuple)
    return next((found for slot in built.candidates(request) if (found := built.fit(slot, request, claims))), None)
