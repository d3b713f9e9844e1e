"""A gang on devices of a device plugin, of which each node has two."""

import pytest

from tests.e2e.bridged import vendor_plugin
from tests.e2e.bridged.offered import FREE, cards, offered, served
from tests.e2e.client import Client, eventually
from tests.e2e.pods import pod
from tests.e2e.test_gangs import GATE, gang
from tests.e2e.watcher import Watcher


@pytest.mark.usefixtures("bridging")
def test_four_members_start_on_the_devices_of_two_nodes_or_none_does(
    client: Client, watcher: Watcher, namespace: str
) -> None:
    *nodes, _ = client.cluster.workers
    served(client, namespace, watcher, "amd", *nodes)
    ill, vendors = vendor_plugin.IDS[1], f"plugin-amd-{nodes[1]}"
    client.exec(namespace, vendors, "main", "sh", "-c", f"echo {ill} > {vendor_plugin.ILL}")
    eventually("a card is missing", lambda: offered(client, "amd", nodes[1])[ill] == ["lode.dev/unhealthy"])

    (wanted,) = cards("amd", 1)["spec"]["spec"]["devices"]["requests"]
    members = [f"member-{number}" for number in range(4)]
    client.create(namespace, gang("train", 4, wanted), *(pod(name, "train") for name in members))
    eventually("it is said why", lambda: "of 4 members fit in" in client.messages(namespace, members[0]))
    assert not watcher.held(namespace)
    waiting = [client.get("pods", name, namespace)["spec"].get("schedulingGates", []) for name in members]
    assert waiting == [[{"name": GATE}]] * 4

    client.exec(namespace, vendors, "main", "rm", vendor_plugin.ILL)
    eventually("the card is back", lambda: offered(client, "amd", nodes[1]) == FREE)
    client.wait_until_ready(namespace, *members)
    held = sorted(device for name in members for device in client.devices(namespace, name))
    assert len(set(held)) == 4
    assert [device.partition("/")[0] for device in held] == [nodes[0], nodes[0], nodes[1], nodes[1]]
    seen = [client.exec(namespace, name, "main", "ls", "/dev/dri").split() for name in members]
    assert sorted(seen) == [["card0", "render0"]] * 2 + [["card1", "render1"]] * 2
