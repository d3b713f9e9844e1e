"""Fixtures: a rack of two nodes and one node of another rack, beside NVIDIA's driver for ComputeDomains.

The driver is a stand-in, which publishes what NVIDIA's does. A channel is prepared once the daemon's device is on the
node, as there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from driver.files import SystemFiles
from kubeletplugin.hardware.simulated import load_profile
from testclusters.kind import PROFILE_LABEL, WORKERS
from tests.compute_domains import CLASSES, DEVICES, DRIVER
from tests.e2e import flavors
from tests.e2e.client import Client, eventually, eventually_none
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.nodes import on_workers
from tests.e2e.otherdrivers.driver import OtherDriver
from tests.e2e.watcher import Watcher

PROFILES = ("gb200x4", "gb200x4", "gb300x4")
"""Of each worker; each of these profiles is one NVLink domain."""
IN_CONTAINER = "/dev/nvidia-caps-imex-channels/channel0"
"""The file of the channel in a container."""
_GIVEN = {"channel-0": {"deviceNode": IN_CONTAINER, "needs": "daemon-0"}, "daemon-0": {"deviceNode": "/dev/imex-mgmt"}}
COMPUTE_DOMAINS = OtherDriver(DRIVER, "compute-domains", CLASSES, [{**it, **_GIVEN[it["name"]]} for it in DEVICES])


@pytest.fixture(scope="package", autouse=True)
def racks(client: Client, watcher: Watcher) -> Iterator[None]:
    """Each worker has four cards and a channel; afterwards they are as before."""
    try:
        simulate(client, dict(zip(client.cluster.workers, PROFILES, strict=True)))
        COMPUTE_DOMAINS.install(client)
        learn_slices(client, watcher)
        yield
    finally:
        flavors.install(client, flavors.CONTROLLER_ALLOCATED)
        COMPUTE_DOMAINS.remove(client)
        labels = [labels[PROFILE_LABEL] for labels in WORKERS]
        simulate(client, dict(zip(client.cluster.workers, labels, strict=True)))
        learn_slices(client, watcher)


def simulate(client: Client, profiles: Mapping[str, str]) -> None:
    """Let each node have the cards of a profile, and wait until it has published them."""
    for node, profile in profiles.items():
        client.kubectl("label", "node", node, f"{PROFILE_LABEL}={profile}", "--overwrite")
    cards = {node: load_profile(profile, SystemFiles()).cards for node, profile in profiles.items()}
    wanted = {node: {card.type for card in cards[node]} for node in profiles}
    eventually("the cards are published", lambda: {node: types(client, node) for node in profiles} == wanted)


def types(client: Client, node: str) -> set[str]:
    """The types of the cards that a node has published."""
    listed = client.list("resourceslices", fields=f"spec.nodeName={node},spec.driver=lode.dev")
    return {device["attributes"]["type"]["string"] for it in listed for device in it["spec"].get("devices", [])}


@pytest.fixture
def named(client: Client, tmp_path: Path) -> None:
    """Lode allocates the channels, too."""
    flavors.install(client, flavors.also_allocating(tmp_path, DRIVER))


@pytest.fixture(autouse=True)
def nothing_is_left(client: Client, namespace: str) -> Iterator[None]:
    """When the pods of a test have ended, no channel is prepared."""
    yield
    client.delete(namespace, "jobs,pods")
    left = f"ls {COMPUTE_DOMAINS.files} 2>/dev/null"
    eventually_none("no channel is prepared", lambda: "".join(on_workers(client, left).values()))
