"""The rows of a subject of ``lode top``, as a table, as JSON and as YAML."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cli.tables import table

Format = Literal["table", "wide", "json", "yaml"]
Item = Mapping[str, Any]
"""A row, with the keys of JSON. A key without a value is left out."""
NOTHING = "<none>"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its header, the key of its value, and whether only ``-o wide`` shows it."""

    header: str
    key: str
    wide: bool = False

    def cell(self, item: Item) -> str:
        """The value as text; several are joined by commas."""
        value = item.get(self.key)
        if isinstance(value, list | tuple):
            return ",".join(map(str, value)) or NOTHING
        return NOTHING if value is None or value == "" else str(value)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is known about a subject, in the order in which it is shown."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


def rendered(report: Listing, columns: Sequence[TableColumn], output: Format) -> str:
    """The report as text; "" for a table without rows."""
    if output == "json":
        return json.dumps({"items": [dict(item) for item in report.items]}, indent=2)
    if output == "yaml":
        import yaml  # takes long to import, and a table needs none

        text: str = yaml.safe_dump({"items": [dict(item) for item in report.items]}, sort_keys=False)
        return text.rstrip("\n")
    shown = [column for column in columns if output == "wide" or not column.wide]
    return table([column.header for column in shown], _rows(report.items, shown)) if report.items else ""


def _rows(items: Iterable[Item], columns: Sequence[TableColumn]) -> list[tuple[str, ...]]:
    return [tuple(column.cell(item) for column in columns) for item in items]
