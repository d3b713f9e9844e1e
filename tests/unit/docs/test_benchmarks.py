"""docs/benchmarks.md: each table of figures has the command that printed it and the date."""

import re

import pytest

from tests.unit.docs.pages import ROOT, page

COMMANDS, *SECTIONS = page("docs/benchmarks.md").split("\n## ")
BENCHMARKS = set(re.findall(r"^(bench[a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_benchmark_is_named() -> None:
    named = set(re.findall(r"^\| `make (bench[a-z-]*)`", COMMANDS, re.MULTILINE))
    assert not BENCHMARKS - named, f"docs/benchmarks.md: add rows for {sorted(BENCHMARKS - named)} of the Makefile"
    assert not named - BENCHMARKS, f"docs/benchmarks.md: remove {sorted(named - BENCHMARKS)}, not in the Makefile"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_a_section_has_its_command_and_each_table_its_date(section: str) -> None:
    heading, _, text = section.partition("\n")
    (command,) = re.findall(r"`make (bench[a-z-]*)`$", heading)
    assert command in BENCHMARKS
    before = re.split(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)[:-1]
    assert before
    assert [prose for prose in before if not re.search(r"[Mm]easured 20\d\d-\d\d-\d\d", prose)] == []
