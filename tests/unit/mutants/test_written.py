"""The changes that are written by hand still change something: each replaces a text that its file has once."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import tests.mutants

_FOLDER = Path(tests.mutants.__file__).parent
_ROOT = _FOLDER.parent.parent


@pytest.mark.parametrize("table", ["written.yaml", "undone.yaml"])
def test_what_a_change_replaces_is_in_its_file_once(table: str) -> None:
    entries: list[dict[str, Any]] = yaml.safe_load((_FOLDER / table).read_text())
    counts = {entry["name"]: (_ROOT / entry["file"]).read_text().count(entry["old"].rstrip("\n")) for entry in entries}
    assert entries
    assert {name: count for name, count in counts.items() if count != 1} == {}
