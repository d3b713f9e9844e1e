"""The tutorials, as they are written: their commands print what the pages show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import eventually
from tests.contract.tutorials import BRIDGED, ROOT, Reader, cluster

pytestmark = pytest.mark.timeout(400)

PAGES = sorted(page for page in (ROOT / "docs/tutorials").glob("*.md") if page.name != BRIDGED)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with cluster(tmp_path_factory.mktemp("tutorials")) as reader:
        yield reader


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows_and_leaves_nothing(page: Path, reader: Reader) -> None:
    shown = reader.follow(page.read_text())
    assert shown > 5
    eventually(lambda: not reader.left(), 60)
