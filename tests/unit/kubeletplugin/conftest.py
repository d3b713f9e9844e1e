"""A folder whose sockets' paths stay within the 107 bytes of AF_UNIX, wherever pytest keeps its own."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lode-") as folder:
        yield Path(folder)
