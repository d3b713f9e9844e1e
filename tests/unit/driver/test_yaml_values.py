"""YAML of others, whose scalars mean what the reader makes of them."""

from typing import Any

import pytest

from driver.bare import Bare
from driver.yaml_values import MAX_DEPTH, MAX_TEXTS, InvalidDocument, yaml_texts


@pytest.mark.parametrize(
    ("text", "value", "bare"),
    [
        ("0000:41:00.0", "0000:41:00.0", True),
        ("010", "010", True),
        ("~", "~", True),
        ("", "", True),
        ("'010'", "010", False),
        ('"a\\tb"', "a\tb", False),
        ("|\n  a\n", "a\n", False),
        ("!!str 1", "1", False),
        ("!!int '1'", "1", True),
        ("!other 1", "1", False),
    ],
)
def test_a_scalar_is_what_is_written(text: str, value: str, bare: bool) -> None:
    found = yaml_texts(f"a: {text}")["a"]
    assert (found, isinstance(found, Bare)) == (value, bare)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("a: 1\n---\nb: [", {"a": "1"}),
        ("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}", {"a": {"p": "1", "q": "2"}, "b": {"p": "1", "q": "3"}}),
        (
            "a: [&x {p: 1}, &y {p: 2, q: 2}]\nb: {<<: [*x, *y]}",
            {"a": [{"p": "1"}, {"p": "2", "q": "2"}], "b": {"p": "1", "q": "2"}},
        ),
    ],
)
def test_the_first_document_is_read_with_what_it_merges(text: str, value: Any) -> None:
    assert yaml_texts(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * (MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} levels deep"),
        ("a: [" + "1, " * (MAX_TEXTS + 1) + "]", f"has more than {MAX_TEXTS} values"),
        (f"a: &x [{'1, ' * 500}]\nb: [{'*x, ' * 500}]", f"has more than {MAX_TEXTS} values"),
        ("a: 1\na: 2", "duplicate key: 'a'"),
        ("a: {<<: 1}", "<< names what is no mapping"),
        ("a: *x", "undefined alias"),
        ("? [a]\n: 1", "cannot be used as a key"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidDocument, match=said):
        yaml_texts(text)
