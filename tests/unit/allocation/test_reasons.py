"""Why not: named, counted, bounded."""

from dataclasses import replace

import pytest

from controller.allocation import Unsatisfiable, render
from driver.model import Claim, Constraint, Slice, Want
from tests.unit.allocation.rig import NODE, claim, device, fleet, hold, names, pool, q, refused, want

CARDS = [device(f"gpu-{i}", {"type": "A100" if i < 3 else "H100"}) for i in range(4)]
H100 = 'device.attributes["lode.dev"].type == "H100"'

FAULTY = (
    (claim(want("nosuch")), ("spec.devices.requests[0].exactly.deviceClassName", "device class nosuch", "create it")),
    (claim(want("gpu", "device.driver == 1")), ("exactly.selectors[0].cel.expression", "(string, int)")),
    (claim((want("gpu", "true"), want("nosuch"))), ("requests[0].firstAvailable[1].deviceClassName",)),
    (claim(want(mode="Some")), ("exactly.allocationMode", "'Some'", "ExactCount or All")),
    (claim(want(count=0)), ("exactly.count", "at least 1")),
    (claim(want(count=10**18)), ("exceed the limit of 32",)),
    (claim(want(), constraints=(Constraint(),)), ("constraints[0]", "empty constraint")),
    (claim(Want("gpu", unsupported=("derivedAttributes",))), ("derivedAttributes", "remove it")),
)


@pytest.mark.parametrize(("faulty", "told"), FAULTY)
def test_a_claim_that_is_wrong_as_written_is_told_what_and_where(faulty: Claim, told: tuple[str, ...]) -> None:
    answer = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [faulty]))
    assert answer.faults
    assert all(part in render(answer) for part in ("claim ns/c", *told))


def test_all_faults_are_told_at_once() -> None:
    answer = refused(
        fleet().allocate(NODE, {}, [claim(want("no-a"), want("no-b", "1 +"), name="x"), claim(want("no-c"))])
    )
    assert [fault.claim for fault in answer.faults] == ["ns/x", "ns/x", "ns/x", "ns/c"]


def test_every_device_is_counted_once_by_what_excludes_it_first() -> None:
    built = fleet(*pool(*CARDS, device("nic-0", {"kind": "nic"})))
    hold(built, claim(want("gpu", H100), name="a"))
    answer = refused(built.allocate(NODE, {}, [claim(want("gpu", H100))]))
    (shortage,) = answer.shortages
    assert {exclusion.cause: exclusion.count for exclusion in shortage.exclusions} == {
        "excluded by device class selector": 1,
        "excluded by selector 0": 3,
        "in use": 1,
    }
    assert (shortage.seen, shortage.available, shortage.missing) == (5, 0, 1)


def test_the_closest_miss_says_whose_end_would_help() -> None:
    built = fleet(*pool(*CARDS))
    hold(built, claim(want(count=2), name="a"), claim(want(), name="b"))
    near = refused(built.allocate(NODE, {}, [claim(want(count=2))]))
    assert near.shortages[0].freeing == ("uid-a",)
    far = refused(built.allocate(NODE, {}, [claim(want(count=5))]))
    assert far.shortages[0].freeing == ()
    text = render({"n1": near, "n2": near, "n3": far})
    assert text.endswith("Closest: 2 nodes (n1, n2) have 1 of 2; freeing uid-a would do")


def test_requests_that_fit_alone_but_not_together_say_so() -> None:
    answer = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want(count=3), want(count=2))]))
    assert "fits alone, but not together" in render(answer)
    assert answer.together
    assert not answer.undecided


def test_a_constraint_nobody_meets_is_named() -> None:
    apart = Constraint((), "lode.dev/index")
    answer = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want(count=2), constraints=(apart,))]))
    assert "matchAttribute lode.dev/index" in render(answer)


def test_a_selector_that_fails_on_a_device_is_an_error_and_no_mismatch() -> None:
    built = fleet(*pool(device("odd"), *CARDS))
    answer = refused(built.allocate(NODE, {}, [claim(want("gpu", H100))]))
    assert "failed selector 0: no such key: type" in render(answer)


def test_a_device_that_fails_a_selector_does_not_matter_if_one_before_it_fits() -> None:
    built = fleet(*pool(CARDS[3], device("odd")))
    assert names(built.allocate(NODE, {}, [claim(want("gpu", H100))])) == [["gpu-3"]]


def test_pools_that_cannot_be_used_are_named_with_the_reason() -> None:
    half = pool(*CARDS)[0]
    dangling = device("d", draws={"nowhere.x": 1})
    cases: tuple[tuple[list[Slice], str], ...] = (
        ([replace(half, slice_count=2)], "has 1 of 2 slices"),
        (pool(CARDS[0], CARDS[0]), "two devices named 'gpu-0'"),
        (pool(dangling), "draws on nowhere.x"),
    )
    for slices, reason in cases:
        answer = refused(fleet(*slices).allocate(NODE, {}, [claim(want())]))
        assert reason in render(answer)
        assert refused(fleet(*slices).allocate(NODE, {}, [claim(want(mode="All"))]))


def test_an_older_generation_of_a_pool_is_not_used() -> None:
    old = pool(*CARDS)[0]
    new = replace(old, name="new", generation=2, devices=tuple(CARDS[3:]))
    assert names(fleet(old, new).allocate(NODE, {}, [claim(want())])) == [["gpu-3"]]


def test_nodes_with_equal_reasons_are_told_together_and_within_the_limit() -> None:
    answers: dict[str, Unsatisfiable] = {}
    for number in range(300):
        cards = [replace(card, name=f"{card.name}-{number % 40}") for card in CARDS]
        built = fleet(*pool(*cards[: 1 + number % 4]))
        hold(built, claim(want(), name=f"holder-{number % 25}"))
        answers[f"node-{number:03}"] = refused(built.allocate(NODE, {}, [claim(want(count=9))]))
    text = render(answers)
    assert len(text) <= 1024
    assert text.startswith(
        "75 nodes (node-000, node-004, node-008, ...): claim ns/c, request r0: wants 9 of gpu, 0 of 1 d"
    )
    assert "in use by uid-holder-0, uid-holder-1, uid-holder-10 and 72 more" in text
    assert text.endswith("Closest: 75 nodes (node-003, node-007, node-011, ...) have 3 of 9")
    same = render({f"node-{number}": answers["node-000"] for number in range(5000)})
    assert same.startswith("5000 nodes (node-0, node-1, node-10, ...): claim ns/c, request r0: wants 9 of gpu")


def test_a_quantity_in_a_reason_is_never_a_reason_to_fail() -> None:
    built = fleet(*pool(device("s", {"kind": "share"}, capacity={"memory": "1Gi"}, shared=True)))
    answer = refused(built.allocate(NODE, {}, [claim(want("share", capacity={"memory": str(q("4Gi"))}))]))
    assert "too small or without capacity memory" in render(answer)
