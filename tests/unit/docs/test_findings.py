"""The programs of ``findings/`` stand alone, and the page there has each of them. No check runs them."""

import re
import stat

from tests.unit.docs.pages import ROOT

PROGRAMS = sorted((ROOT / "findings").glob("*.sh"))


def test_the_page_has_each_program_once() -> None:
    listed = re.findall(r"^\| `([^`]+\.sh)` \|", (ROOT / "findings" / "README.md").read_text(), re.MULTILINE)
    names = [file.name for file in PROGRAMS]
    assert sorted(listed) == names != [], "findings/README.md: one row for each of the programs beside it"


def test_each_says_what_was_seen_with_which_versions_and_fails_if_that_changes() -> None:
    for file in PROGRAMS:
        text = file.read_text()
        head = text.partition("\nset -euo pipefail\n")[0]
        assert head.startswith("#!/bin/bash\n# "), file
        assert re.search(r"^# Seen with .*\d+\.\d+", head, re.MULTILINE), file
        assert "\ndiff - seen <<'END'\n" in text, file
        assert file.stat().st_mode & stat.S_IXUSR, file


def test_they_need_nothing_of_the_checkout_and_pin_what_they_install() -> None:
    for file in PROGRAMS:
        text = file.read_text()
        assert "lode" not in text.lower(), file
        assert 'work=$(mktemp -d)\ntrap \'rm -rf "$work"\' EXIT\ncd "$work"\n' in text, file
        assert not re.findall(r"go get (?!\S+@v|\"\S+@v)\S+|pip install (?!.*==)", text), file
