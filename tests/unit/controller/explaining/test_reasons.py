"""Why not: named, counted, bounded."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import NodeReasons
from controller.explaining.messages import render, summarise
from driver.model import Capacity, Claim, Constraint, Device, DeviceClass, RequestPolicy, Slice, Taint, Want
from driver.wire import taint_rule_from
from tests.unit.controller.allocation.small_fleets import (
    NODE,
    claim,
    device,
    fleet,
    hold,
    names,
    pool,
    q,
    refused,
    want,
)
from tests.unit.controller.allocation.test_laws import cards, claims

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
    assert [fault.key for fault in answer.faults] == ["ns/x", "ns/x", "ns/x", "ns/c"]


def test_every_device_is_counted_once_by_what_excludes_it_first() -> None:
    built = fleet(*pool(*CARDS, device("nic-0", {"kind": "nic"})))
    hold(built, claim(want("gpu", H100), name="a"))
    answer = refused(built.allocate(NODE, {}, [claim(want("gpu", H100))]))
    (shortage,) = answer.shortages
    assert {exclusion.cause: exclusion.count for exclusion in shortage.exclusions} == {
        "excluded by device class selector": 1,
        'excluded by selector 0 (they have type "A100")': 3,
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
    assert "(on odd)" in render(answer)


def test_nodes_whose_selectors_fail_on_devices_of_other_names_are_alike() -> None:
    asked = [claim(want("gpu", H100))]
    built = [fleet(*pool(device(name), *CARDS)) for name in ("odd", "strange")]
    answers = {f"n{at}": refused(one.allocate(NODE, {}, asked)) for at, one in enumerate(built)}
    assert render(answers).startswith("2 nodes (n0, n1): ")


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


@pytest.mark.parametrize(("device_class", "for_good"), [("gpu", False), ("other-driver", True)])
def test_nobody_knows_how_many_devices_a_pool_has_of_which_slices_are_missing(
    device_class: str, for_good: bool
) -> None:
    """Those of a driver that the class does not select do not matter."""
    built = fleet(replace(pool(*CARDS)[0], slice_count=2))
    built.upsert_class(DeviceClass("other-driver", ('device.driver == "nic.example.com"',)))
    answer = refused(built.allocate(NODE, {}, [claim(want(device_class, count=5))]))
    assert answer.for_good is for_good
    assert ("even if nothing was in use" in render(answer)) is for_good


def test_an_older_generation_of_a_pool_is_not_used() -> None:
    old = pool(*CARDS)[0]
    new = replace(old, name="new", generation=2, devices=tuple(CARDS[3:]))
    assert names(fleet(old, new).allocate(NODE, {}, [claim(want())])) == [["gpu-3"]]


def test_a_quantity_in_a_reason_is_never_a_reason_to_fail() -> None:
    built = fleet(*pool(device("s", {"kind": "share"}, capacity={"memory": "1Gi"}, shared=True)))
    answer = refused(built.allocate(NODE, {}, [claim(want("share", capacity={"memory": str(q("4Gi"))}))]))
    assert "too small (memory: at most 1Gi)" in render(answer)


@pytest.mark.parametrize(
    ("asked", "lacks", "for_good"),
    [
        ("48Gi", "(96Gi wanted, 80Gi there)", True),
        ("30Gi", "(60Gi wanted, 80Gi there, 30Gi in use)", False),
    ],
    ids=["more than there ever is", "more than others leave"],
)
def test_shares_of_one_card_that_do_not_fit_together_are_told_the_amounts(
    asked: str, lacks: str, for_good: bool
) -> None:
    built = fleet(*pool(device("s", {"kind": "share"}, capacity={"memory": "80Gi"}, shared=True)))
    if not for_good:
        hold(built, claim(want("share", capacity={"memory": "30Gi"}), name="other"))
    wants = (want("share", capacity={"memory": asked}) for _ in range(2))
    answer = refused(built.allocate(NODE, {}, [claim(*wants)]))
    text = f"every request fits alone, but not together: 1 with too little memory for these requests together {lacks}"
    assert text in render(answer)
    assert answer.for_good is for_good


def test_a_taint_of_a_rule_is_named_with_the_rule() -> None:
    built = fleet(*pool(*CARDS))
    taint = {"key": "example.com/x", "value": "v", "effect": "NoExecute"}
    spec = {"deviceSelector": {}, "taint": taint}
    built.ledger.upsert_taint_rule(taint_rule_from({"metadata": {"name": "of-the-operator"}, "spec": spec}))
    answer = refused(built.allocate(NODE, {}, [claim(want())]))
    assert "4 tainted example.com/x=v:NoExecute by DeviceTaintRule of-the-operator" in render(answer)


# What excludes a device: the fleet, the claim, and kind and name of the exclusion with its number of devices

SHARED = Capacity(q("4Gi"), RequestPolicy(q("4Gi"), (), q("1Mi"), q("4Gi"), q("1Mi")))
CUT = {"card-0": {"slice-0": 1, "slice-1": 1}}
TAINTED = replace(CARDS[0], taints=(Taint("t", "v", "NoSchedule"),))


def part(name: str, *slices: int) -> Device:
    return device(name, {"kind": "mig"}, draws={f"card-0.slice-{number}": 1 for number in slices})


def share(name: str = "s0") -> Device:
    return device(name, {"kind": "share"}, capacity={"memory": SHARED}, shared=True)


MISSPELT = "memroy; did you mean 'memory'?"
EXCLUDED: tuple[tuple[list[Slice], list[Claim], Claim, set[tuple[int, str, str]]], ...] = (
    (pool(*CARDS, device("nic", {"kind": "nic"})), [], claim(want(count=9)), {(1, "classSelector", "")}),
    (pool(*CARDS), [], claim(want("gpu", "true", H100, count=9)), {(3, "selector", '1 (they have type "A100")')}),
    (pool(device("odd")), [], claim(want("gpu", "1 / 0 == 1")), {(1, "selectorError", "selector 0: division by zero")}),
    (pool(TAINTED), [], claim(want()), {(1, "taint", "t=v:NoSchedule")}),
    (pool(share()), [], claim(want("share", capacity={"memory": "5Gi"})), {(1, "capacity", "memory: at most 4Gi")}),
    (pool(share()), [], claim(want("share", capacity={"memroy": "1Gi"})), {(1, "noCapacity", MISSPELT)}),
    (pool(*CARDS[:1]), [], claim(want(capacity={"bandwidth": "1"})), {(1, "noCapacity", "bandwidth")}),
    (
        pool(share()),
        [claim(want("share", capacity={"memory": "3Gi"}), name="a")],
        claim(want("share", capacity={"memory": "2Gi"})),
        {(1, "capacityLeft", "memory")},
    ),
    (
        pool(part("m0", 0), part("m1", 1), part("both", 0, 1), sets=CUT),
        [claim(want("mig"), name="a")],
        claim(want("mig", count=9)),
        {(1, "inUse", ""), (1, "counter", "slice-*")},
    ),
    ([replace(pool(*CARDS)[0], slice_count=2)], [], claim(want()), {(4, "pool", "")}),
)


@pytest.mark.parametrize(("slices", "held", "asked", "excluded"), EXCLUDED)
def test_what_excludes_a_device_is_a_kind_and_a_name(
    slices: list[Slice], held: list[Claim], asked: Claim, excluded: set[tuple[int, str, str]]
) -> None:
    built = fleet(*slices)
    hold(built, *held)
    answer = refused(built.allocate(NODE, {}, [asked]))
    (shortage,) = answer.shortages
    assert {(one.count, one.by, one.name) for one in shortage.exclusions} == excluded
    assert shortage.seen == shortage.available + sum(one.count for one in shortage.exclusions)
    assert all(one.cause in render(answer) for one in shortage.exclusions)


def test_requests_that_do_not_go_together_say_which_constraint_or_request_took_the_devices() -> None:
    apart = Constraint((), "lode.dev/type")
    answer = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want(count=4), constraints=(apart,))]))
    assert {(one.by, one.name) for one in answer.together} >= {("matchAttribute", "lode.dev/type")}
    both = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want(count=3), want(count=2))]))
    assert ("otherRequests", "taken by another request") in {(one.by, one.name) for one in both.together}


@pytest.mark.parametrize(
    ("holding", "asked", "freeing"),
    [(["gpu"], "mig", ("uid-0",)), (["mig"], "gpu", ("uid-0",)), (["mig", "mig"], "gpu", ())],
)
def test_who_holds_the_counters_of_a_card_is_in_the_way(
    holding: list[str], asked: str, freeing: tuple[str, ...]
) -> None:
    whole = device("whole", draws={f"card-0.slice-{number}": 1 for number in (0, 1)})
    built = fleet(*pool(whole, part("m0", 0), part("m1", 1), sets=CUT))
    hold(built, *(claim(want(kind), name=str(number)) for number, kind in enumerate(holding)))
    (shortage,) = refused(built.allocate(NODE, {}, [claim(want(asked))])).shortages
    assert shortage.holders == tuple(f"uid-{number}" for number, _ in enumerate(holding))
    assert shortage.freeing == freeing


def test_of_the_devices_of_one_card_only_one_is_said_to_become_free() -> None:
    built = fleet(*pool(part("both", 0, 1), part("m0", 0), part("m1", 1), sets=CUT))
    hold(built, claim(want("mig"), name="a"))
    (shortage,) = refused(built.allocate(NODE, {}, [claim(want("mig", count=3))])).shortages
    assert (shortage.missing, shortage.freeing) == (3, ())
    (shortage,) = refused(built.allocate(NODE, {}, [claim(want("mig"))])).shortages
    assert shortage.freeing == ("uid-a",)


def test_a_device_that_excludes_a_share_that_fits_is_not_said_to_become_free() -> None:
    every = {"card-0.slice-0": 1, "card-0.slice-1": 1}
    memory = Capacity(q("4Gi"), RequestPolicy(q("1Gi")))
    shared = device("s0", {"kind": "share"}, draws=every, capacity={"memory": memory}, shared=True)
    built = fleet(*pool(part("whole", 0, 1), shared, sets=CUT))
    hold(built, claim(want("share"), name="a"))
    (shortage,) = refused(built.allocate(NODE, {}, [claim(want("any", count=2))])).shortages
    assert (shortage.available, shortage.freeing) == (1, ())
    (shortage,) = refused(built.allocate(NODE, {}, [claim(want("mig"))])).shortages
    assert shortage.freeing == ("uid-a",)


@pytest.mark.parametrize(
    ("count", "held", "said"),
    [(5, 0, True), (5, 3, True), (4, 1, False), (4, 4, False)],
    ids=["too few", "too few, some in use", "one in use", "all in use"],
)
def test_a_node_that_never_has_enough_is_told_from_one_whose_devices_are_in_use(
    count: int, held: int, said: bool
) -> None:
    built = fleet(*pool(*CARDS, device("nic", {"kind": "nic"})))
    hold(built, *(claim(want(), name=str(number)) for number in range(held)))
    text = render(refused(built.allocate(NODE, {}, [claim(want(count=count))])))
    assert ("; even if nothing was in use, at most 4 would fit" in text) == said
    none = refused(built.allocate(NODE, {}, [claim(want("gpu", H100, count=2), name="h")]))
    assert "at most 1 would fit" in render(none)
    assert "even if" not in render(refused(built.allocate(NODE, {}, [claim(want("nothing"))])))


def test_faults_of_the_claims_are_all_there_is_to_say() -> None:
    answer = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want("nosuch"))]))
    told = summarise({"n1": NodeReasons(("not ready",)), "n2": answer})
    assert (told.groups, told.faults) == ((), answer.faults)
    assert render(told) == render(answer)


def test_the_json_of_a_refusal_has_the_documented_keys() -> None:
    built = fleet(*pool(*CARDS))
    hold(built, claim(want(count=2), name="a"))
    answer = refused(built.allocate(NODE, {}, [claim(want("gpu", count=3))]))
    told = json.loads(json.dumps(summarise({"n1": answer}).to_json()))
    assert told == {
        "nodes": 1,
        "faults": [],
        "groups": [
            {
                "nodes": 1,
                "named": ["n1"],
                "predicates": [],
                "devices": {
                    "faults": [],
                    "requests": [
                        {
                            "claim": "ns/c",
                            "request": "r0",
                            "deviceClass": "gpu",
                            "wanted": 3,
                            "devices": 4,
                            "fit": 2,
                            "excluded": [{"count": 2, "by": "inUse", "name": "", "text": "in use"}],
                            "inUseBy": ["uid-a"],
                            "inUseByMore": 0,
                            "freeing": ["uid-a"],
                        }
                    ],
                    "together": [],
                    "pools": [],
                    "undecided": False,
                },
                "summed": False,
            }
        ],
        "closest": {
            "nodes": 1,
            "named": ["n1"],
            "request": "r0",
            "fit": 2,
            "wanted": 3,
            "freeing": ["uid-a"],
            "on": "",
        },
    }
    (fault,) = refused(built.allocate(NODE, {}, [claim(want("nosuch"))])).devices_to_json()["faults"]
    assert (fault["claim"], fault["field"]) == ("ns/c", "spec.devices.requests[0].exactly.deviceClassName")


@settings(max_examples=600, deadline=None)
@given(cards(), st.lists(claims(), max_size=3), claims(), st.sampled_from(["", "NoSchedule"]))
def test_every_device_is_counted_once_and_every_no_has_a_reason(
    made: tuple[list[Device], dict[str, dict[str, int]]], held: list[Claim], asked: Claim, effect: str
) -> None:
    taints = (Taint("t", "", effect),) if effect else ()
    devices = [replace(one, taints=taints) if number % 3 == 0 else one for number, one in enumerate(made[0])]
    built = fleet(*pool(*devices, sets=made[1]), step_limit=100_000)
    for number, before in enumerate(held):
        got = built.allocate(NODE, {}, [before])
        if isinstance(got, tuple):
            built.ledger.assume(f"held-{number}", got[0])
    answer = built.allocate(NODE, {}, [asked])
    if isinstance(answer, tuple):
        return
    assert answer.sentences
    assert any(one.missing for one in answer.shortages) or answer.together
    for one in answer.shortages:
        assert one.seen == len(devices) == one.available + sum(exclusion.count for exclusion in one.exclusions)
        busy = any(exclusion.by in ("inUse", "counter", "capacityLeft") for exclusion in one.exclusions)
        assert bool(one.holders) == busy
    if len(asked.spec.requests) == 1 and len(answer.shortages) == 1 and answer.shortages[0].freeing:
        for uid in answer.shortages[0].freeing:
            built.ledger.forget(uid)
        assert isinstance(built.allocate(NODE, {}, [asked]), tuple)
    if answer.for_good:
        untainted = fleet(*pool(*made[0], sets=made[1]), step_limit=100_000)
        assert not isinstance(untainted.allocate(NODE, {}, [asked]), tuple), "nothing in use, and no taint"
