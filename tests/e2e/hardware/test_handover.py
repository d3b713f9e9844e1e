"""A node changes from a device plugin to this driver while the pods of both run, and back."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import Client, Object, eventually, eventually_none
from tests.e2e.hardware import device_plugin
from tests.e2e.hardware.conftest import Machines, cards_of
from tests.e2e.pods import pod, request, template
from tests.e2e.test_cards import lode

RESOURCE = "nvidia.com/gpu"
LABEL = "example.com/device-plugin"
TAINT = "lode.dev/other-driver"


def closed(client: Client, node: str) -> set[str]:
    """The cards that the plugin keeps for another driver."""
    listed = client.list("resourceslices", fields=f"spec.nodeName={node},spec.driver=lode.dev")
    devices = [device for it in listed for device in it["spec"].get("devices", [])]
    whole = [device for device in devices if device["attributes"]["kind"]["string"] == "gpu"]
    return {device["name"] for device in whole if any(it["key"] == TAINT for it in device.get("taints") or ())}


@pytest.fixture
def node(client: Client, machines: Machines, namespace: str) -> Iterator[str]:
    """A node with eight cards that a device plugin hands out."""
    node = machines.nvidia.node
    uuids = cards_of(client, machines.nvidia)
    assert len(uuids) == 8
    client.kubectl("label", "node", node, f"{LABEL}=on")
    client.create(namespace, device_plugin.daemon_set({LABEL: "on"}, RESOURCE, *sorted(uuids)))
    eventually("the cards of the device plugin are closed to claims", lambda: len(closed(client, node)) == 8)
    yield node
    client.delete(namespace, "daemonsets", device_plugin.NAME)
    client.kubectl("label", "node", node, f"{LABEL}-")
    client.kubectl("annotate", "node", node, "lode.dev/handover-")
    client.delete(namespace, "pods")
    eventually_none("all cards are open to claims again", lambda: closed(client, node))


def old_pod(name: str) -> Object:
    """A pod that has a card from the device plugin."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: "1"}
    return made


def containers(client: Client, namespace: str, *names: str) -> list[Any]:
    """The containers of pods, and how often each was restarted."""
    statuses = [client.get("pods", name, namespace)["status"]["containerStatuses"][0] for name in names]
    return [(it["containerID"], it["restartCount"]) for it in statuses]


def test_old_pods_run_on_while_the_other_cards_serve_claims_and_back(client: Client, namespace: str, node: str) -> None:
    old = [f"old-{number}" for number in range(4)]
    client.create(namespace, *map(old_pod, old))
    client.wait_until_ready(namespace, *old)
    running = containers(client, namespace, *old)

    taken = lode(client, "handover", node, "--timeout=100s")
    assert taken.returncode == 0, taken.stdout + taken.stderr
    eventually("the cards of the old pods are the only ones that are closed", lambda: len(closed(client, node)) == 4)
    theirs = closed(client, node)
    new = [f"new-{number}" for number in range(4)]
    on_node = {"kubernetes.io/hostname": node}
    client.create(namespace, template("card", request()), *(pod(it, "card", nodeSelector=on_node) for it in new))
    client.wait_until_ready(namespace, *old, *new)
    ours = {device.rpartition("/")[2] for name in new for device in client.devices(namespace, name)}
    assert len(ours) == 4
    assert not ours & theirs

    refused = lode(client, "handover", node, "--back", "--timeout=100s")
    assert refused.returncode == 1
    assert f"first kubectl lode drain {node}" in refused.stderr
    client.delete(namespace, "pods", *new)
    back = lode(client, "handover", node, "--back", "--timeout=100s")
    assert back.returncode == 0, back.stdout + back.stderr
    assert len(closed(client, node)) == 8
    more = [f"more-{number}" for number in range(4)]
    client.create(namespace, *map(old_pod, more))
    client.wait_until_ready(namespace, *old, *more)
    assert containers(client, namespace, *old) == running
    assert {restarts for _, restarts in containers(client, namespace, *more)} == {0}
