"""The parts of the site and their pages, from the map that readers of the repository have. Pure."""

import posixpath
import re
from dataclasses import dataclass
from typing import Final

HOME: Final = "README"
"""The first page of the site, as Sphinx names it: its path without ``.md``."""
MAP: Final = "docs/README"
"""The page that lists all others, but for those of the next one."""
DECISIONS: Final = "docs/decisions/README"
"""The page that lists the decisions."""


@dataclass(frozen=True, slots=True)
class Part:
    """A heading of the map."""

    title: str
    pages: tuple[str, ...]
    """Paths in the repository, without ``.md``, in the order in which the map lists them."""


def parts_of(text: str, page: str = MAP) -> tuple[Part, ...]:
    """Return a part for each heading of a page that lists others, with the pages below it."""
    sections = [section.partition("\n") for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    found = (Part(title.strip(), _pages(body, posixpath.dirname(page))) for title, _, body in sections)
    return tuple(part for part in found if part.pages)


def _pages(section: str, folder: str) -> tuple[str, ...]:
    """The pages that items of lists begin with; what their text links to is listed elsewhere."""
    links = re.findall(r"^- \[[^\]]*\]\(([^)#]+)\.md\)", section, re.MULTILINE)
    return tuple(posixpath.normpath(posixpath.join(folder, link)) for link in links)


def toctrees(parts: tuple[Part, ...]) -> str:
    """Return the table of contents in the words of MyST, for the end of the first page."""
    return "".join([_toctree("", (MAP,)), subtrees(parts), _toctree("Look up", ("genindex",))])


def subtrees(parts: tuple[Part, ...]) -> str:
    """Return the parts in the words of MyST, for the end of the page that lists them."""
    return "".join(_toctree(part.title, part.pages) for part in parts)


def _toctree(caption: str, pages: tuple[str, ...]) -> str:
    option = f":caption: {caption}\n" if caption else ""
    entries = "\n".join(page if page == "genindex" else f"/{page}" for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n{option}\n{entries}\n```\n"
