"""The board for Grafana: what Grafana reads follows from the list of panels, and is such that Grafana shows it."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from charts.board import BOARD, Panel, board, board_text
from charts.monitoring import MANIFESTS
from tests.unit.docs.pages import ROOT, page
from tests.unit.manifests.test_monitoring import OF_OTHERS, RECORDS

CONTENT = json.loads(board_text())
SCHEMA = yaml.safe_load((ROOT / "tests/data/monitoring/board-schema.yaml").read_text())
PANELS = [panel for row in board().rows for panel in row.panels]
DATABASE = {"type": "prometheus", "uid": "${datasource}"}
OF_EXPORTERS = {
    "DCGM_FI_DEV_FB_USED",
    "npu_chip_info_hbm_used_memory",
    "kube_resourcequota",
    "dra_grpc_operations_duration_seconds",
    "lode:card_price:hour",
}
UNITS = {"short", "percentunit", "s", "bytes", "ops"}
"""Those of Grafana's that are used."""


def drawn() -> Iterator[Any]:
    """All panels and rows, those of collapsed rows too."""
    for panel in CONTENT["panels"]:
        yield panel
        yield from panel.get("panels", [])


def test_what_is_shipped_is_made_from_the_list_of_panels() -> None:
    for path in (MANIFESTS / BOARD, ROOT / "charts/lode/files/board.json"):
        assert path.read_text() == board_text(), "run `make chart`"


def test_the_board_is_as_grafana_reads_boards() -> None:
    faults = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMA).iter_errors(CONTENT)]
    assert not faults


def test_each_panel_has_a_number_and_a_place_of_its_own() -> None:
    numbers = [panel["id"] for panel in drawn()]
    assert len(numbers) == len(set(numbers))
    collapsed = [panel["panels"] for panel in CONTENT["panels"] if panel.get("panels")]
    for together in (CONTENT["panels"], *collapsed):
        places = [panel["gridPos"] for panel in together]
        assert all(place["x"] + place["w"] <= 24 for place in places)
        assert not [pair for pair in combinations(places, 2) if overlap(*pair)]
        assert [place["y"] for place in places] == sorted(place["y"] for place in places)


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def test_everything_asks_the_database_that_is_chosen() -> None:
    asking = [panel for panel in drawn() if panel["type"] != "row"]
    asking += [target for panel in asking for target in panel["targets"]]
    asking += [one for one in CONTENT["templating"]["list"] if one["type"] == "query"]
    assert all(one["datasource"] == DATABASE for one in asking)


def test_every_variable_is_used_and_every_name_is_a_variable() -> None:
    variables = CONTENT["templating"]["list"]
    texts = [target["expr"] for panel in drawn() for target in panel.get("targets", [])]
    texts += [one["query"]["query"] for one in variables if one["type"] == "query"]
    used = {name for text in texts for name in re.findall(r"\$\{?([a-z_]\w*)", text)}
    own = {"__range", "__rate_interval"}
    assert used - own == {one["name"] for one in variables} - {"datasource"}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_asks_a_question_for_series_that_exist_in_a_unit_of_grafanas(panel: Panel) -> None:
    assert "?" in panel.answers
    assert {panel.unit, *panel.units.values()} <= UNITS
    assert set(panel.units) <= set(panel.columns.values())
    listed = set(re.findall(r"^\| `(lode_\w+)` \|", page("docs/metrics.md"), re.MULTILINE))
    known = listed | OF_OTHERS | OF_EXPORTERS | set(RECORDS) | {"ALERTS"}
    for query in panel.queries:
        text = re.sub(r'"[^"]*"', "", board().expression(query))
        asked = re.findall(r"(?:lode|npu|kube|dra)[_:][\w:]+|DCGM_\w+|\bALERTS\b|\bup\b", text)
        assert asked
        assert {name.removesuffix("_bucket") for name in asked} <= known, "a name is wrong, or not in docs/metrics.md"
        assert panel.shows != "table" or not query.legend


def test_the_page_has_each_panel_with_what_it_answers() -> None:
    text = page("docs/board.md")
    for row in board().rows:
        part = text.partition(f"\n### {row.row}\n")[2].partition("\n#")[0]
        listed = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", part, re.MULTILINE)[1:]
        assert listed == [(panel.title, panel.answers) for panel in row.panels], row.row
