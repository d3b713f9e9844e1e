"""A card and a network card in one claim: both drivers prepare it, and one program allocates.

The first test makes Lode allocate the network cards while kube-scheduler does; after every event of a claim, the
watcher looks whether a device is in two claims.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, Object, eventually, names, results
from tests.e2e.container import container_view
from tests.e2e.flavors import wait_until_installed
from tests.e2e.mixed.conftest import NAMED
from tests.e2e.mixed.network_cards import CARDS, CLASS, DRIVER, LABEL, network_cards
from tests.e2e.nodes import PLUGIN_NAMESPACE, PLUGINS, thaw
from tests.e2e.pods import pod, request, template
from tests.e2e.test_killed_programs import kill_in_containers

NIC = {"name": "nic", "exactly": {"deviceClassName": CLASS}}
ROOT = "resource.kubernetes.io/pcieRoot"
MORE = 4
"""Pods that have to wait for a network card."""


def running(client: Client, namespace: str) -> list[str]:
    return [it["metadata"]["name"] for it in client.list("pods", namespace) if it["status"].get("phase") == "Running"]


def nics(client: Client, namespace: str) -> dict[str, str]:
    """The interface that the container of each running pod is told of."""
    return {
        name: client.exec(namespace, name, "main", "sh", "-c", "echo $NIC_NIC").strip()
        for name in running(client, namespace)
    }


@contextmanager
def created_meanwhile(client: Client, namespace: str, pods: list[Object]) -> Iterator[None]:
    """Create these pods one after the other during the block."""

    def create() -> None:
        for one in pods:
            client.create(namespace, one)

    thread = threading.Thread(target=create)
    thread.start()
    yield
    thread.join()


@pytest.mark.release
def test_no_device_has_two_claims_when_the_setting_comes_into_force(client: Client, namespace: str) -> None:
    places = len(CARDS) * len(client.cluster.workers)
    client.create(namespace, template("nic", NIC), pod("before", "nic"))
    client.wait_until_ready(namespace, "before")
    with created_meanwhile(client, namespace, [pod(f"nic-{number}", "nic") for number in range(places + MORE - 1)]):
        flavors.install(client, NAMED)
    eventually("every network card is with a pod", lambda: len(running(client, namespace)) == places)
    held = running(client, namespace)
    devices = [device for name in held for device in client.devices(namespace, name)]
    assert len(set(devices)) == places
    client.delete(namespace, "pods", *held[:MORE])
    eventually("the others have what is free", lambda: len(running(client, namespace)) == places, 240)
    waited = set(running(client, namespace)) - set(held)
    assert all("lode.dev/Allocated=True" in client.messages(namespace, name) for name in waited)


def test_a_claim_has_a_card_and_the_network_card_of_one_pcie_root(client: Client, namespace: str) -> None:
    flavors.install(client, NAMED)
    constraint = {"requests": ["card", "nic"], "matchAttribute": ROOT}
    client.create(namespace, template("both", request("gpu"), NIC, constraints=[constraint]))
    client.create(namespace, *(pod(f"pod-{number}", "both", profile="a100x4") for number in range(3)))
    eventually("two have devices", lambda: len(running(client, namespace)) == 2)
    pods = running(client, namespace)
    (waits,) = set(names(client.list("pods", namespace))) - set(pods)
    eventually("the third is told why not", lambda: "request nic" in client.messages(namespace, waits))
    check_views(client, namespace)
    kill_and_change_plugins(client)
    assert running(client, namespace) == pods
    client.delete(namespace, "pods", pods[0])
    client.wait_until_ready(namespace, waits, before_check=lambda: thaw(client))
    check_views(client, namespace)


def kill_and_change_plugins(client: Client) -> None:
    """Kill the plugins of the cards and of the network cards; then put others in their place."""
    for label in (PLUGINS, LABEL):
        kill_in_containers(client, label)
    wait_until_installed(client)
    network_cards(version=2).install(client)
    client.kubectl("-n", PLUGIN_NAMESPACE, "rollout", "restart", "daemonset")
    wait_until_installed(client)


def by_request(claims: Mapping[str, Object]) -> dict[str, Object]:
    """What the claims of a pod have, by request; each request has one device."""
    return {it["request"]: it for claim in claims.values() for it in results(claim)}


def check_views(client: Client, namespace: str) -> None:
    """The container of each running pod sees its card and is told of its network card, which have one PCIe root."""
    roots = {
        (it["spec"]["driver"], it["spec"]["pool"]["name"], device["name"]): root["string"]
        for it in client.list("resourceslices")
        for device in it["spec"].get("devices", [])
        if (root := device["attributes"].get(ROOT))
    }
    interfaces = {card["name"]: card["ifName"] for card in CARDS}
    told, claims = nics(client, namespace), client.claims(namespace)
    for name in told:
        held = by_request(claims[name])
        card, nic = held["card"], held["nic"]
        assert told[name] == interfaces[nic["device"]]
        assert container_view(client, namespace, name, "main").devices == {card["device"]}
        assert roots["lode.dev", card["pool"], card["device"]] == roots[DRIVER, nic["pool"], nic["device"]]
    assert told
