"""Files are read as kubectl reads them, and what cannot be read is told with its place."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.objects.documents import Documents, Origin, parse, read_documents
from driver.yaml_values import MAX_DEPTH


def parsed(text: str) -> Documents:
    documents = Documents()
    parse(text, "f", documents)
    return documents


def values(text: str) -> list[Any]:
    documents = parsed(text)
    assert not documents.faults
    return [document.value for document in documents.found]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("abc:-#1 ~\n'\"", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1~", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON, min_size=1), min_size=1, max_size=3))
def test_what_was_written_as_yaml_or_json_is_read_back(objects: list[Any]) -> None:
    assert values(yaml.safe_dump_all(objects)) == objects
    assert values("\n".join(map(json.dumps, objects))) == objects


def test_times_stay_text_and_numbers_are_numbers() -> None:
    (value,) = values("{a: 2027-01-15T08:00:00Z, b: 12:30, c: 0644, d: yes, e: ~, f: '1', g: 1.5, h: !!str 1, 5: x}")
    texts = {"a": "2027-01-15T08:00:00Z", "b": "12:30", "f": "1", "h": "1", "5": "x"}
    assert value == {**texts, "c": 0o644, "d": True, "e": None, "g": 1.5}


def test_an_alias_is_what_its_anchor_is() -> None:
    assert values("a: &x {b: [1]}\nc: *x") == [{"a": {"b": [1]}, "c": {"b": [1]}}]


def test_lists_are_taken_apart_and_empty_documents_left_out() -> None:
    text = "---\n---\nkind: PodList\napiVersion: v1\nitems: [{metadata: {name: a}}]\n---\nkind: Pod\n"
    documents = parsed(text)
    assert [(str(document.origin), document.value) for document in documents.found] == [
        ("f, document 2, items[0]", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
        ("f, document 3", {"kind": "Pod"}),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "is not YAML"),
        ('{"a": 1,', "is not JSON"),
        ("a: 1\nb: 2\na: 3", "duplicate key: 'a' (line 3); leave one out"),
        ("a: &x {}\nb: {<<: *x}", "(line 2); write the fields out"),
        ("a: &x [*x]", "undefined alias: *x (line 1)"),
        ("? [a]\n: 1", "cannot be used as a key"),
        ("a: !!int x", "not a valid int: 'x'"),
        ("a: " + "[" * MAX_DEPTH, f"nested more than {MAX_DEPTH} levels"),
        ('{"a": ' + "[" * MAX_DEPTH, f"nested more than {MAX_DEPTH} levels"),
        (
            "\n".join(f"a{i + 1}: &a{i + 1} [{','.join([f'*a{i}'] * 10)}]" for i in range(9)).replace("*a0", "x"),
            "aliases",
        ),
        ("a: \x00", "is not YAML"),
    ],
)
def test_what_cannot_be_read_is_told_and_costs_nothing(text: str, says: str) -> None:
    documents = parsed(text)
    assert says in str(documents.faults)
    assert not documents.found


def test_documents_before_a_broken_one_are_read() -> None:
    documents = parsed("a: 1\n---\nb: 2\n---\nc: [")
    assert [document.value for document in documents.found] == [{"a": 1}, {"b": 2}]
    assert [fault.origin for fault in documents.faults] == [Origin("f", 3)]


def test_folders_files_and_standard_input_are_read_once_each(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("b: 1")
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "notes.txt").write_text("c: 1")
    folder = str(tmp_path)
    documents = read_documents([folder, "-", "-", folder], io.StringIO("d: 1"))
    assert [document.value for document in documents.found] == [{"a": 1}, {"b": 1}, {"d": 1}]
    assert not documents.faults


def test_every_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4")
    names = [str(tmp_path / name) for name in ("absent.yaml", "empty", "latin.yaml")]
    told = [str(fault) for fault in read_documents(names, io.StringIO()).faults]
    assert [text.split(": ")[0] for text in told] == names
    assert "No such file" in told[0]
    assert "no file that ends in .yaml" in told[1]
    assert "not UTF-8" in told[2]
