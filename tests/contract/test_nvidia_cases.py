"""What the tests of NVIDIA's DRA driver ask, in our words, on a node with simulated cards."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.contract.nvidia_cases import PlayedNode, played_node

pytestmark = pytest.mark.timeout(400)

CASES = yaml.safe_load(Path("tests/data/nvidia-dra/cases.yaml").read_text())
PLAYED = [case for case in CASES if "objects" in case or "attributes" in case]


@pytest.fixture(scope="module")
def node() -> Iterator[PlayedNode]:
    with TemporaryDirectory(prefix="lode-") as place, played_node(Path(place)) as node:
        yield node


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: f"{case['file']}: {case['case']}")
def test_it_is_as_told_and_nothing_is_left(node: PlayedNode, case: dict[str, Any]) -> None:
    node.play(case)
