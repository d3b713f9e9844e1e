"""docs/decisions: each page is short, has a date, and says what was decided, what not, and what follows."""

import re

import pytest

from tests.unit.docs.pages import PAGES, page

DECISIONS = [name for name in PAGES if name.startswith("docs/decisions/") and not name.endswith("/README.md")]
WORDS = 450


@pytest.mark.parametrize("path", DECISIONS)
def test_a_page_has_the_form_of_a_decision(path: str) -> None:
    text = page(path)
    assert re.match(r"# .+\n\nDecided 20\d\d-\d\d-\d\d\.\n", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Rejected", "Consequences"]
    assert len(text.split()) <= WORDS, f"{path}: shorten it to {WORDS} words"


def test_the_index_has_the_title_of_each_page() -> None:
    listed = re.findall(r"^- \[(.+)\]\(([\w-]+\.md)\)$", page("docs/decisions/README.md"), re.MULTILINE)
    assert {f"docs/decisions/{name}": title for title, name in listed} == {
        path: page(path).partition("\n")[0].removeprefix("# ") for path in DECISIONS
    }
