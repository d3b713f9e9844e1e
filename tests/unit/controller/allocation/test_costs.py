"""No claim and no device class takes more work than its share, and what is refused for that costs nothing again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import CompiledRequest, Fleet, TurnEnded
from controller.allocation.selectors import CLAIM_STEPS, DEVICE_STEPS, POD_STEPS, STEPS_OF_EACH_DEVICE, TURN_STEPS
from driver.cel import CostBudget, compile_selector, view
from driver.model import AttributeValue, Claim, DeviceClass, Version
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, names, pool, want

A = f'device.attributes["{DRIVER}"]'
CARDS = [device(f"gpu-{i}", {"uuid": f"GPU-{i}"}, capacity={"memory": "80Gi"}) for i in range(8)]
MOST_AT_ONCE = 4 * DEVICE_STEPS
"""The most that one piece of work can take beyond a limit: loops, text and comparisons count each for themselves."""


def nested(name: str, depth: int = 4, width: int = 18) -> str:
    """A loop in a loop ... that reads a device, as kube-apiserver admits it."""
    text = f'{A}.uuid != "{name}"'
    for variable in "abcd"[:depth]:
        text = f"{list(range(width))}.all({variable}, {text})"
    return text


def several(selector: str, requests: int, each: int, name: str = "c") -> Claim:
    """A claim whose selectors all differ."""
    wants = [
        replace(want("gpu", *[selector.replace("NAME", f"{name}-{r}-{s}") for s in range(each)]), name="")
        for r in range(requests)
    ]
    return claim(*wants, name=name)


HOSTILE = {
    "loops in loops": several(nested("NAME"), 32, 32),
    "many short loops": several(nested("NAME", 2), 32, 32),
    "long expressions": several(f'{[0] * 3000}.size() > 0 && {A}.uuid != "NAME"', 32, 32),
    "many expressions": several(f'{A}.uuid != "NAME"', 32, 32),
    "patterns": several(f'{A}.uuid.matches("[\\\\pL\\\\pN]{{9}}NAME")', 32, 4),
    "all attributes": several(f'{A}.all(a, a != "NAME")', 32, 32),
    "constants": several('lists.range(90000).size() > 0 && "NAME" != ""', 32, 32),
    "many attributes": several(" && ".join(f"!has({A}.a{i}NAME)" for i in range(200)).replace("NAME", "x"), 1, 1),
}


def answer(built: Fleet, *claims: Claim) -> tuple[str, ...]:
    """The faults of a pod's claims, found turn by turn."""
    while True:
        built.turn.begin(TURN_STEPS)
        before = built.turn.spent
        try:
            return tuple(map(str, built.too_costly(claims)))
        except TurnEnded:
            assert built.turn.spent > before
        finally:
            assert built.turn.spent - before <= TURN_STEPS + MOST_AT_ONCE


@pytest.mark.parametrize("asked", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_worst_claim_takes_little_and_nothing_at_all_when_it_is_asked_about_again(asked: Claim) -> None:
    built = fleet(*pool(*CARDS))
    faults = answer(built, asked)
    assert built.turn.spent <= CLAIM_STEPS + STEPS_OF_EACH_DEVICE * len(CARDS) + MOST_AT_ONCE
    spent = built.turn.spent
    assert answer(built, asked) == faults
    assert built.turn.spent == spent
    assert isinstance(built.compile([asked]), CompiledRequest) == (not faults)


def test_a_selector_that_takes_too_long_on_one_device_is_named_with_limit_and_remedy() -> None:
    (fault,) = answer(fleet(*pool(*CARDS)), claim(want("gpu"), want("gpu", f'{A}.kind == "gpu"', nested("x"))))
    assert fault == (
        "claim ns/c: spec.devices.requests[1].exactly.selectors[1].cel.expression: takes more steps on one device than "
        "the limit of 50000; simplify the expression: no loops inside of loops, and no long texts"
    )


def test_selectors_that_take_too_long_together_are_refused_at_the_dearest() -> None:
    expression = f'{list(range(900))}.all(x, x >= 0 && {A}.uuid != "y")'
    selectors = [f'{expression} && {A}.uuid != "{i}"' for i in range(8)]
    (fault,) = answer(fleet(*pool(*CARDS)), claim(want("gpu", *selectors)))
    assert "spec.devices.requests[0].exactly.selectors" in fault
    assert "more steps on 8 devices than the limit of 401600" in fault
    assert "use fewer, shorter or simpler expressions" in fault


def test_the_claims_of_a_pod_share_a_limit() -> None:
    asked = [several(nested("NAME", 2, 30), 2, 4, name) for name in ("one", "two", "three", "four")]
    built = fleet(*pool(*CARDS[:4]))
    assert answer(built, asked[0]) == answer(built, asked[1]) == ()
    (fault,) = answer(built, *asked)
    assert f"the selectors of the pod take more steps on 4 devices than the limit of {POD_STEPS + 800}" in fault


def test_a_device_class_is_judged_like_a_claim_and_named() -> None:
    built = fleet(*pool(*CARDS))
    built.upsert_class(DeviceClass("gpu", (nested("x"),)))
    (fault,) = answer(built, claim(want("gpu")))
    assert "device class gpu: spec.selectors[0].cel.expression: takes more steps on one device" in fault
    built.upsert_class(DeviceClass("gpu", (f'{A}.uuid == "GPU-3"',)))
    assert names(built.allocate(NODE, {}, [claim(want("gpu"))])) == [["gpu-3"]]


def test_what_is_refused_is_asked_about_again_when_devices_change() -> None:
    over_links = f"{A}.links.all(a, {A}.links.all(b, {A}.links.all(c, c != a || c != b || {A}.uuid != a)))"
    linked = [replace(CARDS[0], attributes={**CARDS[0].attributes, f"{DRIVER}/links": tuple(map(str, range(48)))})]
    built = fleet(*pool(*linked))
    assert answer(built, claim(want("gpu", over_links)))
    plain = replace(CARDS[0], attributes={**CARDS[0].attributes, f"{DRIVER}/links": ("a", "b")})
    (part,) = pool(plain)
    built.ledger.upsert_slice(part)
    assert answer(built, claim(want("gpu", over_links))) == ()


def test_copies_of_a_claim_cost_nothing() -> None:
    built = fleet(*pool(*CARDS))
    answer(built, several(nested("NAME", 2, 40), 1, 4, "one"))
    spent = built.turn.spent
    copy = replace(several(nested("NAME", 2, 40), 1, 4, "one"), name="two", uid="two")
    answer(built, copy)
    assert built.turn.spent == spent


_costs = st.lists(
    st.builds(nested, st.sampled_from("xyz"), st.integers(1, 3), st.sampled_from([3, 12, 36]))
    | st.sampled_from([f'{A}.uuid == "GPU-1"', f'{A}.uuid.contains("1")', f'{A}.exists(a, a == "uuid")', "true"]),
    min_size=1,
    max_size=6,
)


@given(st.lists(_costs, min_size=1, max_size=3), st.integers(1, 8), st.lists(st.integers(1, 60_000), max_size=30))
def test_the_answer_is_that_of_the_claim_and_the_devices_however_it_is_found(
    selectors: Sequence[Sequence[str]], cards: int, turns: Sequence[int]
) -> None:
    asked = [claim(want("gpu", *some), name=f"c{at}") for at, some in enumerate(selectors)]
    at_once, bit_by_bit = fleet(*pool(*CARDS[:cards])), fleet(*pool(*CARDS[:cards]))
    for part in turns:
        bit_by_bit.turn.begin(part)
        try:
            bit_by_bit.too_costly(asked[len(asked) // 2 :])
        except TurnEnded:
            continue
    assert answer(at_once, *asked) == answer(bit_by_bit, *asked)


UUIDS = [f'"GPU-{i:036}"' for i in range(100)]
ORDINARY = (
    f'device.driver == "{DRIVER}" && {A}.kind == "gpu"',
    f'{A}.type == "H100" && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'{A}.model.matches("^NVIDIA (A100|H100).*80GB$")',
    f'{A}.type in ["A100", "H100", "H200", "B200"]',
    f'{A}.driverVersion.compareTo(semver("550.54.15")) >= 0',
    f'{A}.index < 4 && {A}.ibCluster != "" && !{A}.uuid.startsWith("MIG-")',
    f'device.attributes["{DRIVER}"].?rail.orValue("") == "rail-1"',
    f"{A}.uuid in [{', '.join(UUIDS)}]",
    f'["A100", "H100", "H200"].exists(t, {A}.model.contains(t))',
    f'cel.bind(a, {A}, a.type == "H100" && a.uuid != "GPU-7")',
    f'{A}.links.exists(l, l.startsWith("nvlink"))',
)
FACTS: dict[str, AttributeValue] = {
    "kind": "gpu",
    "type": "H100",
    "model": "NVIDIA H100 80GB HBM3",
    "index": 3,
    "ibCluster": "a",
    "uuid": "GPU-" + "1" * 36,
    "rail": "rail-0",
    "driverVersion": Version("550.90.7"),
    "links": tuple(f"pcie-{i}" for i in range(16)),
}
CARD = device("gpu-0", FACTS, capacity={"memory": "80Gi"})


@pytest.mark.parametrize("expression", ORDINARY)
def test_what_people_write_is_far_from_every_limit(expression: str) -> None:
    selector, budget = compile_selector(expression), CostBudget()
    selector.evaluate(view(CARD, DRIVER), budget)
    assert selector.plain_steps + budget.steps < DEVICE_STEPS / 50
    assert selector.compile_steps < CLAIM_STEPS / 8
