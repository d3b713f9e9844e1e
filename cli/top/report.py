"""The rows of a subject of ``lode top``, as a table, as JSON and as YAML."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cli.tables import table
from driver.errors import InvalidInput, OperatorFault
from driver.quantity import Quantity

Format = Literal["table", "wide", "json", "yaml"]
Item = Mapping[str, Any]
"""A row, with the keys of JSON. A key without a value is left out."""
NOTHING: Final = "<none>"
UNKNOWN: Final = "-"
"""What stands for a measurement that nobody has made. It is never 0."""
_MOST_LISTED: Final = 3
"""Values of a list that a cell of a table has, unless it is wide."""
_GIBI: Final = 1024**3
_MEBI: Final = 1024**2


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        key: of its value.
        wide: whether only ``-o wide`` shows it.
        of: the key of the total that stands behind it: ``12Gi/80Gi``.
        form: how the value is written: ``memory`` rounds to Mi or Gi, ``percent`` takes a ratio, and ``hours`` and
            ``money`` round.
        missing: what stands for no value.
        sort: the key of the value that rows are sorted by; "" for the one that is shown.
    """

    header: str
    key: str
    wide: bool = False
    of: str = ""
    form: Literal["", "memory", "percent", "hours", "money"] = ""
    missing: str = NOTHING
    sort: str = ""

    def cell(self, item: Item, most: int = 0) -> str:
        """The value as text; several are joined by commas, at most so many of them unless it is 0."""
        value = item.get(self.key)
        if isinstance(value, list | tuple):
            shown = [self._text(one) for one in (value[:most] if most else value)]
            more = [f"+{len(value) - most}"] if most and len(value) > most else []
            return ",".join(shown + more) or self.missing
        if value is None or value == "":
            return self.missing
        total = f"/{self._text(item[self.of])}" if self.of and self.of in item else ""
        return f"{self._text(value)}{total}"

    def _text(self, value: Any) -> str:
        if self.form == "memory":
            return _rounded(value)
        if self.form == "percent":
            return f"{value:.0%}"
        if self.form == "hours":
            return f"{value:.1f}"
        if self.form == "money":
            return f"{value:.2f}"
        return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is known about a subject, in the order in which it is shown."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


def ordered(report: Listing, columns: Sequence[TableColumn], by: str) -> Listing:
    """Return the report by a column, named by its header or its key: numbers largest first, texts as in the alphabet.

    Raises:
        OperatorFault: there is no such column.
    """
    column = next((one for one in columns if by.lower() in (one.key.lower(), one.header.lower())), None)
    if column is None:
        known = ", ".join(one.key for one in columns)
        raise OperatorFault(f"--sort-by {by!r}: no column of that name; choose one of {known}")
    return replace(
        report, items=tuple(sorted(report.items, key=lambda item: _place(item.get(column.sort or column.key))))
    )


def rendered(report: Listing, columns: Sequence[TableColumn], output: Format, *, headers: bool = True) -> str:
    """The report as text; "" for a table without rows."""
    if output == "json":
        return json.dumps({"items": [dict(item) for item in report.items]}, indent=2)
    if output == "yaml":
        import yaml  # takes long to import, and a table needs none

        text: str = yaml.safe_dump({"items": [dict(item) for item in report.items]}, sort_keys=False)
        return text.rstrip("\n")
    if not report.items:
        return ""
    shown = [column for column in columns if output == "wide" or not column.wide]
    lines = table([column.header for column in shown], _rows(report.items, shown, output == "wide"))
    return lines if headers else lines.partition("\n")[2]


def _rows(items: Iterable[Item], columns: Sequence[TableColumn], wide: bool) -> list[tuple[str, ...]]:
    most = 0 if wide else _MOST_LISTED
    return [tuple(column.cell(item, most) for column in columns) for item in items]


def _place(value: Any) -> tuple[int, float, str]:
    """Numbers before texts before nothing."""
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    if value is None or value == "":
        return 2, 0, ""
    if isinstance(value, int | float):
        return 0, -value, ""
    try:
        return 0, -Quantity.parse(str(value)).nanos, ""
    except InvalidInput:
        return 1, 0, str(value)


def _rounded(value: Any) -> str:
    amount = Quantity.parse(str(value)).value
    if not amount:
        return "0"
    if amount < 10 * _GIBI:
        return f"{amount // _MEBI}Mi" if amount % _GIBI else f"{amount // _GIBI}Gi"
    return f"{round(amount / _GIBI)}Gi"
