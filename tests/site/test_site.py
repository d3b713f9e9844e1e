"""The site has every page, an index and a search, needs no network, and is not built if a page has a fault."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import PAGES, ROOT, page

SOUND = {
    "README.md": "# Home\n\n[The map](docs/README.md#the-part).\n",
    "docs/README.md": "# Map\n\n## The part\n\n- [one](one.md): a page.\n",
    "docs/one.md": "# One\n\n```mermaid\nflowchart TD\n  a --> b\n```\n",
}
FAULTY = {
    "a link to a page that is missing": ("docs/one.md", "# One\n\n[two](two.md)\n", "docs/one.md:3"),
    "a link to a heading that is missing": ("docs/one.md", "# One\n\n[two](README.md#two)\n", "docs/one.md:3"),
    "a link to a file that is missing": ("docs/one.md", "# One\n\n[two](two.yaml)\n", "docs/one.md:3"),
    "a page that the map does not list": ("docs/two.md", "# Two\n", "docs/two.md"),
    "a page of the map that is missing": ("docs/README.md", "# Map\n\n## The part\n\n- [x](x.md)\n", "README.md"),
    "a drawing with an error": ("docs/one.md", "# One\n\n```mermaid\nflowchart TD\n  a --\n```\n", "docs/one.md:3"),
}


def build(source: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "docsite", str(out), "--source", str(source)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


def repository(folder: Path, **files: str) -> Path:
    for name, text in (SOUND | files).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_small_repository_without_a_fault_is_built(tmp_path: Path) -> None:
    done = build(repository(tmp_path / "from"), tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (tmp_path / "out/docs/one.html").read_text()


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_of_a_page_ends_the_build_with_its_place(fault: str, tmp_path: Path) -> None:
    name, text, place = FAULTY[fault]
    done = build(repository(tmp_path / "from", **{name: text}), tmp_path / "out")
    assert done.returncode == 1
    assert place in done.stderr


def test_the_first_page_leads_to_every_page(site: Path) -> None:
    home = (site / "README.html").read_text()
    assert "url=README.html" in (site / "index.html").read_text()
    pages = [name.removesuffix(".md") for name in PAGES if name != "README.md"]
    assert [name for name in pages if f'href="{name}.html"' not in home] == []
    assert [name for name in pages if not (site / f"{name}.html").exists()] == []


def test_nothing_that_a_page_shows_comes_from_the_network(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc=["'](?:https?:)?//|<link[^>]*href=["'](?:https?:)?//"""
    )
    styles = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")
    assert [str(file) for file in site.rglob("*.html") if loaded.search(file.read_text())] == []
    assert [str(file) for file in site.rglob("*.css") if styles.search(file.read_text())] == []


def test_the_index_has_every_term_of_the_glossary_and_every_setting(site: Path) -> None:
    index = (site / "genindex.html").read_text()
    terms = re.findall(r"^- \*\*([^*]+)\*\*", page("docs/glossary.md"), re.MULTILINE)
    terms += re.findall(r"^\| `(controller\.\w+)` \|", page("docs/settings.md"), re.MULTILINE)
    assert len(terms) > 50
    assert [term for term in terms if f">{term}</a>" not in index] == []


def test_the_search_knows_the_words_of_the_pages(site: Path) -> None:
    """It keeps the stem of each word."""
    words = (site / "searchindex.js").read_text()
    assert [stem for stem in ("hamicor", "schedulingg", "resourceclaimtempl") if f'"{stem}":[' not in words] == []
