"""``lode top costs``: a card costs its price whoever holds how much of it, and what is left is idle."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.top import costs
from cli.top.prices import PriceTable, price_table
from cli.top.question import Question
from cli.top.run import read_prices
from driver.errors import InvalidInput
from driver.kube.api import Object
from tests.unit.cli.cluster import pod, slices
from tests.unit.cli.fleetview.views import NAMES, held, view_of
from tests.unit.cli.user import User, add, hold

OWNER = {"kind": "Job", "name": "train", "uid": "u", "controller": True}
GIB = 1024**3
PRICES = PriceTable({"A100": 4.0, "default": 1.0}, "EUR")


def billed(claims: list[Object], **question: Any) -> dict[tuple[str, str], Any]:
    """The rows of a fleet of four A100 and two T4, by namespace and workload."""
    view = view_of([*slices("a", "a100x4"), *slices("b", "t4x2")], claims)
    workloads = question.pop("workloads", {})
    asked = Question(NAMES, prices=PRICES, by_workload=bool(workloads), **question)
    return {
        (item["namespace"], item.get("workload", "")): item for item in costs.report_on(view, asked, workloads).items
    }


def test_an_idle_fleet_costs_what_all_its_cards_cost() -> None:
    ((owner, item),) = billed([]).items()
    assert owner == ("__idle__", "")
    assert item == {
        "namespace": "__idle__",
        "cards": 6.0,
        "costPerHour": 18.0,
        "costPerMonth": 13140.0,
        "currency": "EUR",
        "byType": ["A100=4", "T4=2"],
    }


def test_a_whole_card_costs_its_price_and_a_part_the_larger_one_of_memory_and_cores() -> None:
    found = billed(
        [
            held("whole", "a/gpu-0", namespace="x"),
            held("memory", "a/gpu-1-share", namespace="y", memory=10 * GIB, cores=10),
            held("cores", "b/gpu-0-share", namespace="y", cores=50),
        ]
    )
    assert found["x", ""]["costPerHour"] == 4
    assert found["y", ""]["cards"] == 0.75
    assert found["y", ""]["costPerHour"] == 0.25 * 4 + 0.5
    assert found["__idle__", ""]["costPerHour"] == 18 - 4 - 1.5


def test_four_quarters_of_a_card_cost_one_card() -> None:
    claims = [held(f"c{number}", "b/gpu-0-share", namespace=f"n{number}", cores=25) for number in range(4)]
    found = billed(claims)
    assert {found[f"n{number}", ""]["costPerHour"] for number in range(4)} == {0.25}
    assert found["__idle__", ""]["byType"] == ["A100=4", "T4=1"]


def test_tenants_who_have_more_than_a_card_in_common_pay_in_proportion() -> None:
    claims = [
        held("memory", "b/gpu-0-share", namespace="m", memory=12 * GIB, cores=10),
        held("cores", "b/gpu-0-share", namespace="c", memory=GIB, cores=80),
    ]
    found = billed(claims)
    assert found["m", ""]["costPerHour"] == found["c", ""]["costPerHour"] == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_namespaces_and_idle_cards_cost_what_all_cards_cost(seed: int) -> None:
    rng = random.Random(seed)
    claims = []
    for number in range(rng.randrange(12)):
        amounts = {"memory": rng.randrange(16 * GIB), "cores": rng.randrange(101)}
        place = rng.choice(["a/gpu-1-share", "a/gpu-2-share", "b/gpu-0-share"])
        claims.append(held(f"c{number}", place, namespace=rng.choice("xyz"), **amounts))
    claims.append(held("cut", "a/gpu-3-mig-2g-10gb-0", namespace="x"))
    claims.append(held("monitor", "a/gpu-0", namespace="z", adminAccess=True))
    found = billed(claims)
    assert sum(item["cards"] for item in found.values()) == pytest.approx(6, abs=0.01)
    assert sum(item["costPerHour"] for item in found.values()) == pytest.approx(18, abs=0.001)


def test_workloads_pay_for_their_pods_and_share_what_they_share() -> None:
    workloads = {("x", "chat-1"): "deployment/chat", ("x", "chat-2"): "deployment/chat", ("x", "job-1"): "job/train"}
    found = billed(
        [
            held("one", "a/gpu-0", "chat-1", "chat-2", namespace="x"),
            held("two", "b/gpu-0", "chat-1", "job-1", namespace="x"),
            held("three", "b/gpu-1", namespace="x"),
        ],
        workloads=workloads,
    )
    assert {owner[1]: item["costPerHour"] for owner, item in found.items() if owner[0] == "x"} == {
        "deployment/chat": 4.5,
        "job/train": 0.5,
        "claim/three": 1.0,
    }


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ({"kind": "ReplicaSet", "name": "chat-7d4f"}, {"pod-template-hash": "7d4f"}, "deployment/chat"),
        ({"kind": "ReplicaSet", "name": "own"}, {}, "replicaset/own"),
        ({"kind": "Job", "name": "train"}, {}, "job/train"),
        ({"kind": "StatefulSet", "name": "web"}, {}, "statefulset/web"),
        (None, {}, "pod/p"),
    ],
)
def test_a_pod_belongs_to_what_made_it(owner: Any, labels: dict[str, str], workload: str) -> None:
    owners = [{**owner, "controller": True}] if owner else [{"kind": "Node", "name": "n"}]
    assert costs.workload_of({"metadata": {"name": "p", "labels": labels, "ownerReferences": owners}}) == workload


def test_a_pod_that_makes_no_sense_hides_the_workload_of_no_other() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "team", "labels": ["x"], "ownerReferences": [OWNER]}}
    good = {"metadata": {"name": "good", "namespace": "team", "ownerReferences": [OWNER]}}
    assert costs.workloads_of([odd, {"metadata": 7}, good]) == {("team", "good"): "job/train"}


def test_cards_without_a_price_and_those_of_others_are_left_out_with_a_note() -> None:
    parts = slices("b", "t4x2", ("whole",))
    parts[0]["spec"]["devices"][0]["taints"] = [{"key": "lode.dev/other-driver", "effect": "NoSchedule"}]
    asked = Question(NAMES, prices=PriceTable({"T4": 1.0}))
    found = costs.report_on(view_of([*slices("a", "a100x4"), *parts]), asked, {})
    assert [item["cards"] for item in found.items] == [1.0]
    assert found.notes == (
        "cards of the type A100 have no price, and are left out",
        "1 cards that other programs hand out are left out",
    )


# The table of prices


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        (7, ["not an object"]),
        ({}, ["perHour: missing"]),
        ({"perHour": {}}, ["perHour: missing"]),
        (
            {"perHour": {"T4": "cheap", 7: 1, "A2": -1, "A3": True}, "currency": 5, "perDay": {}},
            ["perHour[T4]: 'cheap'", "perHour[7]", "perHour[A2]: -1", "perHour[A3]: True", "currency: 5", "perDay"],
        ),
        ({"perHour": {"T4": float("nan")}}, ["perHour[T4]: nan"]),
        ({"perHour": {"T4": float("inf")}}, ["perHour[T4]: inf"]),
        ({"perHour": {"T4": 10**400}}, ["perHour[T4]: 1000"]),
    ],
)
def test_every_fault_of_a_table_is_named_at_once(raw: Any, faults: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        price_table(raw, "prices.yaml")
    assert all(fault in str(raised.value) for fault in faults)


def test_the_default_is_the_price_of_every_other_type() -> None:
    table = price_table({"currency": "EUR", "perHour": {"T4": 1, "default": 0.5}}, "f")
    assert (table.price("T4"), table.price("H100"), PriceTable({"T4": 1.0}).price("H100")) == (1.0, 0.5, None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    for name in ("bad.yaml", "absent.yaml"):
        with pytest.raises(InvalidInput, match=name):
            read_prices(str(tmp_path / name))


# The command


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "prices.yaml").write_text("currency: EUR\nperHour: {T4: 0.5}\n")
    return str(tmp_path / "prices.yaml")


def test_costs_are_printed_as_a_table(cluster: User, capsys: pytest.CaptureFixture[str], table: str) -> None:
    hold(cluster, "c", "g/gpu-1", add(cluster, pod("p", "c")))
    assert lode(["top", "costs", "-A", "--prices", table]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAMESPACE", "CARDS", "PER-HOUR", "PER-MONTH"],
        ["__idle__", "1", "0.50", "365.00"],
        ["default", "1", "0.50", "365.00"],
    ]
    assert lode(["top", "costs", "-A", "--prices", table, "--by", "workload", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(item["namespace"], item.get("workload")) for item in items] == [("__idle__", None), ("default", "pod/p")]


def test_of_one_namespace_only_its_costs_are_shown(
    cluster: User, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    hold(cluster, "c", "g/gpu-1")
    assert lode(["top", "costs", "-n", "default", "--prices", table, "--no-headers"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["default"]


def test_without_prices_it_says_what_is_missing(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lode(["top", "costs"])
    assert "--prices" in capsys.readouterr().err
    assert lode(["top", "costs", "--prices", "/nowhere"]) == 2
    assert "prices in /nowhere" in capsys.readouterr().err
