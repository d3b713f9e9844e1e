"""The node of most tests about partitions."""

import pytest

from tests.unit.kubeletplugin.plugin_node import PluginNode


@pytest.fixture
def rig() -> PluginNode:
    """A node with two cards that can be partitioned."""
    return PluginNode("a100x2")
