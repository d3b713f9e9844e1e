"""Cards of a node that a device plugin hands out, and the pods that ask it for them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.client import Client, Object, eventually, eventually_none
from tests.e2e.hardware import device_plugin
from tests.e2e.hardware.conftest import Machines, cards_of
from tests.e2e.pods import pod

RESOURCE = "nvidia.com/gpu"
TAINT = "lode.dev/other-driver"
_LABEL = "example.com/device-plugin"
_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def whole_cards(client: Client, node: str) -> dict[str, Object]:
    """The devices of a node that are whole GPUs, by name."""
    listed = client.list("resourceslices", fields=f"spec.nodeName={node},spec.driver=lode.dev")
    devices = [device for it in listed for device in it["spec"].get("devices", [])]
    return {device["name"]: device for device in devices if device["attributes"]["kind"]["string"] == "gpu"}


def closed(client: Client, node: str) -> set[str]:
    """The cards that the plugin keeps for another driver."""
    cards = whole_cards(client, node).values()
    return {device["name"] for device in cards if any(it["key"] == TAINT for it in device.get("taints") or ())}


def old_pod(name: str) -> Object:
    """A pod that asks the device plugin for a card."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: "1"}
    return made


def given_out(client: Client, node: str) -> dict[str, set[str]]:
    """The uuids of the cards that the kubelet has given to containers, by the uids of their pods, also ended ones.

    The kubelet forgets those of an ended pod when the next pod asks for a device.
    """
    printed = client.cluster.node_exec(node, "cat", _CHECKPOINT).stdout
    held: dict[str, set[str]] = {}
    for entry in json.loads(printed)["Data"]["PodDeviceEntries"] or ():
        if entry["ResourceName"] == RESOURCE:
            held.setdefault(entry["PodUID"], set()).update(*entry["DeviceIDs"].values())
    return held


@contextmanager
def handed_out(client: Client, machines: Machines, namespace: str) -> Iterator[str]:
    """A node whose eight cards a device plugin hands out, during the block."""
    node = machines.nvidia.node
    uuids = cards_of(client, machines.nvidia)
    assert len(uuids) == 8
    client.kubectl("label", "node", node, f"{_LABEL}=on")
    client.create(namespace, device_plugin.daemon_set({_LABEL: "on"}, RESOURCE, *sorted(uuids)))
    eventually("the cards of the device plugin are closed to claims", lambda: len(closed(client, node)) == 8)
    yield node
    client.delete(namespace, "daemonsets", device_plugin.NAME)
    client.kubectl("label", "node", node, f"{_LABEL}-")
    client.kubectl("annotate", "node", node, "lode.dev/handover-")
    client.delete(namespace, "pods")
    eventually_none("all cards are open to claims again", lambda: closed(client, node))
