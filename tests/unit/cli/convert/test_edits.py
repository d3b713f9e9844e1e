"""A changed document reads back as the changed value, and the rest of its text is as it was."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.convert.edits import CannotEdit, TextEdits
from cli.convert.nodes import read_placed

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab:-#1 ~\n'\"", max_size=6)
NAMES = st.text("ab1~", min_size=1, max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


def edited(text: str, change: Callable[[Any], Any]) -> str:
    """The text with its one document changed."""
    (document,) = read_placed(text)
    assert document.node is not None
    edits = TextEdits(text, document.aliased)
    edits.change(document.node, document.value, change(document.value))
    return edits.result(0, len(text))


class Indenting(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


STYLES: dict[str, Callable[[Any], str]] = {
    "block": lambda value: yaml.safe_dump(value, sort_keys=False),
    "indented lists": lambda value: yaml.dump(value, Dumper=Indenting, sort_keys=False),
    "some brackets": lambda value: yaml.safe_dump(value, sort_keys=False, default_flow_style=None),
    "brackets": lambda value: yaml.safe_dump(value, sort_keys=False, default_flow_style=True),
    "JSON": json.dumps,
    "JSON on many lines": lambda value: json.dumps(value, indent=2),
}


def other(value: Any, draw: Callable[[Any], Any]) -> Any:
    """The value with keys taken out and added and lists that are longer, at any depth."""
    if isinstance(value, dict):
        kept = {name: other(inner, draw) for name, inner in value.items() if draw(st.integers(0, 3))}
        return {
            **kept,
            **{f"new{name}": inner for name, inner in draw(st.dictionaries(NAMES, VALUES, max_size=2)).items()},
        }
    if isinstance(value, list):
        return [*(other(inner, draw) for inner in value), *draw(st.lists(VALUES, max_size=2))]
    return value if draw(st.integers(0, 3)) else draw(SCALARS)


@pytest.mark.parametrize("style", STYLES)
@given(data=st.data(), value=DOCUMENTS)
def test_what_is_written_reads_back_as_the_changed_value(
    style: str, data: st.DataObject, value: dict[str, Any]
) -> None:
    text = STYLES[style](value)
    wanted = other(value, data.draw)
    try:
        found = edited(text, lambda _: wanted)
    except CannotEdit:
        return
    (document,) = read_placed(found)
    assert document.value == wanted, found
