"""The document of a fleet: what it shows, that its columns fit together, and what a reader of one namespace sees."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.ui.contents import FleetContents, KindGap, ShownNode
from cli.ui.document import whole_document
from driver.kinds import CARD_STATES
from driver.kube.api import Object
from tests.unit.cli.cluster import claim, node, pod, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.fleets import SINCE, contents_of, demo_objects

SAMPLE = Path(__file__).parent / "sample.json"
TABLES = ("nodes", "cards", "holdings", "claims", "pods", "gangs")
POINTS_AT = {
    "cards.name": "cardNames",
    "cards.type": "types",
    "cards.ibCluster": "ibClusters",
    "cards.nvlinkDomain": "nvlinkDomains",
    "cards.state": "states",
    "cards.use": "states",
    "cards.closure": "closures",
    "holdings.claim": "claims",
    "holdings.device": "deviceNames",
    "holdings.use": "states",
    "claims.namespace": "namespaces",
    "claims.pods": "pods",
    "pods.namespace": "namespaces",
    "pods.node": "nodes",
    "pods.phase": "phases",
    "pods.gang": "gangs",
    "pods.awaits": "claims",
    "pods.reason": "reasons",
    "pods.message": "messages",
    "gangs.namespace": "namespaces",
    "gangs.ibClusters": "ibClusters",
    "gangs.reason": "reasons",
    "gangs.message": "messages",
}
"""Column to the texts or the table whose numbers it has."""


def document(*objects: Object, **more: Any) -> Any:
    return whole_document(contents_of(objects, **more), "lode.dev")


def rows(found: Any, table: str) -> list[dict[str, Any]]:
    """The rows of a table, with texts instead of numbers."""
    columns = {name: [_resolved(found, table, name, one) for one in values] for name, values in found[table].items()}
    made = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row in made if table == "claims" else ():
        if row["name"].startswith("*"):
            row["name"] = row["pods"][0] + row["name"][1:]
    return made


def _resolved(found: Any, table: str, column: str, value: Any) -> Any:
    target = found.get(POINTS_AT.get(f"{table}.{column}", ""))
    if target is None:
        return value
    if isinstance(value, list):
        return [_resolved(found, table, column, one) for one in value]
    return None if value < 0 else (target["name"] if isinstance(target, dict) else target)[value]


def printed(found: Any) -> str:
    """A column a line, for people who read what has changed."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict):
            columns = ",\n".join(f"  {json.dumps(column)}: {json.dumps(values)}" for column, values in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{columns}\n }}")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def test_the_sample_is_the_fleet_of_the_demo() -> None:
    """Another sample is written where the file is deleted."""
    found = printed({"readAt": SINCE, **document(*demo_objects())})
    if not SAMPLE.exists():
        SAMPLE.write_text(found)
    assert SAMPLE.read_text() == found


def sample() -> Any:
    return json.loads(SAMPLE.read_text())


def test_the_sample_shows_each_kind_of_use_and_why_pods_wait() -> None:
    found = sample()
    assert {found["states"][one] for one in found["cards"]["state"]} == {
        "free",
        "whole",
        "shared",
        "partitioned",
        "unhealthy",
        "foreign",
    }
    waiting = {one["name"]: one for one in rows(found, "pods") if one["phase"] == "waiting"}
    assert set(waiting) == {"whole-card-2", "whole-card-3"}
    assert waiting["whole-card-2"]["reason"] == "Unallocatable"
    assert "in use by" in waiting["whole-card-2"]["message"]
    (gang,) = rows(found, "gangs")
    assert (gang["name"], gang["size"], gang["running"], gang["ibClusters"]) == (
        "Job/gang-in-one-ib-cluster",
        4,
        4,
        ["ib-b"],
    )


def columns_of(found: Any) -> Iterator[tuple[str, str, list[Any]]]:
    for table in TABLES:
        for column, values in found[table].items():
            yield table, column, values


def test_the_columns_of_a_table_have_one_length_and_numbers_point_at_something() -> None:
    found = sample()
    for table, column, values in columns_of(found):
        assert len(values) == len(next(iter(found[table].values()))), (table, column)
        target = found.get(POINTS_AT.get(f"{table}.{column}", ""))
        if target is not None:
            size = len(target["name"] if isinstance(target, dict) and "name" in target else target)
            flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
            assert all(-1 <= one < size for one in flat), (table, column)
    assert sum(found["nodes"]["cards"]) == len(found["cards"]["name"])
    assert sum(found["cards"]["holdings"]) == len(found["holdings"]["claim"])


def test_a_card_has_one_state_and_all_that_closes_it() -> None:
    parts = slices("a", "t4x2", ("whole",))
    parts[0]["spec"]["devices"][0]["taints"] = [{"key": "lode.dev/unhealthy", "effect": "NoSchedule"}]
    closed = stored(node("a"))
    closed["spec"] = {"unschedulable": True}
    found = document(*parts, closed, held("c", "a/gpu-0", "p"))
    first, second = rows(found, "cards")
    assert (first["state"], first["use"], first["closure"]) == ("unhealthy", "whole", ["unhealthy", "cordoned"])
    assert (second["state"], second["use"], second["closure"]) == ("cordoned", "free", ["cordoned"])
    assert rows(found, "nodes") == [{"name": "a", "cards": 2, "ready": 1, "open": 0}]
    assert found["states"] == list(CARD_STATES)


def test_a_pod_is_named_by_its_claim_where_pods_cannot_be_read() -> None:
    found = document(*slices("a", "t4x2", ("whole",)), held("c", "a/gpu-0", "p"))
    assert [(one["name"], one["phase"], one["node"]) for one in rows(found, "pods")] == [("p", "unknown", None)]
    assert [one["pods"] for one in rows(found, "claims")] == [["p"]]


def test_a_pod_at_the_gate_has_the_claims_that_it_awaits() -> None:
    waiting = stored(pod("w", "c", schedulingGates=[{"name": "lode.dev/allocation"}]))
    found = document(stored(claim("c")), waiting, stored(pod("other")))
    assert [(one["name"], one["phase"], one["awaits"]) for one in rows(found, "pods")] == [("w", "waiting", ["c"])]
    assert [(one["name"], one["allocated"]) for one in rows(found, "claims")] == [("c", 0)]


def test_a_claim_that_is_named_after_its_pod_is_written_shorter() -> None:
    parts = slices("a", "t4x2", ("whole",))
    found = document(*parts, held("train-0-gpu-x7k2p", "a/gpu-0", "train-0"), held("train-0", "a/gpu-1", "train-0"))
    assert found["claims"]["name"] == ["*-gpu-x7k2p", "train-0"]
    assert [one["name"] for one in rows(found, "claims")] == ["train-0-gpu-x7k2p", "train-0"]


def test_gaps_and_nodes_without_cards_are_shown() -> None:
    gaps = FleetContents(
        view=contents_of(()).view,
        nodes={"cpu": ShownNode(ready=False, open=True)},
        missing=(KindGap("pods", "you may not list pods"),),
        problems=(KindGap("nodes", "no answer", SINCE),),
    )
    found = whole_document(gaps, "lode.dev")
    assert rows(found, "nodes") == [{"name": "cpu", "cards": 0, "ready": 0, "open": 1}]
    assert found["missing"] == [{"kind": "pods", "message": "you may not list pods"}]
    assert found["problems"] == [{"kind": "nodes", "message": "no answer", "since": SINCE}]


@pytest.fixture
def two_tenants() -> FleetContents:
    waiting = stored(pod("secret-waits", "secret-claim", schedulingGates=[{"name": "lode.dev/allocation"}]))
    objects = [
        *slices("a", "a100x4"),
        held("mine", "a/gpu-0", "my-pod", namespace="mine"),
        held("secret-whole", "a/gpu-1", "secret-pod", namespace="theirs"),
        held("secret-part", "a/gpu-2-mig-1g-5gb-3", "secret-pod", namespace="theirs"),
        stored(claim("secret-claim")),
        waiting,
        {**held("secret-odd", "a/gpu-3", namespace="theirs"), "spec": 7},
    ]
    return contents_of(objects)


def test_who_may_see_one_namespace_sees_no_name_of_another(two_tenants: FleetContents) -> None:
    found = whole_document(two_tenants, "lode.dev", lambda namespace: namespace == "mine")
    text = json.dumps(found)
    assert "secret" not in text
    assert "theirs" not in text
    assert [one["name"] for one in rows(found, "claims")] == ["mine"]
    assert found["namespaces"] == ["mine"]


def test_cards_that_others_hold_are_held_all_the_same(two_tenants: FleetContents) -> None:
    whole, part = whole_document(two_tenants, "lode.dev"), whole_document(two_tenants, "lode.dev", lambda _: False)
    assert whole["cards"] == part["cards"]
    assert part["holdings"] == {**whole["holdings"], "claim": [-1] * len(whole["holdings"]["claim"])}
    assert whole["notes"]
    assert not part["notes"]
