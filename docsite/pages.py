"""What is changed in a page on its way to the site: contents, drawings, the index. A Sphinx extension."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mmdr
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from docsite.contents import DECISIONS, HOME, MAP, parts_of, subtrees, toctrees

_LOGGER = logging.getLogger(__name__)
_REDIRECT = '<!doctype html><title>Lode</title><meta http-equiv="refresh" content="0; url={home}.html">\n'


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx call the functions below."""
    app.connect("source-read", _add_contents)
    app.connect("doctree-read", _draw)
    app.connect("doctree-read", _add_entries)
    app.connect("build-finished", _lead_home)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    if page == HOME:
        source[0] += toctrees(parts_of(Path(app.srcdir, f"{MAP}.md").read_text()))
    elif page == DECISIONS:
        source[0] += subtrees(parts_of(source[0], DECISIONS))


def _draw(app: Sphinx, tree: nodes.document) -> None:
    """Put a drawing in place of each block ``mermaid``. One that cannot be drawn is a warning."""
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") != "mermaid":
            continue
        try:
            drawing = mmdr.render(block.astext()).svg()
        except ValueError as error:
            _LOGGER.warning("the drawing cannot be drawn: %s", error, location=block)
            continue
        block.replace_self(nodes.raw("", f'<div class="drawing">{drawing}</div>', format="html"))


def _add_entries(app: Sphinx, tree: nodes.document) -> None:
    """Enter into the index what lists define in bold, and what rows of tables define as code."""
    entries = app.env.domains.index_domain.entries[app.env.current_document.docname]
    for number, (node, terms) in enumerate(_definitions(tree)):
        target = f"term-{number}"
        node["ids"].append(target)
        entries.extend(("single", term.replace(";", ","), target, "", None) for term in terms)


def _definitions(tree: nodes.document) -> Iterator[tuple[nodes.Element, list[str]]]:
    """Items of lists and rows of tables, each with the terms that it defines: it begins with them."""
    for item in tree.findall(nodes.list_item):
        bold = [it.astext() for it in item.findall(nodes.strong)][:1]
        if bold and item.astext().startswith(bold[0]) and not bold[0].endswith("."):
            yield item, bold
    for row in tree.findall(nodes.row):
        first = next(iter(row.findall(nodes.entry)))
        codes = [code.astext() for code in first.findall(nodes.literal)]
        if codes and first.astext().startswith(codes[0]):
            yield row, codes


def _lead_home(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        Path(app.outdir, "index.html").write_text(_REDIRECT.format(home=HOME))
