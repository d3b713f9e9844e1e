"""``lode top nodes`` and ``cards``: each card counts once, and who holds it is named."""

import json
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.cards.card import CardTarget, cards_of
from cli.cards.rules import to_cordon
from cli.top import cards, nodes
from cli.top.question import Question
from driver.kube.api import DEVICE_TAINT_RULES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from tests.unit.cli.cluster import node, pod, slices
from tests.unit.cli.fleetview.views import NAMES, held, view_of
from tests.unit.cli.user import User, add, hold

GIB = 1024**3


def fleet() -> tuple[list[Object], list[Object], list[Object]]:
    """Two nodes: one with cards in all uses, one with a cordoned card; claims; and the rules."""
    parts = [*slices("a", "a100x4", ib_cluster="ib-1"), *slices("b", "t4x2")]
    claims = [
        held("one", "a/gpu-0", "p", namespace="team-a"),
        held("two", "a/gpu-1-share", "q", memory=8 * GIB, cores=25),
        held("three", "a/gpu-1-share", memory=16 * GIB, cores=50),
        held("four", "a/gpu-2-mig-1g-5gb-0", "s"),
    ]
    of_b = cards_of("b", parts, NAMES)
    return parts, claims, list(to_cordon(CardTarget("b", of_b[0], of_b), (), NAMES).create)


def of_nodes(*only: str) -> Any:
    parts, claims, rules = fleet()
    return nodes.report_on(view_of(parts, claims, rules=rules), Question(NAMES, only=only)).items


def of_cards(*only: str) -> Any:
    parts, claims, rules = fleet()
    return cards.report_on(view_of(parts, claims, rules=rules), Question(NAMES, only=only)).items


def test_each_card_of_a_node_counts_once() -> None:
    a, b = of_nodes()
    counts = ("cards", "whole", "shared", "partitioned", "free", "bad")
    assert [a[name] for name in counts] == [4, 1, 1, 1, 1, 0]
    assert [b[name] for name in counts] == [2, 0, 0, 0, 1, 1]
    assert (a["types"], a["ibClusters"], b["cordoned"]) == (["A100"], ["ib-1"], 1)
    assert a["largestFree"] == "40Gi"
    assert b["memoryHeld"] == "0"


def test_a_card_in_use_that_does_not_work_is_among_those_in_use_and_the_unhealthy() -> None:
    parts = slices("a", "t4x2", ("whole",))
    parts[0]["spec"]["devices"][0]["taints"] = [{"key": "lode.dev/unhealthy", "effect": "NoSchedule"}]
    (item,) = nodes.report_on(view_of(parts, [held("c", "a/gpu-0")]), Question(NAMES)).items
    assert [item[name] for name in ("whole", "free", "bad", "unhealthy")] == [1, 1, 0, 1]


def test_a_card_names_who_holds_it_and_how_much() -> None:
    whole, shared, parted, free, closed, _ = of_cards()
    assert (whole["card"], whole["state"], whole["heldBy"]) == ("a/gpu-0", "whole", ["team-a/p"])
    assert whole["uuid"].startswith("GPU-")
    assert shared["heldBy"] == ["default/q", "default/claim/three"]
    assert [(one["memory"], one["cores"], one["cards"]) for one in shared["holders"]] == [
        ("8Gi", 25, 0.25),
        ("16Gi", 50, 0.5),
    ]
    assert (parted["state"], free["state"], closed["state"]) == ("partitioned", "free", "cordoned")
    assert "heldBy" not in free
    assert closed["closedBy"] == ["cordoned"]


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (("b",), ["b/gpu-0", "b/gpu-1"]),
        (("a/gpu-1", "b/gpu-0"), ["a/gpu-1", "b/gpu-0"]),
        (("nothing",), []),
    ],
)
def test_cards_are_named_by_node_or_card(only: tuple[str, ...], found: list[str]) -> None:
    assert [item["card"] for item in of_cards(*only)] == found


def test_a_card_is_named_by_its_uuid() -> None:
    uuid = of_cards()[2]["uuid"]
    assert [item["card"] for item in of_cards(uuid)] == ["a/gpu-2"]


# On a cluster


def test_nodes_are_printed_as_a_table(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    hold(cluster, "c", "g/gpu-1", add(cluster, pod("p", "c")))
    assert lode(["top", "nodes"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NODE", "TYPE", "CARDS", "WHOLE", "SHARED", "PARTITIONED", "FREE", "BAD", "MEM", "UTIL", "LARGEST-FREE"],
        ["g", "T4", "2", "1", "0", "0", "1", "0", "15Gi/30Gi", "-", "15Gi"],
    ]


def test_cards_are_printed_as_a_table(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    hold(cluster, "c", "g/gpu-1", add(cluster, pod("p", "c")))
    assert lode(["top", "cards"]) == 0
    header, free, whole = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header == ["CARD", "UUID", "TYPE", "STATE", "HELD-BY", "MEM", "CORES", "UTIL", "IDLE"]
    assert [free[0], *free[2:]] == ["g/gpu-0", "T4", "free", "<none>", "0/15Gi", "0", "-", "-"]
    assert [whole[0], *whole[2:]] == ["g/gpu-1", "T4", "whole", "default/p", "15Gi/15Gi", "100", "-", "-"]


def test_only_nodes_with_the_labels_are_shown(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.api.create(NODES, node("h", pool="training"))
    for part in slices("h", "t4x2", ("whole",)):
        cluster.api.create(RESOURCE_SLICES, part)
    for subject in ("nodes", "cards"):
        assert lode(["top", subject, "-l", "pool=training", "-o", "json"]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        assert {(item.get("node") or item["card"]).partition("/")[0] for item in items} == {"h"}


def test_without_the_right_to_read_what_closes_cards_a_note_says_what_is_missing(
    cluster: User, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.denied = {("list", NODES, ""), ("list", DEVICE_TAINT_RULES, "")}
    assert lode(["top", "nodes"]) == 0
    told = capsys.readouterr()
    assert told.out
    assert "you may not list nodes in the whole cluster: cards of nodes that take no pods look open" in told.err
    assert "cards that rules close look open" in told.err


def test_all_missing_rights_are_named_at_once(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.denied = {("list", RESOURCE_SLICES, ""), ("list", RESOURCE_CLAIMS, "")}
    assert lode(["top", "cards"]) == 2
    told = capsys.readouterr().err
    assert "resourceslices" in told
    assert "resourceclaims" in told


def test_a_cluster_without_cards_says_so(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["top", "nodes", "--driver", "other.example"]) == 0
    assert "No nodes publish devices of other.example in the cluster." in capsys.readouterr().err
