"""A snapshot as Prometheus reads it: every card, claim, namespace, gang and pod that waits, once, with what it has."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.census import Detail, KnownCards, Snapshot, count, exposition
from controller.census.counting import STATES
from controller.census.snapshot import CountedPod
from controller.census.text import FAMILIES
from controller.membership import Membership, MemberTerms, Source
from driver.kube.api import Object
from tests.unit.controller.census.fleets import GIB, NAMES, SmallFleet, card, claim, pool
from tests.unit.docs.pages import page

PAGE = page("docs/metrics.md")
TAINT = {"effect": "NoSchedule"}


def text_of(snapshot: Snapshot, detail: Detail = Detail.CLAIMS, age: float = 0.0) -> str:
    return exposition(detail, count(snapshot, KnownCards(NAMES), lambda _: age))


def series(snapshot: Snapshot, name: str, *labels: str, **options: Any) -> Mapping[Any, float]:
    """The values of a family by these labels; by the only label's value if there is one."""
    families = text_string_to_metric_families(text_of(snapshot, **options))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    found = {tuple(sample.labels[label] for label in labels): sample.value for sample in samples}
    assert len(found) == len(samples), "other labels tell series apart, too"
    return {key[0] if len(key) == 1 else key: value for key, value in found.items()}


def shared(name: str) -> Object:
    return card(f"{name}-share", "gpu-share")


def tainted(device: Object, key: str, effect: str = "NoSchedule") -> Object:
    return {**device, "taints": [{"key": key, "effect": effect}]}


def states(*devices: Object, claims: tuple[Object, ...] = (), **more: Any) -> Mapping[str, str]:
    fleet = SmallFleet(pool("n1", devices))
    for one in claims:
        fleet.put(one)
    return dict(series(fleet.snapshot(**more), "lode_card_state", "card", "state").keys())


def test_every_card_has_one_state() -> None:
    mig = card("gpu-2-mig-1g", "mig", memory="10Gi")
    found = states(
        card("gpu-0"),
        shared("gpu-1"),
        mig,
        card("gpu-3"),
        tainted(card("gpu-4"), "lode.dev/unhealthy"),
        tainted(card("gpu-5"), "lode.dev/other-driver"),
        tainted(card("gpu-6"), "anything"),
        tainted(card("gpu-7"), "anything", "None"),
        claims=(
            claim("a", "n1", "gpu-0"),
            claim("b", "n1", "gpu-1-share", memory="1Gi"),
            claim("c", "n1", "gpu-2-mig-1g"),
        ),
    )
    assert found == {
        "gpu-0": "whole",
        "gpu-1": "shared",
        "gpu-2": "partitioned",
        "gpu-3": "free",
        "gpu-4": "unhealthy",
        "gpu-5": "foreign",
        "gpu-6": "cordoned",
        "gpu-7": "free",
    }


def test_a_slot_of_a_device_plugin_is_so_much_of_a_card_whether_its_memory_is_known_or_not() -> None:
    fleet = SmallFleet(
        pool("n1", [card("hca-0-share", "device-share", "0", vendor="rdma")]),
        pool("n2", [card("gpu-0-share", "device-share", "80Gi", vendor="rdma")]),
    )
    fleet.put(claim("a", "n1", "hca-0-share", memory="0", cores="0", slots="1"))
    fleet.put(claim("b", "n1", "hca-0-share", memory="0", cores="0", slots="2"))
    fleet.put(claim("c", "n2", "gpu-0-share", memory="8Gi", cores="0", slots="1"))
    snapshot = fleet.snapshot(10.0)
    assert series(snapshot, "lode_namespace_allocated_cards", "kind") == {"device-share": pytest.approx(0.4)}
    assert series(snapshot, "lode_namespace_card_seconds_total", "kind") == {"device-share": pytest.approx(4)}
    assert series(snapshot, "lode_card_state", "node", "state") == {("n1", "shared"): 1, ("n2", "shared"): 1}
    assert series(snapshot, "lode_card_info", "node", "vendor", "type") == {
        ("n1", "rdma", "h100"): 1,
        ("n2", "rdma", "h100"): 1,
    }


@pytest.mark.parametrize(("key", "state"), [("lode.dev/unhealthy", "unhealthy"), ("lode.dev/cordoned", "whole")])
def test_a_card_that_is_held_is_unhealthy_before_it_is_held_and_never_cordoned(key: str, state: str) -> None:
    assert states(tainted(card("gpu-0"), key), claims=(claim("a", "n1", "gpu-0"),)) == {"gpu-0": state}


def test_a_free_card_of_a_node_that_takes_no_pods_is_cordoned() -> None:
    held = claim("a", "n1", "gpu-1")
    assert states(card("gpu-0"), card("gpu-1"), claims=(held,), open=()) == {"gpu-0": "cordoned", "gpu-1": "whole"}


def test_what_claims_hold_of_a_card_is_summed_up() -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0"), shared("gpu-0")]))
    fleet.put(claim("a", "n1", "gpu-0-share", memory="8Gi", cores="25", slots="1"))
    fleet.put(claim("b", "n1", "gpu-0-share", memory="4Gi", cores="30", slots="1"))
    snapshot = fleet.snapshot()
    assert series(snapshot, "lode_card_memory_bytes", "node", "card") == {("n1", "gpu-0"): 80 * GIB}
    assert series(snapshot, "lode_card_memory_allocated_bytes", "card") == {"gpu-0": 12 * GIB}
    assert series(snapshot, "lode_card_cores_allocated_ratio", "card") == {"gpu-0": 0.55}
    assert series(snapshot, "lode_card_tenants", "card") == {"gpu-0": 2}
    assert series(snapshot, "lode_allocation_memory_bytes", "claim") == {"a": 8 * GIB, "b": 4 * GIB}
    assert series(snapshot, "lode_namespace_memory_allocated_bytes", "namespace", "type") == {
        ("team", "h100"): 12 * GIB
    }
    assert series(snapshot, "lode_namespace_allocated_cards", "namespace", "kind") == {("team", "gpu-share"): 0.55}


def test_a_claim_is_told_with_its_card_for_each_pod_that_uses_it() -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0"), card("gpu-1")]))
    fleet.put(claim("both", "n1", "gpu-0", pods=("a", "b")))
    fleet.put(claim("nobody", "n1", "gpu-1", pods=()))
    labels = ("pod", "claim", "request", "node", "device", "card", "uuid", "kind")
    assert series(fleet.snapshot(), "lode_allocation_info", *labels) == {
        (pod, name, "cards", "n1", device, device, f"uuid-{device}", "gpu"): 1
        for pod, name, device in (("a", "both", "gpu-0"), ("b", "both", "gpu-0"), ("", "nobody", "gpu-1"))
    }
    assert series(fleet.snapshot(), "lode_unreserved_claims", "namespace") == {"team": 1}


def test_a_request_with_two_shares_of_one_card_is_one_series() -> None:
    fleet = SmallFleet(pool("n1", [shared("gpu-0")]))
    fleet.put(claim("a", "n1", "gpu-0-share", "gpu-0-share", memory="8Gi", cores="5", slots="1"))
    assert series(fleet.snapshot(), "lode_allocation_memory_bytes", "claim") == {"a": 16 * GIB}
    assert series(fleet.snapshot(), "lode_card_tenants", "card") == {"gpu-0": 1}


def test_free_cards_and_the_largest_group_of_them_are_told_by_type_and_ib_cluster() -> None:
    fleet = SmallFleet(
        pool("n1", [card("gpu-0"), card("gpu-1")]),
        pool("n2", [card(f"gpu-{number}") for number in range(4)]),
        pool("n3", [card("gpu-0", ibCluster="b", type="a100")]),
    )
    fleet.put(claim("a", "n2", "gpu-0", "gpu-1", "gpu-2"))
    labels, snapshot = ("type", "ib_cluster"), fleet.snapshot()
    a, b = ("h100", "a"), ("a100", "b")
    assert series(snapshot, "lode_free_cards", *labels) == {a: 3, b: 1}
    assert series(snapshot, "lode_largest_free_group_cards", *labels) == {a: 2, b: 1}
    assert series(snapshot, "lode_largest_node_cards", *labels) == {a: 4, b: 1}
    assert series(snapshot, "lode_fleet_cards", *labels, "state") == {
        (*a, "free"): 3,
        (*a, "whole"): 3,
        (*b, "free"): 1,
    }
    assert series(snapshot, "lode_fleet_memory_bytes", *labels) == {a: 6 * 80 * GIB, b: 80 * GIB}


def test_pods_that_wait_are_told_by_reason_and_the_oldest_by_age() -> None:
    waiting = (
        CountedPod("a", "Unallocatable", "2026-01-01T00:00:00Z", 5),
        CountedPod("a", "QuotaExceeded", "", 7),
        CountedPod("b", "Unallocatable", "", 9),
    )
    snapshot = Snapshot(waiting=waiting)
    assert series(snapshot, "lode_waiting_pods", "namespace", "reason") == {
        ("a", "Unallocatable"): 1,
        ("a", "QuotaExceeded"): 1,
        ("b", "Unallocatable"): 1,
    }
    assert series(snapshot, "lode_oldest_waiting_pod_seconds", "namespace", age=3600) == {"a": 3600, "b": 9}
    clocks_differ = series(snapshot, "lode_oldest_waiting_pod_seconds", "namespace", age=0)
    assert clocks_differ == {"a": 7, "b": 9}, "what this program has seen itself counts at least"


def test_members_of_gangs_have_a_place_or_wait() -> None:
    terms = MemberTerms(Source.CLAIM)
    members = {f"team/{name}": Membership("team/gang", terms) for name in "abc"}
    members["team/alone"] = Membership("", terms)
    snapshot = Snapshot(members=members, placed={"team/a": "n1", "team/alone": "n1"})
    assert series(snapshot, "lode_gang_members", "namespace", "gang", "state") == {
        ("team", "gang", "placed"): 1,
        ("team", "gang", "waiting"): 2,
    }


def full() -> Snapshot:
    """A snapshot with a series of every family."""
    fleet = SmallFleet(pool("n1", [card("gpu-0"), card("gpu-1")]))
    fleet.put(claim("a", "n1", "gpu-0"))
    fleet.put(claim("b", "n1", "gpu-1", pods=()))
    member = Membership("team/gang", MemberTerms(Source.CLAIM))
    return fleet.snapshot(waiting=(CountedPod("team", "Unallocatable"),), members={"team/x": member})


@pytest.mark.parametrize("detail", list(Detail))
def test_a_level_has_its_own_series_and_those_of_the_levels_before(detail: Detail) -> None:
    families = set(re.findall(r"^# TYPE (\S+)", text_of(full(), detail), re.MULTILINE))
    assert families == {name for name, family in FAMILIES.items() if family.detail <= detail}


def test_only_the_level_of_claims_names_claims_pods_and_gangs() -> None:
    assert not re.search(r"\b(pod|claim|gang)=", text_of(full(), Detail.CARDS))
    assert 'claim="a"' in text_of(full(), Detail.CLAIMS)


def test_every_family_has_help_its_type_and_its_unit() -> None:
    text = text_of(full())
    units = ("_bytes", "_seconds", "_seconds_total", "_ratio", "_info", "_cards", "_pods", "_claims", "_members")
    for name, family in FAMILIES.items():
        assert f"# HELP {name} {family.help}\n# TYPE {name} {family.type}\n{name}{{" in text
        assert name.endswith((*units, "_tenants", "_state"))
        assert name.endswith("_total") is (family.type == "counter")


def test_the_page_has_the_level_and_the_labels_of_every_family() -> None:
    rows = re.findall(r"^\| `(lode_\w+)` \| (totals|cards|claims) \| (.*?) \|", PAGE, re.MULTILINE)
    listed = {name: (level, set(re.findall(r"`(\w+)`", labels))) for name, level, labels in rows}
    lines = text_of(full()).splitlines()
    served = {
        name: (
            family.detail.name.lower(),
            {label for line in lines if line.startswith(f"{name}{{") for label in re.findall(r'(\w+)="', line)},
        )
        for name, family in FAMILIES.items()
    }
    assert listed == served


def test_the_page_explains_every_state() -> None:
    table = PAGE.partition("| state |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| ((?:`\w+`,? ?)+) \| .*$", table, re.MULTILINE)
    assert [state for row in listed for state in re.findall(r"`(\w+)`", row)] == list(STATES)


def test_hostile_texts_stay_within_their_labels() -> None:
    evil = 'a"} 1\nlode_card_info{x="\\'
    fleet = SmallFleet(pool("n1", [card("gpu-0", uuid=evil, model=evil, type=evil)]))
    fleet.put(claim("a", "n1", "gpu-0"))
    assert series(fleet.snapshot(), "lode_card_info", "card", "uuid", "model", "type") == {
        ("gpu-0", evil, evil, evil): 1
    }


def test_a_pool_that_is_not_its_nodes_own_makes_no_card() -> None:
    named = {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1}
    fleet = SmallFleet(pool("n1", [card("gpu-0")]))
    other = pool("n1", [card("gpu-0", uuid="other")], pool=named)
    fleet.publish({**other, "metadata": {"name": "another-slice"}})
    assert series(fleet.snapshot(), "lode_card_info", "node", "card", "uuid") == {("n1", "gpu-0", "uuid-gpu-0"): 1}


def test_cards_are_read_anew_when_their_slice_changes_and_forgotten_with_it() -> None:
    fleet, known = SmallFleet(pool("n1", [card("gpu-0")])), KnownCards(NAMES)

    def uuids() -> list[str]:
        text = exposition(Detail.CARDS, count(fleet.snapshot(), known, lambda _: 0.0))
        return re.findall(r'lode_card_info\{.*uuid="(.*?)"', text)

    assert uuids() == ["uuid-gpu-0"]
    fleet.publish(pool("n1", [card("gpu-0", uuid="new")]))
    assert uuids() == ["new"]
    fleet.fleet.ledger.remove_slice("n1-lode.dev")
    assert uuids() == []


def test_a_snapshot_does_not_change_with_the_fleet() -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0")]))
    before = fleet.snapshot()
    text = text_of(before)
    fleet.put(claim("a", "n1", "gpu-0"))
    fleet.publish(pool("n1", [tainted(card("gpu-0"), "lode.dev/unhealthy")]))
    assert text_of(before) == text
