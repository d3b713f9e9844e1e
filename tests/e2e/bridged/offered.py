"""Devices of device plugins in the slices of the driver, and claims for them."""

from collections.abc import Iterator

from tests.e2e.bridged import vendor_plugin
from tests.e2e.client import Client, Object, eventually, names
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.pods import request, template
from tests.e2e.watcher import Watcher

FREE: dict[str, list[str]] = {name: [] for name in vendor_plugin.IDS}
"""All devices of a plugin on a node, without a taint."""


def cards(way: str, count: int, *, name: str = "cards") -> Object:
    """A claim template for devices of a plugin."""
    selector = f'device.attributes["lode.dev"].resource == "{vendor_plugin.resource(way)}"'
    return template(name, request("device", count, selector))


def offered(client: Client, way: str, node: str) -> dict[str, list[str]]:
    """The devices of a plugin that our slices have on a node, by ID, with the keys of their taints."""
    return {
        it["attributes"]["deviceID"]["string"]: [taint["key"] for taint in it.get("taints", [])]
        for it in devices(client, node)
        if it["attributes"].get("resource", {}).get("string") == vendor_plugin.resource(way)
    }


def devices(client: Client, node: str) -> Iterator[Object]:
    """The devices in our slices of a node."""
    for part in client.list("resourceslices", fields=f"spec.driver=lode.dev,spec.nodeName={node}"):
        yield from part["spec"].get("devices", [])


def served(client: Client, namespace: str, watcher: Watcher, way: str, *nodes: str) -> None:
    """Start a plugin under Lode on these nodes, and wait until its devices can be had."""
    pods = [vendor_plugin.pod(way, node, vendor_plugin.OURS) for node in nodes]
    client.create(namespace, *pods)
    client.wait_until_ready(namespace, *names(pods))  # devices of another test may still be offered
    for node in nodes:
        eventually("the devices are offered", lambda node=node: offered(client, way, node) == FREE)  # type: ignore[misc]
    learn_slices(client, watcher)
