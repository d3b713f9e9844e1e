"""Fixtures: a driver of network cards runs beside Lode, which allocates them, too, once it is told so."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, eventually, eventually_none, names
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.mixed import nic_driver
from tests.e2e.mixed.nic_program import DRIVER
from tests.e2e.nodes import on_workers
from tests.e2e.watcher import Watcher

NAMED = Path(__file__).parent / "overlay"
"""The flavor in which Lode allocates the network cards."""
_PUBLISHED = f"spec.driver={DRIVER}"
_LEFT = f"cat /sys/class/net/rdma*/ifalias 2>/dev/null; ls /var/run/cdi/{DRIVER}-* 2>/dev/null"


@pytest.fixture(scope="package", autouse=True)
def network_cards(client: Client, watcher: Watcher) -> Iterator[None]:
    """Each worker has network cards, which kube-scheduler allocates at first; afterwards there are none."""
    install_driver(client)
    workers = set(client.cluster.workers)
    eventually(
        "the network cards are published",
        lambda: workers <= {it["spec"]["nodeName"] for it in client.list("resourceslices", fields=_PUBLISHED)},
    )
    learn_slices(client, watcher)
    yield
    flavors.install(client, flavors.CONTROLLER_ALLOCATED)
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": nic_driver.objects()})
    client.kubectl("delete", "--ignore-not-found", "--cascade=foreground", "-f", "-", input=content, timeout=120)
    client.kubectl("delete", "resourceslices", "--ignore-not-found", *slices(client))


@pytest.fixture(autouse=True)
def nothing_is_left(client: Client, namespace: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """When the pods of a test have ended, no network card is prepared."""
    yield
    client.delete(namespace, "pods")
    eventually_none("no network card is prepared", lambda: "".join(on_workers(client, _LEFT).values()))


def install_driver(client: Client, version: str = "1") -> None:
    """Install a version of the driver, and wait until it runs everywhere."""
    client.apply("kube-system", *nic_driver.objects(version))
    command = ("rollout", "status", "daemonset/nic-driver", "--timeout=120s")
    client.kubectl("-n", "kube-system", *command, timeout=130)


def slices(client: Client) -> list[str]:
    """The names of the slices with network cards."""
    return names(client.list("resourceslices", fields=_PUBLISHED))
