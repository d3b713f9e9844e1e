"""The node of most tests about partitions."""

import pytest

from tests.unit.kubeletplugin.rig import Rig


@pytest.fixture
def rig() -> Rig:
    """A node with two cards that can be partitioned."""
    return Rig("a100x2")
