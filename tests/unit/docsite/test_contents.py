"""The parts of the site follow from the map that readers of the repository have."""

from docsite.contents import HOME, MAP, Part, parts_of, toctrees
from tests.unit.docs.pages import PAGES, page

TEXT = """# Map

- [zero](zero.md): before the first heading, so in no part.

## Users

- [one](one.md): see also [two](two.md).
- [three](../three.md), and words.

## Nobody

No page.

## Operators

- [four](deep/four.md#place)
- [five](deep/five.md)
"""


def test_a_heading_with_items_that_begin_with_pages_is_a_part() -> None:
    assert parts_of(TEXT) == (Part("Users", ("docs/one", "three")), Part("Operators", ("docs/deep/five",)))


def test_the_table_of_contents_has_the_map_the_parts_and_the_index() -> None:
    text = toctrees(parts_of(TEXT))
    assert text.count("```{toctree}\n:hidden:\n") == 4
    assert ":caption: Users\n\n/docs/one\n/three\n```" in text
    assert text.index(f"/{MAP}") < text.index("/docs/one") < text.index("/docs/deep/five") < text.index("genindex")


def test_every_page_of_the_repository_is_in_one_part() -> None:
    listed = [name for part in parts_of(page(f"{MAP}.md")) for name in part.pages]
    assert sorted(listed) == sorted(name.removesuffix(".md") for name in {*PAGES} - {f"{HOME}.md", f"{MAP}.md"})
