"""Pods that ask for a resource of a device plugin by its name run as they are, whoever allocates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import flavors
from tests.e2e.adopted import adopt_from
from tests.e2e.bridged import vendor_plugin
from tests.e2e.bridged.offered import served
from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.pods import pod
from tests.e2e.test_cards import lode
from tests.e2e.watcher import Watcher

_FOLDER = Path(__file__).parent
ADOPTING = _FOLDER / "adopting"
SCHEDULER_ALLOCATED = _FOLDER / "scheduler-allocated"
BOTH_CARDS = ["card0", "card1", "render0", "render1"]


@pytest.fixture
def adopting(client: Client, bridging: None) -> Iterator[None]:
    """The controller allocates, and a namespace can adopt pods that ask for the resource."""
    client.kubectl("apply", "-k", str(ADOPTING))
    yield
    client.kubectl("delete", "-k", str(ADOPTING), "--ignore-not-found")


@pytest.fixture
def by_scheduler(client: Client, bridging: None) -> Iterator[None]:
    """kube-scheduler allocates."""
    flavors.install(client, SCHEDULER_ALLOCATED)
    yield
    flavors.install(client, flavors.BRIDGING, SCHEDULER_ALLOCATED)


def old_pod(name: str, count: int) -> Object:
    """A pod as it is written for AMD's device plugin."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"]["limits"] = {vendor_plugin.resource("amd"): str(count)}
    return made


def make_classes(client: Client, *options: str) -> str:
    """Make the classes that ``lode classes`` prints for what the nodes publish."""
    printed = lode(client, "classes", *options)
    assert printed.returncode == 0, printed.stderr
    return client.kubectl("apply", "-f", "-", input=printed.stdout)


def cards_in(client: Client, namespace: str, name: str) -> list[str]:
    """The device files of cards in a container."""
    return sorted(client.exec(namespace, name, "main", "ls", "/dev/dri").split())


def check_two_pods(client: Client, namespace: str) -> None:
    """A pod has both cards, so the next one waits until it has ended."""
    client.create(namespace, old_pod("both", 2))
    client.wait_until_ready(namespace, "both")
    assert cards_in(client, namespace, "both") == BOTH_CARDS
    client.create(namespace, old_pod("next", 1))
    eventually("it is said why the next one waits", lambda: client.messages(namespace, "next"))
    assert "nodeName" not in client.get("pods", "next", namespace)["spec"]
    client.delete(namespace, "pods", "both")
    client.wait_until_ready(namespace, "next")
    assert cards_in(client, namespace, "next") in (["card0", "render0"], ["card1", "render1"])


def test_an_adopted_pod_gets_its_devices_from_the_controller(
    client: Client, adopting: None, watcher: Watcher, namespace: str
) -> None:
    served(client, namespace, watcher, "amd", client.cluster.workers[1])
    make_classes(client)
    adopt_from(client, namespace, "plain")
    check_two_pods(client, namespace)
    (claim,) = client.claims(namespace)["next"].values()
    assert len(results(claim)) == 1


@pytest.mark.release  # Lode is installed twice more
def test_an_unchanged_pod_gets_its_devices_from_kube_scheduler(
    client: Client, by_scheduler: None, watcher: Watcher, namespace: str
) -> None:
    served(client, namespace, watcher, "amd", client.cluster.workers[1])
    made = make_classes(client, "--allocator", "kube-scheduler")
    try:
        check_two_pods(client, namespace)
        said = client.get("pods", "next", namespace)["status"]["extendedResourceClaimStatus"]
        assert len(results(client.get("resourceclaims", said["resourceClaimName"], namespace))) == 1
    finally:
        client.kubectl("delete", *(line.split()[0] for line in made.splitlines()))
