from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import HostedNode

MakeNode = Callable[..., HostedNode]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """Makes the node of the test, with other settings or times."""
    made: list[HostedNode] = []

    def make(**options: Any) -> HostedNode:
        made.append(HostedNode(tmp_path, **options))
        return made[-1].start()

    yield make
    for node in made:
        node.end()


@pytest.fixture
def node(make_node: MakeNode) -> HostedNode:
    return make_node()
