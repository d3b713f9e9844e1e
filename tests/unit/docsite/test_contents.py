"""The parts of the site follow from the map that readers of the repository have."""

from docsite.contents import DECISIONS, HOME, MAP, Part, parts_of, subtrees, toctrees
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


def test_pages_of_another_list_are_in_its_folder_and_below_it() -> None:
    parts = parts_of("# List\n\n## Some\n\n- [A way](way.md)\n", DECISIONS)
    assert parts == (Part("Some", ("docs/decisions/way",)),)
    assert subtrees(parts) == "\n```{toctree}\n:hidden:\n:caption: Some\n\n/docs/decisions/way\n```\n"


def test_every_page_of_the_repository_is_in_one_part() -> None:
    lists = {name: parts_of(page(f"{name}.md"), name) for name in (MAP, DECISIONS)}
    listed = [name for parts in lists.values() for part in parts for name in part.pages]
    assert sorted(listed) == sorted(name.removesuffix(".md") for name in {*PAGES} - {f"{HOME}.md", f"{MAP}.md"})
