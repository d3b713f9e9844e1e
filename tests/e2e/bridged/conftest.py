"""Fixtures: the driver plays the kubelet for device plugins."""

from collections.abc import Iterator

import pytest

from tests.e2e import flavors
from tests.e2e.bridged import vendor_plugin
from tests.e2e.client import Client
from tests.e2e.conftest import a_namespace
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.watcher import Watcher


@pytest.fixture(scope="package")
def bridging(client: Client, watcher: Watcher) -> Iterator[None]:
    """The driver serves device plugins; afterwards it has its simulated cards again, and their files are removed."""
    flavors.install(client, flavors.BRIDGING)
    yield
    for node in client.cluster.workers:
        client.cluster.node_exec(node, "rm", "-f", *vendor_plugin.LEFT)
    flavors.install(client, flavors.CONTROLLER_ALLOCATED)
    learn_slices(client, watcher)


@pytest.fixture
def namespace(client: Client, watcher: Watcher) -> Iterator[str]:
    """A new namespace. The devices of a plugin that was in it stay published for a while."""
    with a_namespace(client, watcher) as name:
        yield name
