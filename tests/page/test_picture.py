"""The picture and the tables show what the document says."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cli.fleetview import CardView, FleetCard, OfferedPart
from driver.wire import Json
from tests.page.fleets import card, contents, every_state, held, large, whole
from tests.page.looking import Look
from tests.page.served import StagedFleet, document

Show = Callable[..., tuple[Look, StagedFleet]]


def cards_of(found: Json) -> Iterator[tuple[str, Json]]:
    """Each card of a document: id, and its state, use, closures and holders."""
    at = holding = 0
    for node, count in zip(found["nodes"]["name"], found["nodes"]["cards"], strict=True):
        for _ in range(count):
            column = {name: values[at] for name, values in found["cards"].items()}
            claims = found["holdings"]["claim"][holding : holding + column["holdings"]]
            yield (
                f"card/{node}/{found['cardNames'][column['name']]}",
                {
                    "state": found["states"][column["state"]],
                    "use": found["states"][column["use"]],
                    "closures": found["closures"][column["closure"]],
                    "holders": [holder for claim in claims for holder in holders_of(found, claim)],
                },
            )
            at, holding = at + 1, holding + column["holdings"]


def holders_of(found: Json, claim: int) -> list[str]:
    namespace = found["namespaces"][found["claims"]["namespace"][claim]]
    pods = [found["pods"]["name"][pod] for pod in found["claims"]["pods"][claim]]
    return [f"{namespace}/{pod}" for pod in pods] or [f"{namespace}/claim/{found['claims']['name'][claim]}"]


@pytest.mark.parametrize("form", ["text", "nodes", "dots"])
def test_every_card_is_a_cell_with_its_state_and_holders(show: Show, form: str) -> None:
    look, fleet = show()
    look.one(f"button[data-form={form}]").click()
    look.settle()
    cells = look.cells()
    expected = dict(cards_of(document(fleet)))
    assert list(cells) == list(expected)
    assert {key: (cell["state"], cell["use"]) for key, cell in cells.items()} == {
        key: (one["state"], one["use"]) for key, one in expected.items()
    }
    for key, one in expected.items():
        said = [*one["holders"], *one["closures"], *([one["use"]] if one["use"] != "free" else [])]
        assert [word for word in said if word not in cells[key]["label"]] == []


def test_a_card_in_use_that_is_closed_for_the_next_claim_has_a_lid(show: Show) -> None:
    look, _ = show()
    assert {key: cell["lid"] for key, cell in look.cells().items() if cell["lid"]} == {"card/gpu-1/gpu-1": "cordoned"}


def test_fabrics_are_groups_with_their_nodes(show: Show) -> None:
    look, _ = show()
    assert look.texts(".fabric h3") == [
        "InfiniBand cluster ib-a",
        "InfiniBand cluster ib-b",
        "No known InfiniBand cluster",
    ]
    assert look.texts(".fabric .fabric-head .facts") == [
        "1 node, 6 cards, 2 free",
        "1 node, 6 cards, 0 free",
        "1 node, 2 cards, 2 free",
    ]


def test_the_legend_counts_each_state(show: Show) -> None:
    look, _ = show()
    counted = dict(one.split() for one in look.texts("#legend button:visible"))
    closed = {"cordoned": "3", "releasing": "1", "unhealthy": "2", "foreign": "1", "unpublished": "1"}
    assert counted == {"free": "4", "whole": "4", "shared": "1", "partitioned": "1", **closed}


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("node", "pu-1", [f"gpu-1/gpu-{number}" for number in range(6)] + ["npu-1/npu-0", "npu-1/npu-1"]),
        ("namespace", "team-b", ["gpu-1/gpu-2", "gpu-2/gpu-3", "gpu-2/gpu-5"]),
        ("type", "310P", ["npu-1/npu-0", "npu-1/npu-1"]),
    ],
)
def test_a_filter_leaves_the_cards_that_it_names(show: Show, field: str, value: str, shown: list[str]) -> None:
    look, _ = show()
    control = look.one(f"#filter-{field}")
    control.select_option(value) if field == "type" else control.fill(value)
    look.one("#shown").get_by_text(f"{len(shown)} of 14 shown").wait_for()
    left = [
        key.removeprefix("card/") for key, cell in look.cells().items() if "true" not in (cell["other"], cell["hidden"])
    ]
    assert left == shown
    look.one("#filter-reset").click()
    look.settle()
    assert look.text("#shown") == ""
    assert [key for key, cell in look.cells().items() if "true" in (cell["other"], cell["hidden"])] == []


def test_the_legend_is_a_filter_that_a_reload_keeps(show: Show) -> None:
    look, _ = show()
    look.one("#legend button[data-state=unhealthy]").click()
    look.one("#shown").get_by_text("2 of 14 shown").wait_for()
    look.page.reload()
    look.ready()
    assert look.text("#shown") == "2 of 14 shown"
    assert look.one("#legend button[data-state=unhealthy]").get_attribute("aria-pressed") == "true"


def test_a_filter_in_the_address_that_makes_no_sense_shows_everything(show: Show) -> None:
    look, _ = show()
    look.page.evaluate("() => { location.hash = '#nowhere?state=toString&state=constructor&select=card/none/gpu-0'; }")
    look.one("#panel").get_by_text("It is not in the cluster any more").wait_for()
    look.settle()
    assert look.text("#shown") == ""
    assert look.one("nav a[aria-current]").inner_text() == "Fleet"


def test_the_table_has_a_row_for_each_card(show: Show) -> None:
    look, fleet = show()
    look.one("button[data-form=table]").click()
    rows = [row.split("\t") for row in look.texts("#table-cards tbody tr")]
    expected = dict(cards_of(document(fleet)))
    assert [f"card/{row[0]}" for row in rows] == list(expected)
    for row, one in zip(rows, expected.values(), strict=True):
        words = [one["use"]] if one["use"] != "free" or not one["closures"] else []
        assert row[2].strip() == ", ".join([*words, *one["closures"]])
        assert row[3] == ", ".join(one["holders"])


def test_a_long_table_comes_in_pages(show: Show) -> None:
    look, _ = show(large(30))
    look.one("button[data-form=table]").click()
    assert look.one("#table-cards tbody tr").count() == 200
    look.one("#table-cards .more").click()
    assert look.one("#table-cards tbody tr").count() == 240
    assert look.focused() == "node-0025/gpu-0"


def test_claims_pods_and_gangs_are_listed(show: Show) -> None:
    look, _ = show(view="claims")
    claims = {row.split("\t")[0]: row.split("\t")[1:4] for row in look.texts("#table-claims tbody tr")}
    assert claims["team-b/chat"] == ["allocated", "chat-0", "gpu-1/gpu-2"]
    look.go("waiting")
    rows = [[cell.strip() for cell in row.split("\t")] for row in look.texts("#table-waiting tbody tr")]
    waits = ["Unallocatable", "0 of 3 nodes can take the pod.", "train"]
    assert next(row[2:] for row in rows if row[0] == "team-a/train-2") == waits
    look.go("gangs")
    assert look.texts("#table-gangs tbody tr")[0].split("\t")[:2] == ["team-a/train", "2 of 4"]
    assert look.texts("nav .count") == ["3", "7", "1"]


def test_what_holds_nothing_says_so(show: Show) -> None:
    look, _ = show(contents([card("gpu-1/gpu-0")]))
    for view, said in {
        "waiting": "No pod waits for devices.",
        "claims": "There are no claims.",
        "gangs": "There are no gangs.",
    }.items():
        look.go(view)
        assert look.text(f"#table-{view}") == said


def test_what_is_selected_is_ringed_in_the_picture(show: Show) -> None:
    fleet = [
        whole("gpu-1/gpu-0", "default/two", "pod"),
        whole("gpu-1/gpu-1", "default/two", "pod"),
        card("gpu-1/gpu-2"),
    ]
    look, _ = show(contents(fleet), view="claims")
    look.one("#table-claims .link").first.click()
    look.go("fleet")
    look.one("#picture .card").first.click()
    look.one("#panel [data-target='claim/default/two']").click()
    assert look.marked() == ["card/gpu-1/gpu-0", "card/gpu-1/gpu-1"]
    look.page.go_back()
    look.settle()
    assert look.marked() == ["card/gpu-1/gpu-0"]


def test_a_large_fleet_begins_as_dots_and_has_every_card(show: Show) -> None:
    look, fleet = show(large(600))
    assert look.one("#picture").get_attribute("data-form") == "dots"
    cells = look.cells()
    assert {key: cell["state"] for key, cell in cells.items()} == {
        key: one["state"] for key, one in cards_of(document(fleet))
    }


def test_nodes_in_no_fabric_come_in_parts(show: Show) -> None:
    look, _ = show(contents(card(f"node-{number:03}/gpu-0") for number in range(300)))
    assert look.texts(".fabric h3") == [f"No known InfiniBand cluster ({part})" for part in (1, 2, 3)]


def test_the_page_of_an_empty_cluster_has_no_card(show: Show) -> None:
    look, _ = show(contents(every_state().view.cards[:0]))
    assert look.cells() == {}


def test_memory_that_nothing_says_is_unknown_and_not_nothing(show: Show) -> None:
    """As of cards of device plugins, whole and with slots."""
    parts = OfferedPart("", "whole", cores=100), OfferedPart("-share", "shared", cores=100, slots=8)
    first, second = (CardView(FleetCard("n", f"hca-{at}", parts=(part,))) for at, part in enumerate(parts))
    shared = replace(second, holdings=(held("n/hca-1", "shared", "team/slot", "pod", gib=0, cores=0),))
    look, _ = show(contents([first, shared]))
    for place, can_get in ((0, "all of it, or a slot"), (1, "a slot, while one is free")):
        look.one("#picture .card").nth(place).click()
        told = look.texts("#panel dd")
        assert ("unknown" in told, can_get in told) == (True, True), told
    look.one("button[data-form=table]").click()
    rows = [row.split("\t") for row in look.texts("#table-cards tbody tr")]
    assert [row[4] for row in rows] == ["unknown", "unknown"]
