"""The board for Grafana, made from a list of panels."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict

BOARD: Final = "monitoring/board.json"
"""What Grafana reads, in the manifests."""
_SOURCE: Final = Path(__file__).with_suffix(".yaml")
_SCHEMA: Final = 39
"""Of boards: Grafana 10.4. Newer versions take older boards."""
_COLUMNS: Final = 24
"""Of a board."""
_HEIGHTS: Final = {"stat": 4}
_HEIGHT: Final = 8
_DATABASE: Final = {"type": "prometheus", "uid": "${datasource}"}
_ALL: Final = "$__all"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(_Strict):
    """What is asked for, with the words of the board, and how a series of the answer is called."""

    expr: str
    legend: str = ""


class Panel(_Strict):
    """A panel as ``board.yaml`` has it.

    Attributes:
        answers: the question that it answers.
        shows: values over time as lines or on top of each other, the last value, or a table.
        columns: of a table, labels and values with their headers.
        units: of columns, by header.
    """

    title: str
    answers: str
    shows: Literal["lines", "stacked", "stat", "table"] = "lines"
    width: int = 4
    height: int = 0
    unit: str = "short"
    decimals: int | None = None
    queries: tuple[Query, ...]
    columns: dict[str, str] = {}
    units: dict[str, str] = {}


class Row(_Strict):
    """Panels under a heading. Those of a row that is collapsed ask nothing until it is opened."""

    row: str
    collapsed: bool = False
    panels: tuple[Panel, ...]


class Variable(_Strict):
    """What can be chosen above the panels: one of the values of a label, or any text."""

    name: str
    label: str
    values: str = ""
    text: str = ""


class Board(_Strict):
    """All that ``board.yaml`` has. ``words`` are replaced in queries."""

    variables: tuple[Variable, ...]
    words: dict[str, str]
    rows: tuple[Row, ...]

    def expression(self, query: Query) -> str:
        """Return what Prometheus is asked."""
        text = query.expr.strip()
        for word, meaning in self.words.items():
            text = text.replace(word, meaning)
        return text


def board() -> Board:
    """Return the board.

    Raises:
        pydantic.ValidationError: the file has a fault.
    """
    return Board.model_validate(yaml.safe_load(_SOURCE.read_text()))


def board_text() -> str:
    """Return the board as Grafana reads it."""
    found = board()
    content = {
        "uid": "lode",
        "title": "Lode",
        "description": "Who has the cards, who uses them, and who waits (docs/board.md).",
        "tags": ["lode"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [_database_variable(), *map(_variable, found.variables)]},
        "panels": list(_panels(found)),
    }
    return json.dumps(content, indent=1) + "\n"


def _database_variable() -> Mapping[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _variable(variable: Variable) -> Mapping[str, Any]:
    named = {"name": variable.name, "label": variable.label}
    if not variable.values:
        chosen = {"text": variable.text, "value": variable.text}
        return {**named, "type": "textbox", "query": variable.text, "current": chosen}
    return {
        **named,
        "type": "query",
        "datasource": _DATABASE,
        "definition": variable.values,
        "query": {"query": variable.values, "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": [_ALL]},
    }


def _panels(found: Board) -> Iterator[Mapping[str, Any]]:
    """The rows and panels from top to bottom. Grafana has those of a collapsed row inside it."""
    top, number = 0, 0
    for row in found.rows:
        number += 1
        placed, below = _placed(row.panels, top + 1)
        made = []
        heading = {"id": number, "type": "row", "title": row.row, "collapsed": row.collapsed}
        for panel, place in placed:
            number += 1
            made.append({"id": number, "gridPos": place, **_panel(found, panel)})
        yield {**heading, "gridPos": _place(0, top, _COLUMNS, 1), "panels": made if row.collapsed else []}
        if not row.collapsed:
            yield from made
        top = top + 1 if row.collapsed else below


def _placed(panels: Sequence[Panel], top: int) -> tuple[Sequence[tuple[Panel, Mapping[str, int]]], int]:
    """Where each panel is, and where the next row begins."""
    found, left, below = [], 0, top
    for panel in panels:
        if left + panel.width > _COLUMNS:
            left, top = 0, below
        height = panel.height or _HEIGHTS.get(panel.shows, _HEIGHT)
        found.append((panel, _place(left, top, panel.width, height)))
        left, below = left + panel.width, max(below, top + height)
    return found, below


def _place(left: int, top: int, width: int, height: int) -> Mapping[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(found: Board, panel: Panel) -> Mapping[str, Any]:
    how = {"stat": _stat, "table": _table}.get(panel.shows, _graph)(panel)
    now = panel.shows == "table"
    targets = [
        {
            "refId": letter,
            "datasource": _DATABASE,
            "expr": found.expression(query),
            "legendFormat": query.legend or "__auto",
            "format": "table" if now else "time_series",
            "instant": now,
            "range": not now,
        }
        for letter, query in zip(ascii_uppercase, panel.queries, strict=False)
    ]
    return {"title": panel.title, "description": panel.answers, "datasource": _DATABASE, "targets": targets, **how}


def _defaults(panel: Panel, **custom: Any) -> Mapping[str, Any]:
    decimals = {} if panel.decimals is None else {"decimals": panel.decimals}
    return {"unit": panel.unit, **decimals, "custom": custom}


def _stat(panel: Panel) -> Mapping[str, Any]:
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    options = {"reduceOptions": reduced, "graphMode": "area", "colorMode": "none"}
    return {"type": "stat", "options": options, "fieldConfig": {"defaults": _defaults(panel), "overrides": []}}


def _graph(panel: Panel) -> Mapping[str, Any]:
    stacked = panel.shows == "stacked"
    custom = {
        "fillOpacity": 30 if stacked else 5,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    defaults = {**_defaults(panel, **custom), "min": 0}
    return {"type": "timeseries", "options": options, "fieldConfig": {"defaults": defaults, "overrides": []}}


def _table(panel: Panel) -> Mapping[str, Any]:
    organize = {
        "excludeByName": {name: True for name in ("Time", "Value") if name not in panel.columns},
        "indexByName": {name: place for place, name in enumerate(panel.columns)},
        "renameByName": panel.columns,
    }
    overrides = [
        {"matcher": {"id": "byName", "options": header}, "properties": [{"id": "unit", "value": unit}]}
        for header, unit in panel.units.items()
    ]
    return {
        "type": "table",
        "options": {"showHeader": True},
        "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}],
        "fieldConfig": {"defaults": _defaults(panel, filterable=True), "overrides": overrides},
    }
