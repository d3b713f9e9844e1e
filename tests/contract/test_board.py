"""Every query of the board has data in a real Prometheus that scrapes a fleet, with the labels that the board shows."""

import math
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from charts.board import Panel, Query, Variable, board
from tests.contract.running_prometheus import asked, running_prometheus
from tests.contract.watched_fleet import WAITING_MEMBERS, WatchedFleet, scraping, served

BOARD = board()
PANELS = {f"{row.row}: {panel.title}": panel for row in BOARD.rows for panel in row.panels}
QUERIES = [(panel, query) for panel in PANELS.values() for query in panel.queries]
CHOSEN = {"type": ".*", "namespace": ".*", "node": ".*", "price": "2.5", "__rate_interval": "20s", "__range": "1m"}
"""What Grafana writes for variables."""
PATIENCE_SECONDS = 90
WINDOW_SECONDS = 15


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus that scrapes a fleet."""
    folder = tmp_path_factory.mktemp("prometheus")
    with TemporaryDirectory(prefix="lode-") as short:
        fleet = WatchedFleet(Path(short))
        try:
            fleet.begin()
            with served(fleet.text) as address, running_prometheus(folder, scraping(address, folder)) as url:
                yield url
        finally:
            fleet.close()


def written(text: str) -> str:
    """A query as Grafana sends it."""
    return re.sub(r"\$([a-z_]\w*)", lambda found: CHOSEN[found[1]], text)


def answer(url: str, panel: Panel, query: Query) -> list[Mapping[str, Any]]:
    """The series of a query with a value, as soon as there are any."""
    text = written(BOARD.expression(query))
    found: list[Mapping[str, Any]] = []
    for _ in range(PATIENCE_SECONDS):
        if panel.shows == "table":
            found = asked(url, "query", query=text)["result"]
        else:
            now = time.time()
            times = {"start": f"{now - WINDOW_SECONDS}", "end": f"{now}", "step": "1"}
            found = asked(url, "query_range", query=text, **times)["result"]
        found = [one for one in found if any(math.isfinite(value) for value in values(one))]
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"no data: {text}")


def values(series: Mapping[str, Any]) -> list[float]:
    points = series["values"] if "values" in series else [series["value"]]
    return [float(value) for _, value in points]


@pytest.mark.parametrize(("panel", "query"), QUERIES, ids=lambda value: getattr(value, "title", None) or "query")
def test_a_query_has_data_with_the_labels_that_the_panel_shows(database: str, panel: Panel, query: Query) -> None:
    found = answer(database, panel, query)
    labels = [one["metric"] for one in found]
    if panel.shows == "table":
        shown = panel.columns.keys() - {name for name in panel.columns if name.startswith("Value")}
        assert {name for one in labels for name in one} == shown
    elif panel.shows == "stat":
        assert labels == [{}]
    else:
        named = re.findall(r"\{\{(\w+)\}\}", query.legend)
        assert set(named) <= {name for one in labels for name in one}
        legends = [tuple(one.get(name, "") for name in named) for one in labels]
        assert len(set(legends)) == len(legends), "no two lines have the same name"


@pytest.mark.parametrize("variable", [one for one in BOARD.variables if one.values], ids=lambda one: one.name)
def test_a_variable_has_values_to_choose_from(database: str, variable: Variable) -> None:
    (found,) = re.findall(r"^label_values\((.*), (\w+)\)$", variable.values)
    assert asked(database, f"label/{found[1]}/values", **{"match[]": written(found[0])})


@pytest.mark.parametrize(
    ("title", "expected"),
    [("Fleet: Cards", 25), ("Controller and plugins: Leaders", 1), ("Fleet: Pods that wait", 1 + WAITING_MEMBERS)],
)
def test_what_is_shown_is_so(database: str, title: str, expected: float) -> None:
    (found,) = answer(database, PANELS[title], PANELS[title].queries[0])
    assert expected in values(found)


def test_what_is_held_and_what_is_idle_cost_together_what_all_cards_cost(database: str) -> None:
    held, idle, cards = (
        BOARD.expression(PANELS[title].queries[0])
        for title in ("Cost: Cost per hour", "Cost: Idle cost per hour", "Fleet: Cards")
    )
    (found,) = asked(database, "query", query=written(f"({held}) + ({idle}) - 2.5 * ({cards})"))["result"]
    assert math.isclose(values(found)[0], 0, abs_tol=1e-6)
