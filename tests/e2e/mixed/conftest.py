"""Fixtures: a driver of network cards runs beside Lode, which allocates them, too, once it is told so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, eventually_none
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.mixed.network_cards import network_cards
from tests.e2e.nodes import on_workers
from tests.e2e.watcher import Watcher

NAMED = Path(__file__).parent / "overlay"
"""The flavor in which Lode allocates the network cards."""
_LEFT = f"cat /sys/class/net/rdma*/ifalias 2>/dev/null; ls {network_cards().files} 2>/dev/null"


@pytest.fixture(scope="package", autouse=True)
def published_network_cards(client: Client, watcher: Watcher) -> Iterator[None]:
    """Each worker has network cards, which kube-scheduler allocates at first; afterwards there are none."""
    network_cards().install(client)
    learn_slices(client, watcher)
    yield
    flavors.install(client, flavors.CONTROLLER_ALLOCATED)
    network_cards().remove(client)


@pytest.fixture(autouse=True)
def nothing_is_left(client: Client, namespace: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """When the pods of a test have ended, no network card is prepared."""
    yield
    client.delete(namespace, "pods")
    eventually_none("no network card is prepared", lambda: "".join(on_workers(client, _LEFT).values()))
